[ -n "${WEFT_ASSETS:-}" ] || { echo "SKIP WEFT_ASSETS is not set"; exit; }
stories=$WEFT_ASSETS/llama-stories260K
model() { shown=$1; shift; "$WEFT" "$shown" "$@" 2>err | sed -E "s|$WEFT_ASSETS|ASSETS|g; s/([0-9]\.[0-9]{3})[0-9]*/\1/g"; cat err >&2; }
printf 'Once upon a time, there was a cat.\n\n  \n  The cat was happy.\nShe sat.\n' >text
try model eval "$stories/stories260K-f32.gguf" text | sed "s|$WEFT_ASSETS|ASSETS|g"
try model eval "$stories/stories260K-f32.gguf" text --paragraphs | sed "s|$WEFT_ASSETS|ASSETS|g"
try model eval "$stories/stories260K-f32.gguf" text --lines -c 8 --json | sed "s|$WEFT_ASSETS|ASSETS|g"
try model eval "$stories/stories260K-q8_0.gguf" text --against "$stories/stories260K-f32.gguf" |
    sed "s|$WEFT_ASSETS|ASSETS|g; s/^divergence.*/divergence ok/"

# The same model in two forms; a tokenizer that lacks a rule; a quantised one.
"$WEFT" verify "$stories" "$stories/stories260K-f32.gguf" | grep -v e-
"$WEFT" verify "$stories/stories260K-f32.gguf" "$stories/stories260K-q8_0.gguf" -f text >out
echo "-> $?"
sed -E 's/[0-9.]+e-0[0-9]/E/g' out | grep -E '^(tokens|first|A and B)'
"$WEFT" verify "$stories/stories260K-f32.gguf" "$stories/stories260K-q8_0.gguf" -p 'A cat.' --tolerance 0.2 >/dev/null
echo "-> $?"
