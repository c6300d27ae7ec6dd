# A tokenizer from text, its errors, and that it can be used.
try $WEFT train-tokenizer "$GOLDEN/train-tokenizer/corpus.txt" --vocab-size 400 --threads 2
try $WEFT tokenize tokenizer.json "the baker's"
try $WEFT train-tokenizer "$GOLDEN/train-tokenizer/corpus.txt" --model wordpiece --lines -v 300 -o words.json --json |
    sed 's/"bytes_peak":[0-9]*/"bytes_peak":N/'
try $WEFT tokenize words.json "the baker's"
try $WEFT train-tokenizer "$GOLDEN/train-tokenizer/corpus.txt" --ties bytes --special '<a>,<b>' -v 300 -o bytes.json
try $WEFT tokenize bytes.json --parse-special "<b>the"
printf 'abc\377' >bad.txt
try $WEFT train-tokenizer bad.txt
try $WEFT train-tokenizer
try $WEFT train-tokenizer nothing.txt
try $WEFT train-tokenizer bad.txt --model unigram
try $WEFT train-tokenizer bad.txt --ties coin
try $WEFT train-tokenizer bad.txt --vocab-size 0
try $WEFT train-tokenizer bad.txt --cased
try $WEFT train-tokenizer bad.txt --model wordpiece --pattern a
try $WEFT train-tokenizer "$GOLDEN/train-tokenizer/corpus.txt" --pattern '[a'
try $WEFT train-tokenizer "$GOLDEN/train-tokenizer/corpus.txt" --ram-max 100
try $WEFT train-tokenizer "$GOLDEN/train-tokenizer/corpus.txt" -o nowhere/tokenizer.json
ls
