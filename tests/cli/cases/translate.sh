# A word in Arabic letters, in Latin ones; scores are checked against CTranslate2 elsewhere.
try "$WEFT" translate "$GOLDEN/t5" --ids 4,5,6 -n 5
try "$WEFT" translate "$GOLDEN/t5" --ids 4,5,6 -n 5 --begin 7 --json
try "$WEFT" translate "$GOLDEN/llama-gqa" --ids 4,5,6
try "$WEFT" translate "$GOLDEN/bert" --ids 4,5,6
try "$WEFT" embed "$GOLDEN/t5" text
try "$WEFT" translate "$GOLDEN/t5" --ids 4,500
try "$WEFT" translate "$GOLDEN/t5" --ids 4 --beams 0
try "$WEFT" translate "$GOLDEN/t5" --ids 4 --beams 2 --n-best 3
try "$WEFT" translate "$GOLDEN/t5" --ids 4 -n 0
try "$WEFT" translate "$GOLDEN/t5" -p text
try "$WEFT" run "$GOLDEN/t5" --ids 4
try "$WEFT" translate "$GOLDEN/t5" --ids 4 --lines
try "$WEFT" translate "$GOLDEN/t5" --lines --attention map.svg
try "$WEFT" translate "$GOLDEN/t5" --lines --beams 2 --n-best 2
try "$WEFT" translate "$GOLDEN/t5" --lines </dev/null
# The attention map: a cell for each pair of a target and a source token, and a frame.
for model in t5 bart; do
    try "$WEFT" translate "$GOLDEN/$model" --ids 4,5,6 -n 5 --begin 7 --attention map.svg
    echo "$(grep -c fill-opacity map.svg) cells, $(grep -c '<text' map.svg) names"
    awk -F'[ :<]' '/looks at/ { s += $(NF - 2) } END { printf "%.2f in all\n", s }' map.svg
done
try "$WEFT" translate "$GOLDEN/t5" --ids 4,5,6 -n 2 --attention map.svg --attention-layer 3
try "$WEFT" translate "$GOLDEN/t5" --ids 4,5,6 -n 2 --attention-layer 1
try "$WEFT" translate "$GOLDEN/t5" --ids 4,5,6 -n 2 --attention no/map.svg
if [ -z "${WEFT_ASSETS:-}" ]; then
    echo "SKIP WEFT_ASSETS is not set"
    exit
fi
# Letters in the order of the word: most of a letter's attention is on its own.
cp -r "$WEFT_ASSETS/encdec-aren-transliteration" aren
try "$WEFT" translate aren -p "آتزمون"
try "$WEFT" translate aren -p "آتزمون" --beams 4
"$WEFT" translate aren -p "آتزمون" --beams 4 --n-best 3 | sed 's/\(\.[0-9][0-9]\)[0-9]*/\1/g'
echo "آزا" | "$WEFT" translate aren --json | sed 's/\(\.[0-9][0-9]\)[0-9]*/\1/g'
# A line for each line, empty ones and the last without its end included.
printf 'آتزمون\n\n  \nآزا\r\nآتزمون' | "$WEFT" translate aren --lines --beams 4
printf '\nآزا\n' | "$WEFT" translate aren --lines --json | sed 's/\(\.[0-9][0-9]\)[0-9]*/\1/g'
awk 'BEGIN { print "آزا"; while (n++ < 3000) printf "آ"; print "" }' >long
try "$WEFT" translate aren --lines -f long
try "$WEFT" translate aren -p "آتزمون" --attention map.svg
grep -o 'a looks at آ: 0.7' map.svg
