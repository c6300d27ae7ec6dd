#!/bin/sh
# kill_train.sh WEFT [KILLS] - kills weft train with -9 at random times, again and again: the resumed run ends with the
# same bytes as an uninterrupted one. First for a new model, then for adapters of it: LoRA and DoRA.
set -eu
weft=$1
kills=${2:-20}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
awk 'BEGIN { srand(7); for (i = 0; i < 4000; i++) printf "%s ", substr("the cat sat on a mat and saw", 1 + int(rand() * 20), 6) }' >text

train() { # model|adapter|gains RUN, in a subshell whose process it becomes
    kind=$1 out=$2
    case $kind in
    model) set -- --characters --arch gpt2 --layers 1 --width 16 --heads 2 --hidden 32 --dropout 0.1 ;;
    adapter) set -- whole-model --lora r=4,dropout=0.1 --accumulate 4 --groups 2 --recompute ;;
    gains) set -- whole-model --lora r=4,dora --accumulate 2 ;;
    esac
    exec "$weft" train --data text "$@" -c 16 -b 2 -n 60 --save-every 1 --eval-every 1000 --sample 0 --threads 1 --seed 5 \
        --out "$out" --resume >"$out.out" 2>&1
}

fail() {
    cat run-"$kind".out
    echo "[  FAILED  ] kill_train: $1"
    exit 1
}

same() { # FILE
    cmp "whole-$kind/$1" "run-$kind/$1" || fail "other weights after $killed kills"
}

kill_often() { # model|adapter|gains FILE
    kind=$1
    mkdir "whole-$kind" "run-$kind"
    start=$(date +%s%N)
    (train "$kind" "whole-$kind") || { cat "whole-$kind.out"; exit 1; }
    took=$((($(date +%s%N) - start) / 1000000))
    killed=0 ended=0 seed=1
    while [ "$killed" -lt "$kills" ]; do
        seed=$(((seed * 1103515245 + 12345) % 2147483648))
        train "$kind" "run-$kind" & child=$!
        sleep "$(awk -v a="$seed" -v t="$took" 'BEGIN { printf "%.3f", a / 2147483648 * t / 3000 }')"
        kill -9 "$child" 2>/dev/null || true
        code=0
        wait "$child" 2>/dev/null || code=$?
        case $code in
        137) killed=$((killed + 1)) ;;
        0)
            ended=$((ended + 1))
            same "$2"
            rm -r "run-$kind" && mkdir "run-$kind"
            ;;
        *) fail "exit code $code" ;;
        esac
    done
    (train "$kind" "run-$kind") || fail "the last run"
    same "$2"
    echo "[       OK ] kill_train: $kind, $killed kills, $((ended + 1)) runs to the end"
}

echo "[ RUN      ] kill_train"
kill_often model model.safetensors
kill_often adapter adapter_model.safetensors
kill_often gains adapter_model.safetensors
