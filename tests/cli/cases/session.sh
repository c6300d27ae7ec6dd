# A saved session resumes: with the same text as an uninterrupted run, or with the text of a prompt.
if [ -z "${WEFT_ASSETS:-}" ]; then
    echo "SKIP WEFT_ASSETS is not set"
    exit
fi
cp "$WEFT_ASSETS/llama-stories260K/stories260K-f32.gguf" stories.gguf
try "$WEFT" run stories.gguf -p "Once upon a time" -n 20
try "$WEFT" run stories.gguf -p "Once upon a time" -n 10 --session kept
try "$WEFT" run stories.gguf -n 10 --session kept
try "$WEFT" run stories.gguf -n 4 --session kept -p "Once upon a time, there was a dog"
try "$WEFT" run stories.gguf -n 4 --session kept -p "Once upon a time, there was a dog"

# Not a session, another model's, and a place that cannot be written.
echo hello >wrong
try "$WEFT" run stories.gguf -n 4 --session wrong
try "$WEFT" run "$GOLDEN/llama-gqa" --ids 1 -n 4 --session kept
try "$WEFT" run stories.gguf -p "Once" -n 4 --session missing/kept 2>&1
try "$WEFT" run stories.gguf -p "Once" -n 4 --session wrong/kept
try "$WEFT" run stories.gguf -n 4 --session new
