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

model pieces llama-gqa
cp "$GOLDEN/marian-text/source.spm" pieces/tokenizer.model
text="the reed"
through pieces

# What GGUF cannot say is refused; what it does not read is said.
cp "$GOLDEN/marian-text/source.spm" "$GOLDEN/marian-text/vocab.json" bytes
rm bytes/merges.txt
try "$WEFT" convert bytes marian.gguf
echo '{"<more>":66}' >pieces/added_tokens.json
try "$WEFT" convert pieces more.gguf

# Another tokenizer.
model bare gpt2
try "$WEFT" run bare -p "abc abba" -n 2
try "$WEFT" run bare --tokenizer bytes.gguf -p "abc abba" -n 2 --json
try "$WEFT" run bare --tokenizer bytes-back --ids 9,8 -n 2
try "$WEFT" run bare --tokenizer missing -p abc -n 2
try "$WEFT" tokenize --tokenizer bytes.gguf "abc abba"
try "$WEFT" tokenize bare --tokenizer bytes.gguf "abc abba"
try "$WEFT" trace bare --tokenizer bytes-back -p abc
echo "abc abba" >text.txt
try "$WEFT" eval bare --tokenizer bytes-back -f text.txt
try "$WEFT" verify bare bytes.gguf --tokenizer bytes-back -p "abc abba"
model encoder bert
try "$WEFT" embed encoder --tokenizer words-back "abc CAB" | cut -c 1-30
model fill bert-fill
try "$WEFT" fill-mask fill --tokenizer words-back "abc [MASK]" -k 1
model classify bert-classify
try "$WEFT" classify classify --tokenizer words-back "abc CAB"
model encdec t5
try "$WEFT" translate encdec --tokenizer pieces-back -p "the reed" -n 3
