# The training data of a run: counts, samples with targets in brackets, files of ids.
T="--tokenizer tokenizer.json"
printf 'abcdefghijklmnopqrstuvwxyz ABCDEFGHIJKLMNOPQRSTUVWXYZ?.:\n' >letters.txt
$WEFT train-tokenizer letters.txt --model characters -o tokenizer.json >/dev/null
echo '{"eos_token": "<|endoftext|>"}' >tokenizer_config.json
cat >chat.jsonl <<'EOF'
{"prompt": "Q: grass? A:", "completion": " green"}
{"prompt": "Q: a sky that goes on for ever? A:", "completion": " blue"}

{"prompt": "", "completion": ""}
{"text": "plain text"}
{"text": "a text that is too long for one sample, far too long"}
EOF
try $WEFT train --data chat.jsonl $T --check-data -c 32 --validation 0 --show 5
try $WEFT train --data letters.txt $T --check-data -c 8 --show 1 --seed 7
try $WEFT train --data letters.txt --characters --check-data -c 8 --show 0
try $WEFT train --data chat.jsonl $T --save-ids chat.ids -c 32 --validation 0
try $WEFT train --data chat.ids $T --check-data -c 32 --validation 0 --show 1
printf 'one<s>two<s>three' >three.txt
try $WEFT train --data three.txt --separator '<s>' --characters --check-data -c 8 --validation 0.4 --show 9
printf '{"text": "good"}\n{"text": 5}\n' >bad.jsonl
try $WEFT train --data bad.jsonl $T --check-data
head -c 70 chat.ids >cut.ids
try $WEFT train --data cut.ids $T --check-data
try $WEFT train --data nothing.txt $T --check-data
try $WEFT train --data bad.jsonl --check-data
try $WEFT train --data three.txt
try $WEFT train --data three.txt --check-data --show -1
ls
