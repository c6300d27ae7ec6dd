# A prompt is text: the model's own tokenizer reads it, and puts the first token.
if [ -z "${WEFT_ASSETS:-}" ]; then
    echo "SKIP WEFT_ASSETS is not set"
    exit
fi
cp "$WEFT_ASSETS/llama-stories260K/stories260K-f32.gguf" stories.gguf
try "$WEFT" tokenize stories.gguf --pieces "Once upon"
try "$WEFT" run stories.gguf -p "Once upon a time" -n 30
try "$WEFT" run stories.gguf -p "" -n 5 --json
try "$WEFT" run stories.gguf -p "x" --ids 1
try "$WEFT" run stories.gguf
