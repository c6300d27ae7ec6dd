# A model with a vocabulary prints text: the bytes of its pieces, one after the other, as they come.
if [ -z "${WEFT_ASSETS:-}" ]; then
    echo "SKIP WEFT_ASSETS is not set"
    exit
fi
cp "$WEFT_ASSETS/llama-stories260K/stories260K-f32.gguf" stories.gguf
try "$WEFT" run stories.gguf --ids 1 -n 60
try "$WEFT" run stories.gguf --ids 1,403,407 -n 20 --json
try "$WEFT" inspect stories.gguf --metadata | grep -v '^memory'
