# Tokenizers on their way through the forms: from vocab.json and merges.txt, vocab.txt and tokenizer.model into GGUF, from there
# into a directory, and back; and a tokenizer that is not the model's own.
text="abc abba CAB"
through() { # DIRECTORY: the same ids in every form
    try "$WEFT" convert "$1" "$1.gguf"
    try "$WEFT" convert "$1.gguf" "$1-back"
    try "$WEFT" convert "$1-back" "$1-again.gguf"
    ls "$1-back"
    for form in "$1" "$1.gguf" "$1-back" "$1-again.gguf"; do
        try "$WEFT" tokenize "$form" "$text"
    done
}
model() { # NAME GOLDEN
    mkdir "$1"
    cp "$GOLDEN/$2/config.json" "$GOLDEN/$2/model.safetensors" "$1"
}

model bytes gpt2
printf '{"a":0,"b":1,"c":2,"A":3,"B":4,"C":5,"\304\240":6,"ab":7,"\304\240ab":8,"abc":9,"<|endoftext|>":10}' >bytes/vocab.json
printf '#version: 0.2\na b\n\304\240 ab\nab c\n' >bytes/merges.txt
through bytes
cat bytes-back/tokenizer_config.json

model words bert
printf '%s\n' '[PAD]' '[UNK]' '[CLS]' '[SEP]' '[MASK]' abc ab '##ba' CAB cab >words/vocab.txt
echo '{"do_lower_case":false}' >words/tokenizer_config.json
through words
echo '{"do_lower_case":true}' >words/tokenizer_config.json
try "$WEFT" tokenize words "$text"

# A new model takes any tokenizer, and keeps it as tokenizer.json.
cp "$GOLDEN/marian-text/source.spm" some.model
for i in 1 2 3 4 5 6 7 8 9; do echo "the reed and the boat, we like to row"; done >rows.txt
"$WEFT" train -d rows.txt -o run --tokenizer some.model -n 1 -b 1 -c 16 --sample 0 >/dev/null 2>&1
mkdir pieces
mv run/config.json run/model.safetensors pieces
cp some.model pieces/tokenizer.model
text="the reed"
try "$WEFT" tokenize run "$text"
through pieces
try "$WEFT" convert pieces same --to hf
cmp same/tokenizer.json run/tokenizer.json && echo the same tokenizer.json

# What GGUF cannot express is refused; what its readers ignore is reported.
cp "$GOLDEN/marian-text/source.spm" "$GOLDEN/marian-text/vocab.json" bytes
rm bytes/merges.txt
try "$WEFT" convert bytes marian.gguf
echo '{"<more>":92}' >pieces/added_tokens.json
try "$WEFT" convert pieces more.gguf

# Another tokenizer.
model bare gpt2
try "$WEFT" run bare -p "abc abba" -n 2
try "$WEFT" run bare --tokenizer bytes.gguf -p "abc abba" -n 2 --json
try "$WEFT" run bare --tokenizer bytes-back --ids 9,8 -n 2
try "$WEFT" run bare --tokenizer missing -p abc -n 2
try "$WEFT" tokenize --tokenizer bytes.gguf "abc abba"
try "$WEFT" tokenize bare --tokenizer bytes.gguf "abc abba"
try "$WEFT" trace bare --tokenizer bytes-back -p abc | head -3
echo "abc abba" >text.txt
try "$WEFT" eval bare --tokenizer bytes-back -f text.txt
try "$WEFT" verify bare bytes.gguf --tokenizer bytes-back -p "abc abba" | grep -v e+00
model encoder bert
try "$WEFT" embed encoder --tokenizer words-back "abc CAB" | cut -c 1-30
model fill bert-fill
try "$WEFT" fill-mask fill --tokenizer words-back "abc [MASK]" -k 1
model classify bert-classify
try "$WEFT" classify classify --tokenizer words-back "abc CAB"
model encdec t5
try "$WEFT" translate encdec --tokenizer bytes-back -p "abc" -n 3
