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
try "$WEFT" run "$base" --ids 1 --lora "$GOLDEN/adapters/llama-lora" --beams 2
try "$WEFT" run "$GOLDEN/llama-mqa" --ids 1 --lora "$GOLDEN/adapters/llama-dora:0.5"
