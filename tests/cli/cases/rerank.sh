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

# A generative model says yes or no. The words of the question are one unknown token here; the scores are transformers' for
# 0 3 4 0 3 0, 0 3 4 0 5 5 0 and 0 3 4 0: the softmax of the logits of no (2) and yes (1).
cp -r "$GOLDEN/qwen3" . && cat >qwen3/tokenizer.json <<'END'
{"version": "1.0", "truncation": null, "padding": null, "added_tokens": [], "normalizer": null, "pre_tokenizer": null,
 "post_processor": null, "decoder": null, "model": {"type": "BPE", "dropout": null, "unk_token": "<unk>",
 "continuing_subword_prefix": null, "end_of_word_suffix": null, "fuse_unk": true, "byte_fallback": false,
 "vocab": {"<unk>": 0, "yes": 1, "no": 2, "1": 3, "2": 4, "3": 5}, "merges": []}}
END
try "$WEFT" rerank qwen3 "12" "1" "33" "x" --yes-no | sed 's/\(\.[0-9]\{5\}\)[0-9]*/\1/g'
printf '33\nx\n1\n' | "$WEFT" rerank qwen3 "12" --yes-no --json -k 1 | sed 's/\(\.[0-9]\{5\}\)[0-9]*/\1/g'
many=$(awk 'BEGIN { for (i = 0; i < 70; i++) printf "3" }')
try "$WEFT" rerank qwen3 "12" "1" "$many" --yes-no | sed -e 's/\(\.[0-9]\{5\}\)[0-9]*/\1/g' -e 's/33333*/3.../'
try "$WEFT" rerank $m "a" "b" --yes-no
try "$WEFT" rerank bert-rank "a" "b" --yes-no
try "$WEFT" rerank qwen3 "1" "2" --yes-no --truncate
try "$WEFT" rerank qwen3 "1" "2" --instruct "be kind"
try "$WEFT" rerank qwen3 "1" "2" --yesno

# The same with two rows as the head, as llama.cpp writes Qwen3-Reranker, labelled yes and no; the scores are transformers'.
cp -r "$GOLDEN/qwen3-rank" . && cp qwen3/tokenizer.json qwen3-rank
try "$WEFT" rerank qwen3-rank "12" "1" "33" "x" | sed 's/\(\.[0-9]\{5\}\)[0-9]*/\1/g'
"$WEFT" convert qwen3-rank rank.gguf >/dev/null 2>&1
"$WEFT" rerank rank.gguf "12" "1" "33" "x" --yes-no | sed 's/\(\.[0-9]\{5\}\)[0-9]*/\1/g'
"$WEFT" rerank rank.gguf "12" "1" "33" --instruct "be kind" | sed 's/\(\.[0-9]\{5\}\)[0-9]*/\1/g'
try "$WEFT" rerank rank.gguf "12" "1" "$many" | sed -e 's/\(\.[0-9]\{5\}\)[0-9]*/\1/g' -e 's/33333*/3.../'
try "$WEFT" rerank rank.gguf "12" "1" --truncate
try "$WEFT" run rank.gguf -p 12
