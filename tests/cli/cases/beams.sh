# Beam search. Other tests check scores against transformers.
if [ -z "${WEFT_ASSETS:-}" ]; then
    echo "SKIP WEFT_ASSETS is not set"
    exit
fi
cp "$WEFT_ASSETS/llama-stories260K/stories260K-f32.gguf" stories.gguf
run() { "$WEFT" run stories.gguf -p "Once upon a time" -n 12 "$@" 2>/dev/null | sed 's/\(\.[0-9][0-9]\)[0-9]*/\1/g'; }
run --beams 1
run
run --beams 4
run --beams 4 --n-best 3
run --beams 4 --n-best 2 --json --length-penalty 0
"$WEFT" run "$GOLDEN/llama-gqa" --ids 1,5,7 --beams 3 -n 5 2>/dev/null
"$WEFT" run stories.gguf -p "Once upon a time" --beams 2 -n 5 2>&1 | sed 's/[0-9.]* s$/X s/'

try "$WEFT" run stories.gguf -p "Once" --beams 2 --temp 0.8
try "$WEFT" run stories.gguf -p "Once" --beams 2 --stop .
try "$WEFT" run stories.gguf -p "Once" --beams -1
try "$WEFT" run stories.gguf -p "Once" --beams 2 --n-best 3
try "$WEFT" run stories.gguf -p "Once" --beams 2 -n 0
try "$WEFT" run stories.gguf -p "Once" --beams 2 --length-penalty 100
