inspect() { "$WEFT" inspect "$@" | sed -E 's/"step_bytes":[0-9]*/"step_bytes":S/; s/("(prompt|generate|flops_per_second|bytes_per_second|seconds)"):[0-9.e+]+/\1:X/g'; }
try inspect "$GOLDEN/llama-gqa" --json
try inspect "$GOLDEN/llama-gqa" --json --tensors --metadata --no-speed
