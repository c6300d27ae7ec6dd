# The cap on memory, with its numbers left out; then the context.
capped() { "$@" 2>&1 | sed 's/[0-9][0-9]* bytes*/N bytes/g; s/but [0-9]* of/but N of/; s/weft: .*\(memory cap\)/weft: ... \1/'; }
try capped "$WEFT" run "$GOLDEN/llama-gqa" --ids 1 -n 4 --ram-max 10K
try capped "$WEFT" run "$GOLDEN/llama-gqa" --ids 1 -n 4 --ram-max 128KiB --no-mmap
"$WEFT" run "$GOLDEN/llama-gqa" --ids 1 -n 4 --ram-max 128K 2>/dev/null
echo "-> $?"
try "$WEFT" run "$GOLDEN/llama-gqa" --ids 1 -c 513
try "$WEFT" run "$GOLDEN/llama-gqa" --ids 1 -c -5
try "$WEFT" run "$GOLDEN/llama-gqa" --ids 1,2,3,4,5 -c 4
try "$WEFT" run "$GOLDEN/llama-gqa" --ids 1,2,3 -c 8 -n 100

# An option that may be repeated, 256 times at most.
only=$(printf -- '--only x %.0s' $(seq 255))
"$WEFT" trace "$GOLDEN/llama-gqa" --ids 1 $only --only loss --only y 2>&1 | head -n 1
"$WEFT" trace "$GOLDEN/llama-gqa" --ids 1 $only --only token_embd | head -n 1
