# Text to ids and back, with a tokenizer made here.
$WEFT train-tokenizer "$GOLDEN/train-tokenizer/corpus.txt" --vocab-size 400 -o t.json >/dev/null
try "$WEFT" tokenize t.json "the baker's bread"
try "$WEFT" tokenize t.json --pieces "$(printf 'the caf\303\251')"
try "$WEFT" tokenize t.json --json "the bread"
try "$WEFT" tokenize t.json --json --pieces "the"
try "$WEFT" tokenize t.json --count "the baker's bread"
try "$WEFT" tokenize t.json --count --json "the baker's bread"
try "$WEFT" tokenize t.json ""
printf 'the baker\377' >bytes.txt
try "$WEFT" tokenize t.json -f bytes.txt
try "$WEFT" tokenize t.json --check -f bytes.txt
try "$WEFT" tokenize t.json - <bytes.txt
try "$WEFT" tokenize -m t.json "the"
try "$WEFT" tokenize t.json --decode 116,104,101
try "$WEFT" tokenize t.json --decode 0
try "$WEFT" tokenize t.json --decode "83 71 68" --json
try "$WEFT" tokenize t.json --decode 1,x
try "$WEFT" tokenize t.json --decode 99999
try "$WEFT" tokenize
try "$WEFT" tokenize t.json
try "$WEFT" tokenize nothing.json "x"
try "$WEFT" tokenize t.json -f nothing.txt
echo '{"model":{"type":"WordLevel","vocab":{"a":0}},"normalizer":{"type":"Magic"}}' >magic.json
try "$WEFT" tokenize magic.json "x"
try "$WEFT" tokenize t.json "x" --ram-max 1000 | sed "s|needs [0-9]* bytes|needs N bytes|"
