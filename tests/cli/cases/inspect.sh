# The size of a step is the business of ops, and left out.
inspect() { "$WEFT" inspect "$@" | sed 's/[0-9.]* KiB for a step/S for a step/'; }
try inspect "$GOLDEN/llama-gqa"
try inspect "$GOLDEN/gpt2" --tensors
try inspect "$GOLDEN/gpt2" --metadata
try inspect "$GOLDEN/llama-gqa" -c 64 -b 8 --kv-type bf16
