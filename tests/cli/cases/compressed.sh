# Text and IDX files in gzip and zstd: recognised by their first bytes, the same results as uncompressed; errors for files
# that are truncated, damaged or something else. Several files where one was taken.
case $("$WEFT" --version) in
*" gzip zstd"*) ;;
*) echo "SKIP this weft is built without zlib or libzstd" && exit 0 ;;
esac
packed=$GOLDEN/packed
cp "$packed/text.txt" "$packed/text.txt.gz" "$packed/text.txt.zst" "$packed/lines.jsonl.zst" "$packed/archive.tar.gz" .
cp text.txt.gz named-otherwise
check="$WEFT train --characters --check-data --show 0 --data"
try $check text.txt
try $check text.txt.gz
try $check text.txt.zst
try $check named-otherwise --data text.txt.zst
try $WEFT train-tokenizer text.txt.gz --vocab-size 300
try $WEFT train --tokenizer tokenizer.json --data lines.jsonl.zst --check-data --show 0 -c 32 --validation 0

# Training on compressed text gives the same bytes.
small="--characters --layers 1 --width 16 --heads 2 -c 16 -b 4 --sample 0 -t 1 -n 3"
for name in text.txt text.txt.gz text.txt.zst; do
    "$WEFT" train --data $name --out "run-$name" $small >/dev/null 2>&1
    echo "$name: exit $?"
    for file in model.safetensors tokenizer.json config.json; do
        cmp "run-text.txt/$file" "run-$name/$file"
    done
    cat "run-$name"/step-*/* | cksum >"$name.sum" && cmp text.txt.sum "$name.sum"
done

# MNIST comes as .gz.
printf '\0\0\10\3\0\0\0\4\0\0\0\1\0\0\0\2\1\2\3\4\5\6\7\10' >images-idx3-ubyte
printf '\0\0\10\1\0\0\0\4\1\0\1\0' >labels-idx1-ubyte
gzip ./*-ubyte
try $WEFT train --data images-idx3-ubyte.gz --data labels-idx1-ubyte.gz --check-data

# What is read with -f, as an argument and from a pipe.
try $WEFT tokenize tokenizer.json -f text.txt.gz --check
try $WEFT tokenize tokenizer.json -f text.txt -f text.txt.gz -f text.txt.zst --count
try $WEFT tokenize tokenizer.json -f text.txt -f lines.jsonl.zst --count --json
try $WEFT tokenize tokenizer.json "a text" -f text.txt
"$WEFT" tokenize tokenizer.json --count <text.txt.zst
model=run-text.txt
"$WEFT" eval $model text.txt --json >one.json
"$WEFT" eval $model text.txt.gz --json | cmp - one.json
"$WEFT" eval $model --json <text.txt.zst | cmp - one.json
"$WEFT" eval $model text.txt text.txt.gz -f text.txt
"$WEFT" eval $model text.txt text.txt.zst >two
"$WEFT" eval $model -f text.txt -f text.txt.gz | cmp - two
sed -n 1p two
"$WEFT" eval -m $model text.txt text.txt.gz | cmp - two
try $WEFT eval $model text.txt nothing.txt
try $WEFT run $model -f text.txt -f text.txt.gz

# Truncated, damaged, followed by other bytes, an archive, a bomb; a format that weft does not decompress.
head -c 700 text.txt.gz >cut.gz
head -c 700 text.txt.zst >cut.zst
{ cat text.txt.gz; echo more; } >more.gz
{ head -c 600 text.txt.gz; printf 'XXXX'; tail -c +605 text.txt.gz; } >bad.gz
{ head -c 600 text.txt.zst; printf 'XXXX'; tail -c +605 text.txt.zst; } >bad.zst
i=0
while [ $i -lt 65 ]; do
    cat "$packed/zeros.gz"
    i=$((i + 1))
done >bomb.gz
printf 'BZh91AY' >text.bz2
printf '' | gzip >empty.gz
for name in cut.gz cut.zst more.gz bad.gz bad.zst archive.tar.gz bomb.gz empty.gz text.bz2; do
    try $check $name
done
try $check bomb.gz --ram-max 8M | sed 's/the [0-9]* bytes/the N bytes/'
try $WEFT tokenize tokenizer.json -f archive.tar.gz
try $WEFT tokenize tokenizer.json -f cut.zst
try $WEFT train-tokenizer bad.gz
try $WEFT run text.txt.gz -p x
try $WEFT eval $model --ids text.txt.gz
