try "$WEFT" run "$GOLDEN/llama-gqa" --ids ""
try "$WEFT" run "$GOLDEN/llama-gqa" --ids 1,x
try "$WEFT" run "$GOLDEN/llama-gqa" --ids 1,
try "$WEFT" run "$GOLDEN/llama-gqa" --ids ,1
try "$WEFT" run "$GOLDEN/llama-gqa" --ids 1,-5
try "$WEFT" run "$GOLDEN/llama-gqa" --ids 99999999999
try "$WEFT" run "$GOLDEN/llama-gqa" --ids 1,67

# Longer than the pieces in which prompts are read.
hour=$(seq -s, 1 60)
try "$WEFT" run "$GOLDEN/llama-gqa" --ids "$hour,$hour,$hour,$hour,$hour" -n 3
