# Vectors of decoders, and documents by how well they fit a query: by cosine, or by a model that scores pairs.
m=models/shakespeare.gguf
ln -s "$GOLDEN/../../models" models
short='s/\(\.[0-9][0-9]\)[0-9]*/\1/g' # digits that all processors agree on
"$WEFT" embed $m "ROMEO:" | cut -d' ' -f1-4
"$WEFT" trace $m "ROMEO:" --only output_norm --json | sed 's/.*"first":\[//' | tr , ' ' | cut -d' ' -f1-4
for kind in mean max first last; do "$WEFT" embed $m "ROMEO:" --pooling $kind | cut -d' ' -f1 | sed "$short"; done
"$WEFT" embed $m "ROMEO:" --normalize | awk '{ for (i = 1; i <= NF; i++) s += $i * $i; printf "%.4f\n", s }'
try "$WEFT" embed $m "ROMEO:" --pooling middle

try "$WEFT" rerank $m "kill the king" "murder the duke" "a cup of wine" "the king is dead" | sed "$short"
printf 'a cup of wine\nmurder the duke\n\nkill the king\n' >documents.txt
try "$WEFT" rerank $m "kill the king" -f documents.txt --top 2 | sed "$short"
"$WEFT" rerank $m "kill the king" --json <documents.txt | sed "$short"
cat documents.txt | "$WEFT" rerank $m "kill the king" -k 1 | sed "$short"
try "$WEFT" rerank $m
try "$WEFT" rerank $m "kill the king"
: | "$WEFT" rerank $m "kill the king" || echo "-> $?"
try "$WEFT" rerank $m "kill the king" a --top -1

# A line that cannot be read is reported, and the others are ranked.
long=$(awk 'BEGIN { for (i = 0; i < 300; i++) printf "king " }')
printf 'a cup of wine\n%s\nmurder the duke\n' "$long" >long.txt
try "$WEFT" rerank $m "kill the king" -f long.txt | sed "$short"
try "$WEFT" rerank $m "kill the king" -f long.txt --truncate | cut -c1-40 | sed "$short"
try "$WEFT" rerank $m "$long" "a" | sed 's/king king.* \(king\)/king ... \1/'

# Pairs: one output is a score; the scores are those of classify.
printf 'the bread is warm and the tea is hot\nthe water is hot and the bread is old\n' >corpus.txt
$WEFT train-tokenizer corpus.txt --model wordpiece --vocab-size 60 -o tokenizer.json >/dev/null
cp -r "$GOLDEN/bert-classify" . && cp tokenizer.json bert-classify
try "$WEFT" rerank bert-classify "the tea" "is hot" "is old"
cp -r "$GOLDEN/bert-rank" . && cp tokenizer.json bert-rank
"$WEFT" rerank bert-rank "the tea" "is hot" "is old and the bread is warm" "the water is hot" >ranked && sed "$short" ranked
printf 'the tea\tis hot\nthe tea\tis old and the bread is warm\nthe tea\tthe water is hot\n' >pairs.txt
"$WEFT" classify bert-rank -f pairs.txt --pairs | cut -f2 | sort -rg >scores
cut -f1 ranked | cmp - scores && echo "the scores of classify, the best first"
