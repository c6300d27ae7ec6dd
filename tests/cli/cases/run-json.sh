try "$WEFT" run "$GOLDEN/llama-gqa" --ids 1,5,7 -n 8 --json
try "$WEFT" run "$GOLDEN/llama-gqa" --ids 1 -n 0 --json
try "$WEFT" run "$GOLDEN/gpt2" --ids 3,1 -n 4 -c 4 --json --ignore-eos
