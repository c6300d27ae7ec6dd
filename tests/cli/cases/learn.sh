# Numbers that the pages of docs/learn print: computed again here, rounded as there, and looked for in the page.
root=$GOLDEN/../..
shakespeare=$root/models/shakespeare.gguf
text="The cat sat on"
# page PAGE: each number of standard input, in full or in four or three digits, stands in the page.
page()
{
    while read -r value; do
        four=$(printf '%.4g' "$value")
        three=$(printf '%.3g' "$value")
        tr -s '\n' ' ' <"$root/docs/learn/$1.md" | sed 's/−/-/g' | grep -q -F -e "$four" -e "$three" -e "$value" && echo "$1: $four" || echo "$1 has no $four"
    done
}
# row FILE.npy WIDTH ROW: a row of float32.
row() { tail -c +129 "$1" | od -A n -v -t f4 -w$((4 * $2)) | sed -n "$(($3 + 1))p" | tr -s ' ' '\n' | grep .; }

"$WEFT" explain --kernels "$GOLDEN/points.csv" --json >kernels.json
{
    grep -o '"width":[0-9.]*' kernels.json | cut -d: -f2 | head -1
    grep -o '"rms_error":[0-9.]*' kernels.json | cut -d: -f2 | sed 3d
} | page 01-why-attention
"$WEFT" trace "$GOLDEN/bahdanau" --ids 4,5,6,7,8 --target-ids 9,10,11 --maps --npy bahdanau >out
row bahdanau/dec.blk.0.cross_attention.probs.npy 5 2 | page 01-why-attention
"$WEFT" trace "$shakespeare" "$text" --only 'blk.*.attention.probs' --maps --npy heads >out
{
    for i in 2 3 4 5; do row heads/blk.1.attention.probs.npy 6 $((4 * i)) | sed -n "${i}p"; done
    row heads/blk.0.attention.probs.npy 6 10 | sed -n 2p
    row heads/blk.0.attention.probs.npy 6 18 | sed -n 4p
} | page 03-heads
"$WEFT" trace "$shakespeare" "$text" --lens --only output --top 1 --json >lens
{
    grep -o '"max":[0-9.]*' lens | cut -d: -f2
    grep '"lens"' lens | grep -o '"probability":[0-9.]*' | cut -d: -f2
    "$WEFT" run "$shakespeare" "$text" -n 12 --beams 4 --quiet --json | grep -o '"score":[-0-9.]*' | cut -d: -f2
} | page 07-sampling
"$WEFT" classify "$GOLDEN/vit" "$GOLDEN/images/photo.png" | cut -f2 | page 10-pictures
"$WEFT" trace "$shakespeare" "$text" --zero blk.1.attn.head.0 --only output --top 7 | sed -n 's/^ *\([0-9.]*\) %  *\([0-9.]*\) %  .*" the"$/\1 \2/p; s/^ *\([0-9.]*\) %  *\([0-9.]*\) %  .*","$/\1 \2/p' | tr ' ' '\n' | page 03-heads
