# Rounding differences are shown as E; a model compared with itself has none.
try "$WEFT" verify "$GOLDEN/llama-gqa" "$GOLDEN/llama-gqa"
try "$WEFT" verify "$GOLDEN/gpt2" "$GOLDEN/gpt2" --ids 1,2,3 --json

# One weight of the second layer's value projection changes: the first differing tensor is its output.
mkdir other
cp "$GOLDEN/llama-gqa/config.json" "$GOLDEN/llama-gqa/model.safetensors" other/
header=$(od -An -tu8 -N8 other/model.safetensors | tr -d ' ')
at=$(dd if=other/model.safetensors bs=1 skip=8 count="$header" 2>/dev/null |
    sed -E 's/.*"model\.layers\.1\.self_attn\.v_proj\.weight":\{[^}]*"data_offsets":\[([0-9]+).*/\1/')
printf '\000\000\200\077' | dd of=other/model.safetensors bs=1 seek=$((8 + header + at)) conv=notrunc 2>/dev/null
differ() { "$WEFT" verify "$GOLDEN/llama-gqa" other --ids 1,2,3,4,5,6 "$@" >out; code=$?; sed -E 's/[0-9.]+e-0[1-9]/E/g; s/(mean|p99|max) [0-9.e+-]+/\1 E/g; s/"(kl_[a-z0-9]*|difference)":[0-9.e-]+/"\1":E/g; s/(attn|ffn|attention|glu|output)([a-z_.]*)":[0-9.e-]*[1-9][0-9.e-]*/\1\2":E/g; s/[0-9.]+ %/P %/; s/"same_top":[0-9.]+/"same_top":P/' out; return $code; }
try differ
try differ --json
try differ --tolerance 100
try "$WEFT" verify "$GOLDEN/llama-gqa" "$GOLDEN/gpt2"

# A tokenizer that only one of them has.
printf 'the bread is warm and the tea is hot\n' >corpus.txt
"$WEFT" train-tokenizer corpus.txt --model characters -o tokenizer.json >/dev/null
mkdir with
cp "$GOLDEN/llama-gqa/config.json" "$GOLDEN/llama-gqa/model.safetensors" tokenizer.json with/
"$WEFT" verify with "$GOLDEN/llama-gqa" -p "the tea" | head -n 1
"$WEFT" verify "$GOLDEN/llama-gqa" with -p "the tea" | head -n 1
"$WEFT" verify with with -p "the tea" | head -n 1

# Wrong usage and files.
try "$WEFT" verify
try "$WEFT" verify "$GOLDEN/llama-gqa"
try "$WEFT" verify "$GOLDEN/llama-gqa" missing.gguf
try "$WEFT" verify "$GOLDEN/llama-gqa" other third
try "$WEFT" verify "$GOLDEN/llama-gqa" other -p hello
try "$WEFT" verify "$GOLDEN/llama-gqa" other -p hello --ids 1
try "$WEFT" verify "$GOLDEN/llama-gqa" other -f missing.txt
try "$WEFT" verify "$GOLDEN/llama-gqa" other --ids 1,,2
try "$WEFT" verify "$GOLDEN/llama-gqa" other --ids 1,99
try "$WEFT" verify "$GOLDEN/llama-gqa" other --tolerance -1
try "$WEFT" verify "$GOLDEN/llama-gqa" other --tolerance=much
try "$WEFT" help verify
