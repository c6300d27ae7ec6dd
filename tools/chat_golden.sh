#!/bin/sh
# chat_golden.sh OUT.gguf - trains the small chat model of tests/golden/chat, in ten seconds. Its answers depend on the
# last message alone: it thinks after "think", tries to command the terminal after "red", and does not stop counting
# after "count". WEFT is the program (build/weft).
set -eu
[ $# -eq 1 ] || { sed -n '2,4s/^# //p' "$0"; exit 2; }
weft=${WEFT:-$(cd "$(dirname "$0")/.." && pwd)/build/weft}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Conversations drawn by a linear congruence, the same everywhere.
awk '
function draw(n) { seed = (seed * 16807) % 2147483647; return int(seed / 1000) % n }
BEGIN {
    seed = 1
    q[0] = "hi";    a[0] = "Hello!"
    q[1] = "think"; a[1] = "<think>\nHm, a riddle.\n</think>\n\nIt is four."
    q[2] = "red";   a[2] = "\033[31mred\033[0m"
    q[3] = "bye";   a[3] = "See you."
    q[4] = "count"
    for (i = 0; i < 60; i++)
        a[4] = a[4] "one two three "
    system_text[0] = "be kind"
    system_text[1] = "be brief"
    for (k = 0; k < 3000; k++) {
        if (draw(3) == 0)
            printf "<|im_start|>system\n%s<|im_end|>\n", system_text[draw(2)]
        for (t = draw(5); t >= 0; t--) {
            i = draw(5)
            printf "<|im_start|>user\n%s<|im_end|>\n<|im_start|>assistant\n%s", q[i], a[i]
            if (i == 4)
                break
            print "<|im_end|>"
        }
        printf "<|endoftext|>"
    }
}' >"$work/chat.txt"

"$weft" train-tokenizer "$work/chat.txt" --vocab-size 300 --special '<|im_end|>,<|im_start|>,<|endoftext|>' \
    -o "$work/tokenizer.json" >"$work/log"
"$weft" train --data "$work/chat.txt" --tokenizer "$work/tokenizer.json" --parse-special --separator '<|endoftext|>' \
    --out "$work/run" --arch llama --layers 2 --width 32 --heads 2 --hidden 64 --tied --ctx-size 256 --batch-size 8 \
    --steps 400 --lr 6e-3 --seed 1 --save-every 0 --sample 0 --threads 2 >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
grep '^validation' "$work/log"
# <|im_end|> ends a text, and contexts may be longer than in training.
sed -i 's/"max_position_embeddings": 256/"max_position_embeddings": 65536, "eos_token_id": 0/' "$work/run/config.json"
"$weft" quantize "$work/run" "$1" q8_0 --quiet
