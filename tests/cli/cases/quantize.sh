# Quantizes both formats: the error of each tensor, types that do not fit, and error messages.
peak() { sed 's/"bytes_peak":[0-9]*/"bytes_peak":N/'; }
try "$WEFT" quantize "$GOLDEN/qwen3" small.gguf q8_0
try "$WEFT" quantize "$GOLDEN/qwen3" small.gguf q4_k_m -f -q
try "$WEFT" quantize small.gguf other.gguf f16 -q --json | peak
try "$WEFT" run other.gguf --ids 1,2,3 -n 4
try "$WEFT" quantize "$GOLDEN/gpt2" . q5_0 --quiet
ls
# Rows of 256 have room for blocks of the K formats.
awk 'BEGIN { for (i = 0; i < 400; i++) printf "%s%s", substr("the weaver throws the shuttle ", 1 + i * i % 30, 3), i % 9 ? "" : "\n" }' >text
"$WEFT" train --arch llama --layers 2 --width 256 --heads 8 --kv-heads 2 --hidden 256 --characters --data text --ctx-size 32 \
    --batch-size 1 --steps 1 --eval-every 0 --sample 0 --seed 1 --out wide >/dev/null 2>&1
try "$WEFT" quantize wide wide.gguf q2_k
try "$WEFT" run wide.gguf "the " -n 4
try "$WEFT" quantize wide wide.gguf q3_k_m -f
try "$WEFT" quantize wide wide.gguf Q3_K_S -f -q
try "$WEFT" quantize wide . q3_k_l -q
try "$WEFT" quantize wide wide.gguf iq4_xs -f -q
try "$WEFT" quantize wide wide.gguf iq4_xs -f -q --importance text
try "$WEFT" run wide.gguf "the " -n 4
try "$WEFT" quantize wide wide.gguf mxfp4 -f -q
try "$WEFT" quantize wide wide.gguf q8_0 -f --importance text
try "$WEFT" quantize wide wide.gguf q4_k_m -f --importance missing
rm -r wide text
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
