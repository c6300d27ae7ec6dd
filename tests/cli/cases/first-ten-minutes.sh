# What a new user types in the first minutes, mistakes included.
if [ -z "${WEFT_ASSETS:-}" ]; then
    echo "SKIP WEFT_ASSETS is not set"
    exit
fi
cp "$WEFT_ASSETS/llama-stories260K/stories260K-f32.gguf" stories.gguf
mkdir documents
echo "Once upon a time, there was a little girl named Lily." >story.txt
: >empty

try "$WEFT" model.gguf
try "$WEFT" inpsect stories.gguf
try "$WEFT" inspect
try "$WEFT" inspect story.gguf
try "$WEFT" inspect story.txt
try "$WEFT" inspect empty
try "$WEFT" inspect /dev/null
try "$WEFT" inspect documents
"$WEFT" inspect stories.gguf --no-speed | sed "s|, activations .*|, activations N|; s|^\(memory  *\)[^:]*:|\1N:|"
try "$WEFT" run stories.gguf "Once upon a time"
try "$WEFT" run stories.gguf -p "Once upon a time"
try "$WEFT" run stories.gguf -p "Once upon a time" --n 10
try "$WEFT" run stories.gguf -p "Once upon a time" --predict 10
try "$WEFT" run stories.gguf --promt "Once upon a time"
try "$WEFT" run stories.gguf -f story.text
try "$WEFT" run stories.gguf -f story.txt -n 20
try "$WEFT" run stories.gguf -f documents
try "$WEFT" run stories.gguf -p "Once upon a time" -n 20 --temperature 0.8 --seed 1
try "$WEFT" run stories.gguf -p "Once upon a time" -n 20 --temp hot
try "$WEFT" run stories.gguf -p "Once upon a time" -n 20 --temp 0.8 --seed 3
try "$WEFT" run stories.gguf -p "Once upon a time" -n 20 --temp 0.8 --seed 3 -t 1
try "$WEFT" run stories.gguf -p "Once upon a time" -n 1000 --stop "." --json
try "$WEFT" run stories.gguf -p "Once upon a time" -c 100000
try "$WEFT" run stories.gguf -p "Once upon a time" --ram-max 1M | sed 's/[0-9][0-9]* b/N b/g; s/but [0-9]* of/but N of/'
try "$WEFT" tokenize stories.gguf "Once upon a time"
try "$WEFT" tokenize stories.gguf --decode 403,407,261,378
try "$WEFT" quantize stories.gguf small.gguf
try "$WEFT" quantize stories.gguf small.gguf q9
try "$WEFT" quantize stories.gguf small.gguf q8_0 --quiet
try "$WEFT" quantize stories.gguf small.gguf q8_0 --quiet
try "$WEFT" run small.gguf -p "Once upon a time" -n 20
"$WEFT" eval small.gguf story.txt --against stories.gguf | sed 's/\(\.[0-9][0-9]\)[0-9]*/\1/g'
try "$WEFT" convert stories.gguf stories
"$WEFT" verify stories stories.gguf | tail -n 1
try "$WEFT" trace stories.gguf -p "Once" --only 'blk.9.*'
try env WEFT_ISA=scalar "$WEFT" trace stories.gguf -p "Once" --only 'blk.0.attn_*'
try env WEFT_PREDICT=3 "$WEFT" run stories.gguf -p "Once upon a time"
try "$WEFT" help samplers
