# Labelled texts: their file formats, and training on them, from scratch or with a new head.
i=0
while [ $i -lt 30 ]; do
    printf 'the bread is warm\twarm\nthe old water\tcold\nthe tea is warm\twarm\nold bread\tcold\n'
    i=$((i + 1))
done >train.tsv
printf 'old tea\tcold\nthe bread is warm\twarm\n' >dev.tsv
cut -f1 train.tsv >texts.txt
$WEFT train-tokenizer texts.txt --model wordpiece --vocab-size 60 -o tokenizer.json >/dev/null
new="--arch bert --tokenizer tokenizer.json --layers 1 --width 16 --heads 2 -c 16 -b 8 -t 1"

# shellcheck disable=SC2086
try "$WEFT" train $new --data train.tsv --validation-data dev.tsv --check-data --show 1
# shellcheck disable=SC2086
"$WEFT" train $new --data train.tsv --validation-data dev.tsv --lr 1e-2 -n 80 -o run 2>log | grep validation | cut -d, -f2
grep -c 'accuracy' log
grep -c 'val_accuracy' run/metrics.jsonl
"$WEFT" report run >/dev/null && grep -c 'Right' run/report.html
ls run
grep -A1 -e architectures -e id2label -e label2id run/config.json
try "$WEFT" classify run --data dev.tsv | sed -n 1,2p
"$WEFT" classify run "the bread is old" | cut -f1
"$WEFT" classify run --data train.tsv --json | cut -d, -f1-3

# The same in other forms.
printf '"cold","old, ""old""","tea"\n"warm","bread is","warm"\n' >dev.csv
printf '{"text": "old tea", "label": "cold"}\n{"text": "the bread is warm", "label": "warm"}\n' >dev.jsonl
"$WEFT" classify run --data dev.csv --columns label,text,text | sed -n 1p
"$WEFT" classify run --data dev.jsonl | sed -n 1p
case $("$WEFT" --version) in *" gzip"*) gzip -k dev.csv dev.tsv dev.jsonl ;; *) for f in csv tsv jsonl; do cp dev.$f dev.$f.gz; done ;; esac
"$WEFT" classify run --data dev.csv.gz --columns label,text,text | sed -n 1p
"$WEFT" classify run --data dev.tsv.gz | sed -n 1p
"$WEFT" classify run --data dev.jsonl.gz | sed -n 1p
cp dev.csv dev.txt
"$WEFT" classify run --data dev.txt --format csv --columns label,text,text | sed -n 1p

# A masked language model gets a head; its body may be frozen.
# shellcheck disable=SC2086
"$WEFT" train $new --data texts.txt --separator '
' -n 4 -o masks >/dev/null 2>&1 && "$WEFT" inspect masks | grep task
"$WEFT" train masks --data train.tsv --lr 1e-2 -n 20 -b 8 -t 1 -o tuned 2>/dev/null | grep -c accuracy
"$WEFT" classify tuned --data dev.tsv | sed -n 1p
"$WEFT" train masks --data train.tsv --freeze 'blk.*' -n 2 -b 8 -t 1 -o frozen >/dev/null 2>&1 && ls -d frozen/start

# So does one that has no head, from GGUF.
cp -r "$GOLDEN/bert" . && cp tokenizer.json bert && "$WEFT" convert bert bert.gguf >/dev/null 2>&1
"$WEFT" train bert.gguf --data train.tsv -c 16 --lr 1e-2 -n 20 -b 8 -t 1 -o fromgguf 2>/dev/null | grep -c accuracy
"$WEFT" classify fromgguf --data dev.tsv | sed -n 1p

# How it says no.
printf 'the tea\thot\n' >other.tsv
try "$WEFT" classify run --data other.tsv
try "$WEFT" train run --data other.tsv -o no
try "$WEFT" train masks --data other.tsv -o no
try "$WEFT" train masks --data train.tsv --columns text,name -o no
try "$WEFT" train masks --data texts.txt --columns text,label -o no
try "$WEFT" train masks --data train.tsv --save-ids ids
printf 'the tea\nwarm\twarm\n' >short.tsv
try "$WEFT" train masks --data short.tsv -o no
printf 'warm,"the tea\n' >open.csv
try "$WEFT" train masks --data open.csv -o no
try "$WEFT" classify masks --data dev.tsv
