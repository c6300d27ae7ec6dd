# A LoRA adapter beside the model: at full strength, at half, at none; and what does not fit.
base=$GOLDEN/llama-gqa
for strength in "" :0.5 :0; do
    try "$WEFT" run "$base" --ids 1,5,7,11 -n 12 --ignore-eos --lora "$GOLDEN/adapters/llama-lora$strength"
done
try "$WEFT" run "$base" --ids 1,5,7,11 -n 12 --ignore-eos
printf '1,2,3,4,5,6,7,8,9\n' >ids.txt
try "$WEFT" eval "$base" ids.txt --ids --lora "$GOLDEN/adapters/llama-lora" --against "$base"
try "$WEFT" run "$base" --ids 1 --lora "$GOLDEN/adapters/llama-lora:x"
try "$WEFT" run "$base" --ids 1 --lora "$GOLDEN/adapters/gpt2-lora"
try "$WEFT" run "$base" --ids 1 --lora :1
"$WEFT" run "$base" --ids 1,5,7 -n 8 --lora "$GOLDEN/adapters/llama-lora" --beams 2 --n-best 2 2>/dev/null
try "$WEFT" run "$GOLDEN/llama-mqa" --ids 1 --lora "$GOLDEN/adapters/llama-dora:0.5"
# A session in two halves, and another adapter, strength or none.
try "$WEFT" run "$base" --ids 1,5,7,11 -n 6 --ignore-eos --lora "$GOLDEN/adapters/llama-lora" --session kept
cp kept copy
try "$WEFT" run "$base" -n 6 --ignore-eos --lora "$GOLDEN/adapters/llama-lora" --session kept
try "$WEFT" run "$base" -n 6 --session copy
try "$WEFT" run "$base" -n 6 --lora "$GOLDEN/adapters/llama-lora:0.5" --session copy
try "$WEFT" run "$base" -n 6 --lora "$GOLDEN/adapters/llama-rslora" --session copy
short='s/\(\.[0-9][0-9]\)[0-9]*/\1/g' # digits that all processors agree on
# Encoders and encoder-decoders.
try "$WEFT" translate "$GOLDEN/t5" --ids 3,4,5 -n 6 --lora "$GOLDEN/adapters/t5-lora"
try "$WEFT" translate "$GOLDEN/t5" --ids 3,4,5 -n 6
try "$WEFT" translate "$GOLDEN/t5" --ids 3,4,5 --lora "$GOLDEN/adapters/t5-lora" --attention map.svg
printf 'the bread is warm and the tea is hot\nthe water is hot and the bread is old\n' >corpus.txt
$WEFT train-tokenizer corpus.txt --model wordpiece --vocab-size 60 -o tokenizer.json >/dev/null 2>&1
for name in bert bert-classify; do
    cp -r "$GOLDEN/$name" . && cp tokenizer.json $name
done
try "$WEFT" classify bert-classify "the bread" --top 0 --lora "$GOLDEN/adapters/bert-classify"
try "$WEFT" classify bert-classify "the bread" --top 0
try "$WEFT" classify bert-classify --data none --lora "$GOLDEN/adapters/bert-classify"
"$WEFT" embed bert "the bread" --lora "$GOLDEN/adapters/bert-lora" | cut -d" " -f1-3 | sed "$short"
"$WEFT" embed bert "the bread" --lora "$GOLDEN/adapters/bert-lora:0" | cut -d" " -f1-3 | sed "$short"
"$WEFT" embed bert "the bread" | cut -d" " -f1-3 | sed "$short"
# Of the server.
try "$WEFT" help serve | grep lora
