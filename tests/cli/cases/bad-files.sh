# Errors name the file and say what is wrong with it; exit 1.
mkdir empty
echo 'This is a text.' >text.gguf
printf 'GGUF\003\000\000\000\005\000\000\000\000\000\000\000' >cut.gguf
: >nothing.gguf
mkdir no-weights
cp "$GOLDEN/llama-gqa/config.json" no-weights/
mkdir cut
cp "$GOLDEN/llama-gqa/config.json" cut/
head -c 3000 "$GOLDEN/llama-gqa/model.safetensors" >cut/model.safetensors
mkdir strange
sed 's/"model_type": "llama"/"model_type": "mamba"/' "$GOLDEN/llama-gqa/config.json" >strange/config.json
cp "$GOLDEN/llama-gqa/model.safetensors" strange/
for path in missing.gguf empty text.gguf cut.gguf nothing.gguf no-weights cut strange; do
    try "$WEFT" inspect $path
done
try "$WEFT" run missing.gguf --ids 1 --json
try "$WEFT" run "" --ids 1
