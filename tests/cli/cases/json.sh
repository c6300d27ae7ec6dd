# --json always prints valid JSON: for a path with quotes, control characters and an invalid UTF-8 byte, and for
# infinity.
odd=$(printf 'a"b\\c\001\037\177\377\303\244.json')
"$WEFT" train-tokenizer "$GOLDEN/train-tokenizer/corpus.txt" -v 300 -o "$odd" --json |
    sed 's/"bytes_peak":[0-9]*/"bytes_peak":N/'
"$WEFT" verify "$GOLDEN/gpt2" "$GOLDEN/gpt2" --ids 1 --tolerance inf --json | grep -o '"tolerance":[^,]*'
"$WEFT" quantize "$GOLDEN/qwen3" small.gguf q8_0 --json | head -n 2
