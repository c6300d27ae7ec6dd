try env WEFT_THREADS=many "$WEFT" run "$GOLDEN/llama-gqa" --ids 1 -n 1
try env WEFT_THREADS=-1 "$WEFT" run "$GOLDEN/llama-gqa" --ids 1 -n 1
try env WEFT_RAM_MAX=12Q "$WEFT" inspect "$GOLDEN/llama-gqa"
try env WEFT_KV_TYPE=f8 "$WEFT" inspect "$GOLDEN/llama-gqa"
try env WEFT_THREADS= "$WEFT" run "$GOLDEN/llama-gqa" --ids 1 -n 1
try env WEFT_THREADS=many "$WEFT" help
