# Models without a GGUF architecture, as GGUF; verify and eval of encoders and of models that take pairs.
for m in bert-tag roberta-fill bart bahdanau; do
    "$WEFT" convert "$GOLDEN/$m" $m.gguf >/dev/null 2>said && "$WEFT" verify "$GOLDEN/$m" $m.gguf | sed -n '/^first/,$p'
    sed 's/.*: GGUF/GGUF/' said
done
"$WEFT" verify "$GOLDEN/bert" "$GOLDEN/bert" --json | sed 's/"kinds":{[^}]*}/"kinds":K/'
try "$WEFT" verify "$GOLDEN/bert-fill" "$GOLDEN/bert-tag"
try "$WEFT" verify "$GOLDEN/vit" "$GOLDEN/vit" --ids 1,2
printf '[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\nb\nc\n##b\n##c\n' >vocab.txt
mkdir fill && cp "$GOLDEN/bert-fill/config.json" "$GOLDEN/bert-fill/model.safetensors" vocab.txt fill/
printf 'a b c\n\nab bc\n' >lines.txt
"$WEFT" quantize fill fill.gguf f32 --quiet 2>/dev/null >/dev/null
"$WEFT" eval fill lines.txt --json >one && "$WEFT" eval fill.gguf lines.txt --json | cmp - one
try "$WEFT" eval fill.gguf lines.txt --against fill | sed -n '1p;/ratio/,$p'
try "$WEFT" eval fill lines.txt --lines
try "$WEFT" eval fill lines.txt --against "$GOLDEN/bert-tag"
try "$WEFT" eval "$GOLDEN/bert-classify" lines.txt
try "$WEFT" eval "$GOLDEN/bert" lines.txt
mkdir pairs && cp "$GOLDEN/bart/config.json" "$GOLDEN/bart/model.safetensors" vocab.txt pairs/
printf 'a b\tb a\nc\tab c\n' >pairs.tsv
"$WEFT" convert pairs pairs.gguf >/dev/null 2>&1
"$WEFT" eval pairs pairs.tsv --json >one && "$WEFT" eval pairs.gguf pairs.tsv --json | cmp - one
try "$WEFT" eval pairs.gguf pairs.tsv --against pairs | sed -n '1p;/ratio/,$p'
try "$WEFT" eval pairs lines.txt
