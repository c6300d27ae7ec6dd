# One line of many that cannot be read does not lose the others: it is named, its place stays, the exit code is 1.
printf 'the bread is warm and the tea is hot\nthe water is hot and the bread is old\n' >corpus.txt
$WEFT train-tokenizer corpus.txt --model wordpiece --vocab-size 60 -o tokenizer.json >/dev/null
for name in bert bert-fill bert-classify bert-tag; do
    cp -r "$GOLDEN/$name" . && cp tokenizer.json $name
done
long=$(printf 'the %.0s' 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28)
printf 'the bread\n%s\nthe water is hot\n' "$long" >lines.txt
printf 'the bread\nthe water is hot\n' >good.txt
short='s/\(\.[0-9][0-9]\)[0-9]*/\1/g' # digits that all processors agree on

# The others' vectors are those they have without it; its own row is not a number, so that rows are still lines.
"$WEFT" embed bert -f lines.txt --npy all.npy || echo "-> $?"
"$WEFT" embed bert -f good.txt --npy good.npy
row=$((($(wc -c <good.npy) - 128) / 2))
tail -c +129 all.npy | head -c $row >one
tail -c $row all.npy | cat one - >others
tail -c +129 good.npy | cmp - others && echo "the others are the same"
head -c 128 all.npy | grep -a -o "'shape': ([0-9]*"
"$WEFT" embed bert -f lines.txt 2>/dev/null | cut -d' ' -f1 | sed "$short"
"$WEFT" embed bert -f lines.txt --json 2>/dev/null | cut -c1-60 | sed "$short"
try "$WEFT" classify bert-classify -f lines.txt | sed "$short"
try "$WEFT" classify bert-classify -f lines.txt --json | sed "$short"
"$WEFT" classify bert-tag - <lines.txt 2>/dev/null | cut -f1,2
printf 'the [MASK]\n%s\nthe water is [MASK]\n' "$long" >masks.txt
try "$WEFT" fill-mask bert-fill -f masks.txt -k 1 --json | sed "$short"

# A text that was given alone fails alone, and leaves no file.
try "$WEFT" embed bert "$long" --npy alone.npy | sed 's/the the[ the]*/the .../'
ls alone.npy 2>/dev/null
cat lines.txt | "$WEFT" classify bert-classify >piped 2>/dev/null || wc -l <piped
: | "$WEFT" classify bert-classify || echo "-> $?"
