# Files of every earlier version open, give the same results and can be resumed: tools/old-files.sh wrote them.
for version in "$GOLDEN"/old/*; do
    name=$(basename "$version")
    cp -r "$version" old
    cd old || exit 1
    echo "version $name"
    for model in model.gguf parts-00001-of-*.gguf directory run q8_0.gguf q4_0.gguf q5_1.gguf f16.gguf bf16.gguf; do
        echo "$model:$("$WEFT" run "$model" -p "the shuttle" -n 20 --temp 0 -t 1 2>&1)" | grep -v tok/s
    done
    for kv in f32 f16 bf16 q8_0; do
        echo "$kv.session:$("$WEFT" run model.gguf -n 20 --temp 0 -t 1 --kv-type $kv --session $kv.session 2>&1)" | grep -v tok/s
    done
    "$WEFT" tokenize tokenizer.json "the shuttle goes through the warp"
    "$WEFT" train --data ids.weft --format ids --tokenizer run/tokenizer.json --check-data --show 0 2>&1 | grep data
    # shellcheck disable=SC2046
    "$WEFT" train $(cat run.options) --out run -n 152 --resume >log 2>&1 || cat log
    # shellcheck disable=SC2046
    "$WEFT" train $(cat spans.options) --out spans -n 52 --resume >log 2>&1 || cat log
    for run in run spans; do
        tail -n 1 $run/metrics.jsonl | sed 's/{\("step":[0-9]*\),"loss":\(....\).*/'$run': \1, "loss":\2/'
        "$WEFT" report $run -o $run.html >log 2>&1 || cat log
        grep -c '<svg' $run.html
    done
    cd ..
    rm -rf old
done
