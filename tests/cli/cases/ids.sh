try "$WEFT" run "$GOLDEN/llama-gqa" --ids ""
try "$WEFT" run "$GOLDEN/llama-gqa" --ids 1,x
try "$WEFT" run "$GOLDEN/llama-gqa" --ids 1,
try "$WEFT" run "$GOLDEN/llama-gqa" --ids ,1
try "$WEFT" run "$GOLDEN/llama-gqa" --ids 1,-5
try "$WEFT" run "$GOLDEN/llama-gqa" --ids 99999999999
try "$WEFT" run "$GOLDEN/llama-gqa" --ids 1,67
