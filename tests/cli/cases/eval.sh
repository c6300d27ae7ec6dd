# The last digits belong to the kernel table, and are cut off.
cut_digits() { sed -E 's/([1-9][0-9]{2})[0-9]{3,}(\.[0-9]*)?/\1.../g; s/(0\.[0-9]{3}|[1-9][0-9]*\.[0-9]{2})[0-9]*/\1/g'; }
eval_() { "$WEFT" eval "$@" 2>err | cut_digits; cat err >&2; }
printf '1,2,3,4,5,6,7,8,9,10,11,12\n\n 20,30,40,50,60 \n' >ids.txt
try eval_ "$GOLDEN/llama-gqa" ids.txt --ids
try eval_ "$GOLDEN/llama-gqa" ids.txt --ids -c 4 --stride 2 --json
try eval_ "$GOLDEN/llama-gqa" ids.txt --ids --against "$GOLDEN/llama-gqa"
try eval_ "$GOLDEN/llama-gqa" -f ids.txt --ids --against "$GOLDEN/llama-gqa" --json
"$WEFT" eval "$GOLDEN/llama-gqa" --ids <ids.txt | cut_digits
"$WEFT" eval "$GOLDEN/llama-gqa" - --ids -t 1 -b 3 --json <ids.txt >one
"$WEFT" eval "$GOLDEN/llama-gqa" - --ids -t 2 -b 256 --json <ids.txt >two
cmp one two

# Wrong usage and files.
echo '1,2,x' >wrong.txt
echo '1,2,67' >beyond.txt
echo 7 >short.txt
: >empty.txt
try "$WEFT" eval
try "$WEFT" eval "$GOLDEN/llama-gqa" missing.txt
try "$WEFT" eval "$GOLDEN/llama-gqa" ids.txt
try "$WEFT" eval "$GOLDEN/llama-gqa" --ids ids.txt missing.txt
try "$WEFT" eval "$GOLDEN/llama-gqa" ids.txt -f ids.txt
try "$WEFT" eval "$GOLDEN/llama-gqa" ids.txt --ids --lines
try "$WEFT" eval "$GOLDEN/llama-gqa" wrong.txt --ids
try "$WEFT" eval "$GOLDEN/llama-gqa" beyond.txt --ids
try "$WEFT" eval "$GOLDEN/llama-gqa" short.txt --ids
try "$WEFT" eval "$GOLDEN/llama-gqa" empty.txt --ids
try "$WEFT" eval "$GOLDEN/llama-gqa" ids.txt --ids --stride -1
try "$WEFT" eval "$GOLDEN/llama-gqa" ids.txt --ids -c 8 --stride 9
try "$WEFT" eval "$GOLDEN/llama-gqa" ids.txt --ids -c 513
try "$WEFT" eval "$GOLDEN/llama-gqa" ids.txt --ids --against missing.gguf
try "$WEFT" eval "$GOLDEN/llama-gqa" ids.txt --ids --against "$GOLDEN/gpt2"
try "$WEFT" eval "$GOLDEN/llama-gqa" ids.txt --ids --ram-max 100K
try "$WEFT" eval "$GOLDEN/llama-gqa" ids.txt --ids --agianst x
try "$WEFT" help eval

# Ctrl-C: the result so far, and exit 130.
awk 'BEGIN { for (i = 0; i < 200000; i++) printf "%s%d", i ? "," : "", i % 60; print "" }' >long.txt
"$WEFT" eval "$GOLDEN/llama-gqa" long.txt --ids --stride 1 --json >out 2>err &
pid=$!
until grep -q '^SigCgt:.*[4-7c-f]..[37bf]$' /proc/$pid/status; do sleep 0.02; done # it catches SIGINT; the shell before it does, too, but not SIGTERM
sleep 0.3
kill -INT $pid
wait $pid
echo "-> $?"
sed -E 's/[0-9.]+(e[-+]?[0-9]+)?/N/g' out err
