# Command lines of other programs' users: their option names, flags without effect here, a text without -p.
m=$GOLDEN/llama-gqa
run() { try "$WEFT" run "$m" --ids 1,5,7 -n 3 "$@"; }
run --n-predict 4
run --n_predict=4
run --max-tokens 4
run --temperature 0 --top_k 5
run --temperature 1 --seed 3 --top_k 5 --repetition-penalty 1.1
run --temp 1 --seed 3 --mirostat 2
run --mirostat 1
run -ctk bf16 -ctv bf16
run -ctk f32 -ctv bf16
run --cache-type-k=bf16
run -fa
run -fa on -n 2
run --flash-attn auto
run -ngl 99
run --n-gpu-layers=99
run -v
run -cnv
run --lora adapter.gguf
run -ffile
run --tmep 0
run --frobnicate

# A given seed, none, and a random one, which is printed so that it can be reused.
for seed in 7 -1; do
    "$WEFT" run "$m" --ids 1,5,7 -n 3 --temp 1 --seed $seed --json 2>/dev/null | sed 's/.*"seed":\([0-9]*\).*/\1/' |
        awk -v seed=$seed '{ print seed == -1 ? "random seed " (length($0) > 0) : "seed " $0 }'
done
"$WEFT" run "$m" --ids 1,5,7 -n 8 --temp 3 --json >one 2>/dev/null
"$WEFT" run "$m" --ids 1,5,7 -n 8 --temp 3 --json --seed "$(sed 's/.*"seed":\([0-9]*\).*/\1/' one)" >two 2>/dev/null
[ "$(cut -d] -f1 one)" = "$(cut -d] -f1 two)" ] && echo "the told seed gives the text again"
run --seed -2 --temp 1
run --quiet --temp 1 --seed 3

# A full context ends the text, or generation continues from its later half.
try "$WEFT" run "$m" --ids 1,5,7 -n 20 -c 8 --ignore-eos
try "$WEFT" run "$m" --ids 1,5,7 -n 20 -c 8 --ignore-eos --when-full slide
