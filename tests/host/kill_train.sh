#!/bin/sh
# kill_train.sh WEFT [KILLS] - kills weft train with -9 at random times, again and again: the resumed run ends with the
# same bytes as an uninterrupted one.
set -eu
weft=$1
kills=${2:-20}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
awk 'BEGIN { srand(7); for (i = 0; i < 4000; i++) printf "%s ", substr("the cat sat on a mat and saw", 1 + int(rand() * 20), 6) }' >text

train() { # RUN, in a subshell whose process it becomes
    exec "$weft" train --data text --characters --arch gpt2 --layers 1 --width 16 --heads 2 --hidden 32 -c 16 -b 2 -n 60 \
        --dropout 0.1 --save-every 1 --eval-every 1000 --sample 0 --threads 1 --seed 5 --out "$1" --resume \
        >"$1.out" 2>&1
}

fail() {
    cat run.out
    echo "[  FAILED  ] kill_train: $1"
    exit 1
}

echo "[ RUN      ] kill_train"
mkdir whole run
start=$(date +%s%N)
(train whole) || { cat whole.out; exit 1; }
took=$((($(date +%s%N) - start) / 1000000))
killed=0 ended=0 seed=1
while [ "$killed" -lt "$kills" ]; do
    seed=$(((seed * 1103515245 + 12345) % 2147483648))
    train run & child=$!
    sleep "$(awk -v a="$seed" -v t="$took" 'BEGIN { printf "%.3f", a / 2147483648 * t / 3000 }')"
    kill -9 "$child" 2>/dev/null || true
    code=0
    wait "$child" 2>/dev/null || code=$?
    case $code in
    137) killed=$((killed + 1)) ;;
    0)
        ended=$((ended + 1))
        cmp whole/model.safetensors run/model.safetensors || fail "other weights after $killed kills"
        rm -r run && mkdir run
        ;;
    *) fail "exit code $code" ;;
    esac
done
(train run) || fail "the last run"
cmp whole/model.safetensors run/model.safetensors || fail "other weights after $killed kills"
echo "[       OK ] kill_train, $killed kills, $((ended + 1)) runs to the end"
