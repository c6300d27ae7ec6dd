# The loss of two transliterations is that of the model's authors: 0.145023 a token (ref.json, in f64).
[ -n "${WEFT_ASSETS:-}" ] || { echo "SKIP WEFT_ASSETS is not set"; exit 0; }
model=$WEFT_ASSETS/encdec-aren-transliteration
cat >pairs.tsv <<'END'
آتزمون	atzmon
آتشيسون	achison
END
"$WEFT" eval "$model" pairs.tsv
"$WEFT" quantize "$model" small.gguf q8_0 --quiet >/dev/null 2>&1
"$WEFT" eval small.gguf pairs.tsv --against "$model" | sed -n '/same/p'
