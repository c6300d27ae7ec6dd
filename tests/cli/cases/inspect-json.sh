inspect() { "$WEFT" inspect "$@" | sed 's/"step_bytes":[0-9]*/"step_bytes":S/'; }
try inspect "$GOLDEN/llama-gqa" --json
try inspect "$GOLDEN/llama-gqa" --json --tensors --metadata
