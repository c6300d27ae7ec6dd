# The edge of the process: closed descriptors, signals, limits, leftover files.
i=0
while [ $i -lt 200 ]; do
    echo "the shuttle goes through the warp, and weft number $i follows it"
    i=$((i + 1))
done >text.txt
small="--data text.txt --characters --width 16 --heads 2 --hidden 32 -c 16 -b 2 --sample 0 -t 1"

# Descriptors 1 and 2 closed: no file gets their numbers, and with them what is printed. The table of this model is
# longer than a buffer, so that it is written while the file is.
# shellcheck disable=SC2086
"$WEFT" train $small --layers 10 -n 1 --out deep >/dev/null 2>&1
"$WEFT" quantize deep open.gguf q8_0 >table 2>/dev/null
[ "$(wc -c <table)" -gt 8192 ] && echo "a long table"
"$WEFT" quantize deep closed.gguf q8_0 >&- 2>err
echo "-> $?"
cat err
cmp open.gguf closed.gguf && echo "the same file"
# shellcheck disable=SC2086
"$WEFT" train $small --layers 1 -n 3 --out quiet >/dev/null 2>&-
echo "stderr closed: -> $?"
grep -c -v '^{"step":[0-9]*,.*}$' quiet/metrics.jsonl

# A file for metrics that is none: a sentence, nothing written.
mkdir -p odd/metrics.jsonl
# shellcheck disable=SC2086
try "$WEFT" train $small --layers 1 -n 3 --out odd
ls odd

# SIGTERM and SIGHUP stop a run as Ctrl-C does: a checkpoint, the signal's exit code, and it can be resumed.
stop_with() { # SIGNAL
    # shellcheck disable=SC2086
    env --default-signal=HUP,TERM "$WEFT" train $small --layers 1 -n 1000000 --save-every 0 --eval-every 0 --out "run-$1" >/dev/null 2>"err-$1" &
    pid=$!
    until grep -q '"step":3,' "run-$1/metrics.jsonl" 2>/dev/null || ! kill -0 $pid; do sleep 0.02; done
    kill "-$1" $pid
    wait $pid
    echo "$1 -> $?"
    step=$(sed -n 's/.*stopped at step \([0-9]*\);.*/\1/p' "err-$1")
    [ "$step" -ge 3 ] && [ -f "run-$1/$(printf 'step-%08d' "$step")/manifest.json" ] && echo "a checkpoint of its last step"
    find "run-$1" -name '*.part'
}
stop_with TERM
stop_with HUP
stop_with INT

# What ignores SIGHUP before it starts, as under nohup, goes on ignoring it.
# shellcheck disable=SC2086
(trap '' HUP && exec "$WEFT" train $small --layers 1 -n 1000000 --save-every 0 --eval-every 0 --out nohup >/dev/null 2>err) &
pid=$!
until grep -q '"step":3,' nohup/metrics.jsonl 2>/dev/null || ! kill -0 $pid; do sleep 0.02; done
kill -HUP $pid
sleep 0.2
kill -0 $pid && echo "still there"

# One process a run.
# shellcheck disable=SC2086
try "$WEFT" train $small --layers 1 -n 5 --out nohup --resume
kill -TERM $pid
wait $pid
echo "nohup -> $?"

# A reader of its messages that goes away does not end a run.
# shellcheck disable=SC2086
"$WEFT" train $small --layers 1 -n 3 --out piped 2>&1 >/dev/null | true
[ -d piped/step-00000003 ] && echo "three steps"

# A file that exceeds `ulimit -f` is an error, and leaves nothing.
(ulimit -f 8 && exec "$WEFT" quantize deep limited.gguf q8_0 --quiet) >/dev/null 2>err
echo "-> $?"
grep limited.gguf err
ls | grep limited

# Nor does a run end where its metrics do not fit: 64 KiB are enough for checkpoints, and for about 400 lines.
# shellcheck disable=SC2086
(ulimit -f 128 && exec "$WEFT" train $small --layers 1 -n 600 --eval-every 0 --out cramped) >/dev/null 2>err
echo "-> $?"
grep metrics.jsonl err | sed 's/: [0-9]* lines/: N lines/'
grep -c -v '^{"step":[0-9]*,.*}$' cramped/metrics.jsonl
[ "$(wc -l <cramped/metrics.jsonl)" -gt 300 ] && [ -d cramped/step-00000600 ] && echo "all steps, most lines"

# A file keeps its mode when it is replaced.
"$WEFT" run deep -p "the" -n 1 --session mine >/dev/null 2>&1
chmod 600 mine
"$WEFT" run deep -p "the weft" -n 1 --session mine >/dev/null 2>&1
stat -c '%a' mine

# The next save in a directory removes the part files of a killed writer.
touch stale.weft-0123456789abcdef.part download.part
"$WEFT" run deep -p "the" -n 1 --session mine >/dev/null 2>&1
ls | grep part

# A file of vectors is written whole or not at all: the second line has too many tokens.
printf 'the cat sat on the mat\nthe dog sat on the rug\n' >corpus.txt
"$WEFT" train-tokenizer corpus.txt --model wordpiece --vocab-size 60 -o tokenizer.json >/dev/null 2>&1
cp -r "$GOLDEN/bert" . && cp tokenizer.json bert
awk 'BEGIN { print "the cat"; for (i = 0; i < 2000; i++) printf "the cat "; print "" }' >lines
echo old >vectors.npy
try "$WEFT" embed bert -f lines --npy vectors.npy
cat vectors.npy
try "$WEFT" embed bert -f lines --npy new.npy
head -n 1 lines >line
try "$WEFT" embed bert -f line --npy good.npy
ls | grep npy
