# Either form into fewer bits: each tensor with what it loses, types that do not fit, and what is wrong.
peak() { sed 's/"bytes_peak":[0-9]*/"bytes_peak":N/'; }
try "$WEFT" quantize "$GOLDEN/qwen3" small.gguf q8_0
try "$WEFT" quantize "$GOLDEN/qwen3" small.gguf q4_k_m -f -q
try "$WEFT" quantize small.gguf other.gguf f16 -q --json | peak
try "$WEFT" run other.gguf --ids 1,2,3 -n 4
try "$WEFT" quantize "$GOLDEN/gpt2" . q5_0 --quiet
ls
try "$WEFT" quantize
try "$WEFT" quantize "$GOLDEN/qwen3"
try "$WEFT" quantize "$GOLDEN/qwen3" more.gguf
try "$WEFT" quantize "$GOLDEN/qwen3" more.gguf q4_k_x
try "$WEFT" quantize "$GOLDEN/qwen3" small.gguf q8_0
try "$WEFT" quantize missing.gguf more.gguf q8_0
try "$WEFT" quantize "$GOLDEN/qwen3" more.bin q8_0
try "$WEFT" quantize "$GOLDEN/qwen3" more.gguf q8_0 --threads lots
try "$WEFT" quantize "$GOLDEN/qwen3" more.gguf q8_0 --thread 2
ls
