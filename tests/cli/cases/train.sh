# A model from text: the files of a run, resuming it, and its errors.
i=0
while [ $i -lt 200 ]; do
    echo "the shuttle goes through the warp, and weft number $i follows it"
    i=$((i + 1))
done >text.txt
small="--characters --layers 2 --width 32 --heads 2 -c 16 -b 4 --schedule constant --warmup 1 --sample 8 -t 1"

# shellcheck disable=SC2086
"$WEFT" train --data text.txt --out whole $small -n 6 --eval-every 3 --save-every 3 >/dev/null 2>&1
echo "exit $?"
ls whole
echo "$(grep -c '"loss"' whole/metrics.jsonl) losses, $(grep -c val_loss whole/metrics.jsonl) evaluations," \
    "$(grep -c sample whole/metrics.jsonl) samples"
"$WEFT" run whole -p "the " -n 4 >/dev/null 2>&1
echo "weft run: exit $?"

# Three steps, and three more: the same bits, and no line of metrics twice.
# shellcheck disable=SC2086
"$WEFT" train --data text.txt --out parts $small -n 3 >/dev/null 2>&1
echo '{"step":4,"loss":9}' >>parts/metrics.jsonl
printf '{"step":5,"lo' >>parts/metrics.jsonl
# shellcheck disable=SC2086
"$WEFT" train --data text.txt --out parts $small -n 6
# shellcheck disable=SC2086
"$WEFT" train --data text.txt --out parts $small -n 6 --seed 5 --resume
# shellcheck disable=SC2086
"$WEFT" train --data text.txt --out parts $small -n 6 --resume >/dev/null 2>&1
echo "exit $?"
cmp whole/model.safetensors parts/model.safetensors && echo "the same weights"
cut -d, -f1 parts/metrics.jsonl | tr '\n' ' '
echo

# What is set for running models says nothing here.
# shellcheck disable=SC2086
WEFT_MODEL=none WEFT_SEED=5 "$WEFT" train --data text.txt --out set $small -n 6 >/dev/null 2>&1
cmp whole/model.safetensors set/model.safetensors && echo "the same weights"

# Fine-tuning with part of the model frozen.
"$WEFT" train whole --data text.txt --out tuned -n 2 -b 2 --freeze 'blk.0.*' --freeze 'token_embd*' >/dev/null 2>&1
echo "exit $?"

# Ctrl-C leaves a checkpoint.
# shellcheck disable=SC2086
"$WEFT" train --data text.txt --out long $small -n 1000000 >/dev/null 2>err &
pid=$!
i=0
until [ -s long/metrics.jsonl ] && [ "$(wc -l <long/metrics.jsonl)" -gt 3 ]; do
    i=$((i + 1))
    [ $i -lt 3000 ] && kill -0 $pid || break
    sleep 0.02
done
kill -INT $pid
wait $pid
echo "-> $?"
grep stopped err | sed 's/step [0-9]*/step N/'
ls long | sed 's/-[0-9]*[1-9][0-9]*/-N/'

try $WEFT train --out nowhere
try $WEFT train --data text.txt
try $WEFT train --data text.txt --out bad --schedule sawtooth
try $WEFT train --data text.txt --out bad --preset huge
try $WEFT train --data text.txt --out bad --arch qwen3
try $WEFT train --data text.txt --out bad --width 30 --heads 4
try $WEFT train --data text.txt --out bad2 -n 0
try $WEFT train --data text.txt --out bad2 --dropout 1
try $WEFT train whole --data text.txt --out bad2 --layers 3
try $WEFT train whole --data text.txt --out bad2 --freeze 'layer.*'
try $WEFT train whole --data text.txt --out bad2 -c 32
try $WEFT train --data none.txt --out bad3
try $WEFT train --data text.txt --out whole/step-00000003
ls
