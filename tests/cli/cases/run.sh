# A model without vocabulary prints ids, separated by commas. The numbers are checked against traces elsewhere.
for model in llama-gqa gpt2 qwen2 qwen3; do
    try "$WEFT" run "$GOLDEN/$model" --ids 1,5,7,11 -n 12 --ignore-eos
done
try "$WEFT" run -m "$GOLDEN/llama-gqa" --ids=1,5,7 --predict=8 -t 1 -b 2 -c 16 --temp 0
try "$WEFT" run "$GOLDEN/llama-gqa" --ids 1,5,7 -n 8 --kv-type bf16 --no-mmap --ram-max 64M
try "$WEFT" run "$GOLDEN/llama-gqa" --ids 1,5,7 -n 8 --kv-type bf16 --no-pack
try "$WEFT" run "$GOLDEN/llama-gqa" --ids 1 -n 0
try env WEFT_MODEL="$GOLDEN/llama-gqa" WEFT_THREADS=2 "$WEFT" run --ids 1 -n 3
try "$WEFT" run "$GOLDEN/llama-gqa" --ids 1,5,7 -n 8 --compute bf16
try "$WEFT" run "$GOLDEN/llama-gqa" --ids 1,5,7 -n 8 --compute fp8
