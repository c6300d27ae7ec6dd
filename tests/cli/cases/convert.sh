# A directory to GGUF and back, in one file and in several; errors name the problem; existing files stay.
peak() { sed 's/"bytes_peak":[0-9]*/"bytes_peak":N/'; }
try "$WEFT" convert "$GOLDEN/qwen3" model.gguf
try "$WEFT" convert model.gguf back
ls back
cmp "$GOLDEN/qwen3/config.json" back/config.json && echo the same config.json
try "$WEFT" run "$GOLDEN/qwen3" --ids 1,2,3 -n 8
try "$WEFT" run model.gguf --ids 1,2,3 -n 8
try "$WEFT" run back --ids 1,2,3 -n 8
try "$WEFT" convert "$GOLDEN/gpt2" . --type f16 --json | peak
try "$WEFT" convert "$GOLDEN/llama-mqa" parts.gguf --max-shard-size 40K
try "$WEFT" convert parts-00001-of-00003.gguf shards --max-shard-size 40K --json | peak
ls shards
try "$WEFT" run shards --ids 1,2,3 -n 8
try "$WEFT" convert "$GOLDEN/mistral-window" same --to hf --type bf16
grep dtype same/config.json

try "$WEFT" convert model.gguf back
try "$WEFT" convert "$GOLDEN/qwen3" model.gguf
try "$WEFT" convert "$GOLDEN/qwen3" model.gguf --force
try "$WEFT" convert model.gguf model.gguf -f --type bf16
try "$WEFT" convert
try "$WEFT" convert model.gguf
try "$WEFT" convert missing other.gguf
try "$WEFT" convert "$GOLDEN/qwen3" nowhere/model.gguf
try "$WEFT" convert "$GOLDEN/qwen3" model.bin
try "$WEFT" convert "$GOLDEN/qwen3" other.gguf --type q9_9
try "$WEFT" convert "$GOLDEN/qwen3" other.gguf --type i32
try "$WEFT" convert model.gguf other --type q8_0
try "$WEFT" convert model.gguf other --to onnx
try "$WEFT" convert model.gguf other --max-shard-size lots
try "$WEFT" convert model.gguf other --max-shard 1M
try "$WEFT" convert model.gguf other --ram-max 1000
try "$WEFT" convert parts-00002-of-00003.gguf other
rm parts-00003-of-00003.gguf
try "$WEFT" convert parts-00001-of-00003.gguf other
try "$WEFT" convert model.gguf model.gguf/x
ls
