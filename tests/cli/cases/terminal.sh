# Output on a terminal has bold text unless NO_COLOR is set; other output never has. A progress bar appears after a
# second and disappears at the end.
command -v script >/dev/null || { echo "SKIP script is not here"; exit; }
export TERM=xterm
on_terminal() { script -qec "$*" /dev/null </dev/null | tr '\033' '^'; }
on_terminal "$WEFT" help version | grep -c '^.*^\[1m'
NO_COLOR=1 on_terminal "$WEFT" help version | grep -c '\^\['
"$WEFT" help version | tr '\033' '^' | grep -c '\^\['

mkdir long
sed 's/"max_position_embeddings": 512/"max_position_embeddings": 200000/' "$GOLDEN/llama-gqa/config.json" >long/config.json
ln -s "$GOLDEN/llama-gqa/model.safetensors" long/model.safetensors
awk 'BEGIN { for (i = 0; i < 40000; i++) printf "%s%d", i ? "," : "", i % 60 }' >ids
printf '%s\n' 'echo $$ >pid' 'exec "$WEFT" run long --ids "$(cat ids)" -n 1 -c 200000 -t 1' >long.sh
: >typed
script -qfec "sh long.sh" typed </dev/null >/dev/null &
for i in $(seq 1 600); do
    tr '\r' '\n' <typed 2>/dev/null | grep -q '^prompt \[#* *\] *[0-9]* %  [0-9]* of 40000 tokens' && echo "a bar" && break
    sleep 0.1
done
kill -INT "$(cat pid)"
wait
