# How a text becomes tokens: merges, paths, matches.
try "$WEFT" tokenize "$GOLDEN/gpt2-slice" "The cat sat on" --steps
try "$WEFT" tokenize "$GOLDEN/gpt2-slice" "The cat sat on" --steps --json
try "$WEFT" tokenize "$GOLDEN/gpt2-slice" "$(printf '\346\227\245 on')" --steps
try "$WEFT" tokenize "$GOLDEN/marian-text/source.spm" "a dog runs" --steps
mkdir words
printf '%s\n' '[PAD]' '[UNK]' '[CLS]' '[SEP]' '[MASK]' abc ab '##ba' cab >words/vocab.txt
try "$WEFT" tokenize words "ABC abba abd [MASK]" --steps
try "$WEFT" tokenize words "ABC abba abd [MASK]" --steps --parse-special
try "$WEFT" tokenize words "abba" --steps --json --pair "cab"
echo '{"model":{"type":"Unigram","unk_id":0,"vocab":[["<unk>",0],["a",-1.5],["b",-2],["ab",-2.25],["ba",-4]]}}' >paths.json
try "$WEFT" tokenize paths.json "abbaxy" --steps
try "$WEFT" tokenize paths.json "ab" --steps --json
echo '{"model":{"type":"WordLevel","vocab":{"a":0}}}' >known.json
try "$WEFT" tokenize known.json "b" --steps --json
try "$WEFT" tokenize paths.json "ab" --steps --pieces
try "$WEFT" tokenize paths.json 1 --steps --decode
