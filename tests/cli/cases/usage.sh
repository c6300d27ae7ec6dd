# Wrong usage: a message on stderr, nothing on stdout, exit 2.
try "$WEFT" run
try "$WEFT" inspect
try "$WEFT" rnu
try "$WEFT" gronk
try "$WEFT" run "$GOLDEN/llama-gqa"
try "$WEFT" run "$GOLDEN/llama-gqa" --ids 1 --theads 2
try "$WEFT" run "$GOLDEN/llama-gqa" --ids 1 --ctx=8
try "$WEFT" run "$GOLDEN/llama-gqa" --ids 1 --temperature 0
try "$WEFT" run "$GOLDEN/llama-gqa" --ids 1 --gronk
try "$WEFT" run "$GOLDEN/llama-gqa" --ids 1 -p hello
try "$WEFT" run "$GOLDEN/llama-gqa" --ids 1 -n
try "$WEFT" run "$GOLDEN/llama-gqa" --ids 1 -n many
try "$WEFT" run "$GOLDEN/llama-gqa" --ids 1 -n -2
try "$WEFT" run "$GOLDEN/llama-gqa" --ids 1 -n 99999999999999999999
try "$WEFT" run "$GOLDEN/llama-gqa" --ids 1 --json=yes
try "$WEFT" run "$GOLDEN/llama-gqa" --ids 1 --kv-type f8
try "$WEFT" run "$GOLDEN/llama-gqa" --ids 1 --ram-max lots
try "$WEFT" run "$GOLDEN/llama-gqa" --ids 1 --ram-max 8388608T
try "$WEFT" run "$GOLDEN/llama-gqa" --ids 1 --threads -2
try "$WEFT" run "$GOLDEN/llama-gqa" --ids 1 --batch-size 70000
try "$WEFT" run "$GOLDEN/llama-gqa" another --ids 1
try "$WEFT" version now
