# Encoders, small and random, with a tokenizer made here.
printf 'the bread is warm and the tea is hot\nthe water is hot and the bread is old\n' >corpus.txt
$WEFT train-tokenizer corpus.txt --model wordpiece --vocab-size 60 -o tokenizer.json >/dev/null
for name in bert bert-fill bert-classify bert-tag bert-answer gpt2; do
    cp -r "$GOLDEN/$name" . && cp tokenizer.json $name
done
printf 'the bread\nthe water is hot\n\n' >lines.txt
short='s/\(\.[0-9][0-9]\)[0-9]*/\1/g' # digits that all processors agree on

try "$WEFT" embed bert "the bread is warm" | sed "$short"
"$WEFT" embed bert -f lines.txt >together
while read -r line; do "$WEFT" embed bert "$line"; done <lines.txt >alone
cmp together alone && wc -l <together
"$WEFT" embed bert - <lines.txt | cmp - together
"$WEFT" embed bert -f lines.txt --json | cut -c1-40 | sed "$short"
"$WEFT" embed bert -f lines.txt --npy lines.npy && head -c 80 lines.npy | tail -c 70 && wc -c <lines.npy
"$WEFT" convert bert bert.gguf >/dev/null 2>&1 && "$WEFT" embed bert.gguf -f lines.txt | cmp - together
try "$WEFT" tokenize bert-fill --json "the tea" --pair "is hot"
try "$WEFT" fill-mask bert-fill "the [MASK] is hot" | sed "$short"
try "$WEFT" fill-mask bert-fill "the [MASK] is [MASK]" -k 2 --json | sed "$short"
try "$WEFT" fill-mask bert-fill "the [MASK] is [MASK]" -k 1 | sed "$short"
try "$WEFT" classify bert-classify "the tea is hot" --top 0 | sed "$short"
try "$WEFT" classify bert-classify -f lines.txt --json | sed "$short"
printf 'the bread\tis hot\n' >pairs.txt
try "$WEFT" classify bert-classify -f pairs.txt --pairs --top 2 | sed "$short"
try "$WEFT" classify bert-tag "tea is hot" | sed "$short"
try "$WEFT" classify bert-tag "tea" --top 0 --json | sed "$short"

"$WEFT" inspect bert-classify | grep -v ^memory
"$WEFT" trace bert-classify --ids 5,6,7 --only 'cls*' --json | cut -d, -f1-5

for i in 1 2 3 4; do cat corpus.txt; done >texts.txt
"$WEFT" train bert-fill --data texts.txt --out run --steps 4 -b 2 --save-every 2 >/dev/null 2>&1 && ls run
"$WEFT" fill-mask run "the [MASK]" -k 1 | wc -l
try "$WEFT" train bert-fill --data texts.txt --check-data --show 0
try "$WEFT" train bert-tag --data texts.txt --out tagged

try "$WEFT" embed gpt2 "the bread" | sed "$short" | cut -d" " -f1-6
try "$WEFT" fill-mask bert "the [MASK]"
try "$WEFT" classify bert-fill "the bread"
try "$WEFT" classify bert-answer "the bread"
try "$WEFT" run bert -p the
try "$WEFT" fill-mask bert-fill "the bread"
try "$WEFT" fill-mask bert-fill "the [MASK]" -k 0
try "$WEFT" embed
try "$WEFT" embed bert
try "$WEFT" embed bert "the bread" -f lines.txt
try "$WEFT" embed bert -f nothing.txt

# A tokenizer that makes sixteen letters of each, seven times.
cp -r bert bomb
sixteen='{"type":"Replace","pattern":{"String":"a"},"content":"aaaaaaaaaaaaaaaa"}'
sed "s|\"normalizer\": *{[^}]*}|\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[$sixteen,$sixteen,$sixteen,$sixteen,$sixteen,$sixteen,$sixteen]}|" \
    tokenizer.json >bomb/tokenizer.json
try "$WEFT" embed bomb "a"
try "$WEFT" classify bert-classify -f pairs.txt --pairs --truncate
try "$WEFT" embed bert "the the the the the the the the the the the the the the the the the the the the the the the the the the the the"
"$WEFT" embed bert --truncate "the the the the the the the the the the the the the the the the the the the the the the the the the the the the" --json | cut -c1-25
try "$WEFT" embed bert "the bread" --npy nowhere/x.npy
try "$WEFT" embed bert "the bread" --ram-max 1000

# Lines end with LF or CR LF: a tokenizer for which every character is a token, CR too, sees no difference.
head -n 2 lines.txt >lf.txt && sed 's/$/\r/' lf.txt >crlf.txt
cp -r bert letters && "$WEFT" train-tokenizer crlf.txt --model characters --special "" -o letters/tokenizer.json >/dev/null
"$WEFT" embed letters -f lf.txt >lf && "$WEFT" embed letters -f crlf.txt | cmp - lf && echo "CR LF as LF"
