# Ctrl-C ends a run with the complete output so far, and exit 130. A long context makes the run long.
mkdir long
sed 's/"max_position_embeddings": 512/"max_position_embeddings": 200000/' "$GOLDEN/llama-gqa/config.json" >long/config.json
ln -s "$GOLDEN/llama-gqa/model.safetensors" long/model.safetensors

"$WEFT" run long --ids 1 -n 200000 -c 200000 --ignore-eos >out 2>err &
pid=$!
while [ ! -s out ] && kill -0 $pid; do sleep 0.02; done
kill -INT $pid
wait $pid
echo "-> $?"
grep -Ec '^[0-9]+(,[0-9]+)*$' out
sed 's/generated [0-9]*/generated N/' err

# interrupted: Ctrl-C for $pid, as soon as it catches SIGINT and SIGTERM. The shell that becomes it catches SIGINT for a
# moment, then ignores it: a signal sent then would be lost.
interrupted()
{
    until grep -q '^SigCgt:.*[4-7c-f]..[37bf]$' /proc/$pid/status; do sleep 0.02; done
    sleep 0.1
    kill -INT $pid
    wait $pid
    echo "-> $?"
}
"$WEFT" run long --ids 1 -n 200000 -c 200000 --ignore-eos --json >out 2>/dev/null &
pid=$!
interrupted
sed 's/\[[0-9,]*\]/[IDS]/' out

ids=$(seq 1 60 | tr '\n' ',')
ids=$(printf "$ids%.0s" $(seq 1 500))
"$WEFT" verify long long --ids "${ids%,}" -t 1 >out 2>err &
pid=$!
interrupted
cat out err
