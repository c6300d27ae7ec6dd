# Data that cannot be written is a failure, also if it was only buffered.
"$WEFT" run "$GOLDEN/llama-gqa" --ids 1 -n 20 >/dev/full
echo "-> $?"
"$WEFT" run "$GOLDEN/llama-gqa" --ids 1 -n 20 --json 2>/dev/null >/dev/full
echo "-> $?"
"$WEFT" inspect "$GOLDEN/llama-gqa" >/dev/full
echo "-> $?"
"$WEFT" help >/dev/full
echo "-> $?"
"$WEFT" inspect "$GOLDEN/llama-gqa" >&-
echo "-> $?"
