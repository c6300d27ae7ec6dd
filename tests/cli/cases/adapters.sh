# Adapters between PEFT and GGUF, and merged: each form of one adapter gives the same text.
base=$GOLDEN/llama-gqa
text() { try "$WEFT" run "$@" --ids 1,5,7,11 -n 12 --ignore-eos; }
try "$WEFT" convert "$GOLDEN/adapters/llama-lora" lora.gguf --base "$base"
try "$WEFT" convert lora.gguf back --base "$base"
ls back
try "$WEFT" convert back again.gguf --base "$base" --json | sed 's/"bytes_peak":[0-9]*/"bytes_peak":N/'
cmp lora.gguf again.gguf && echo the same bytes
try "$WEFT" convert "$base" model.gguf
try "$WEFT" convert "$base" merged.gguf --lora lora.gguf
try "$WEFT" convert model.gguf half --lora back:0.5
for with in "$base --lora $GOLDEN/adapters/llama-lora" "$base --lora lora.gguf" "model.gguf --lora back" merged.gguf \
    "model.gguf --lora lora.gguf:0.5" half; do
    text $with
done

try "$WEFT" convert "$GOLDEN/adapters/llama-lora" lora.gguf --base "$base"
try "$WEFT" convert "$GOLDEN/adapters/llama-lora" other.gguf
try "$WEFT" convert lora.gguf other
try "$WEFT" convert "$GOLDEN/adapters/llama-dora" other.gguf --base "$GOLDEN/llama-mqa"
try "$WEFT" convert lora.gguf other --base "$GOLDEN/gpt2"
try "$WEFT" convert lora.gguf other --base "$base" --type f16
try "$WEFT" convert "$base" other.gguf --lora lora.gguf --base "$base"
try "$WEFT" convert "$base" other.gguf --text lora.gguf
try "$WEFT" convert "$base" other.gguf --lora :1
try "$WEFT" run lora.gguf --ids 1
try "$WEFT" run "$base" --ids 1 --lora model.gguf
ls
