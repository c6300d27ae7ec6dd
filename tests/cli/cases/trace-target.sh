# Every step of a decoder in one forward: the letters of a word, each after those before it, and its end.
if [ -z "${WEFT_ASSETS:-}" ]; then
    echo "SKIP WEFT_ASSETS is not set"
    exit
fi
export WEFT_ISA=scalar
cp -r "$WEFT_ASSETS/encdec-aren-transliteration" aren
try "$WEFT" trace aren "آزا" --target aza --only dec.blk.0.cross_attention --only output --top 1 --lens
try "$WEFT" trace aren "آزا" --only dec.blk.0.cross_attention --top 1 --zero 'dec.blk.*.cross_attn.head.0'
