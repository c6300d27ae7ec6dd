#!/bin/sh
# make.sh TEXT OUT.gguf - trains the model of this directory from tinyshakespeare, and compares its SHA-256 with the one in README.md.
# make.sh --all TEXT - does that with every kernel table of this processor, and with one thread.
# WEFT is the program (build/weft).
set -eu
here=$(cd "$(dirname "$0")" && pwd)
weft=${WEFT:-$here/../build/weft}
wanted=$(sed -n 's/^| `shakespeare.gguf`.*`\([0-9a-f]*\)` |$/\1/p' "$here/README.md")
text_wanted=$(sed -n 's/^`\([0-9a-f]\{64\}\)`\.$/\1/p' "$here/README.md")

hash() { sha256sum "$1" | cut -d' ' -f1; }

make_model() { # TEXT OUT THREADS
    run=$(mktemp -d)
    "$weft" train --data "$1" --out "$run/shakespeare" --arch llama --layers 3 --width 128 --heads 4 --hidden 352 --tied \
        --vocab-size 1024 --ctx-size 256 --batch-size 8 --steps 1500 --lr 3e-3 --seed 1 --eval-every 500 --save-every 0 \
        --sample 0 --threads "$3" >"$run/log" 2>&1 || { cat "$run/log"; rm -r "$run"; exit 1; }
    grep '^validation' "$run/log"
    "$weft" quantize "$run/shakespeare" "$2" q8_0 --quiet
    rm -r "$run"
}

compare() { # FILE WHAT
    if [ "$(hash "$1")" = "$wanted" ]; then
        echo "$2: the same bytes"
    else
        echo "$2: other bytes, $(hash "$1"); expected $wanted"
        exit 1
    fi
}

all=false
[ "${1:-}" = --all ] && { all=true; shift; }
[ $# -ge 1 ] || { sed -n '2,4s/^# //p' "$0"; exit 2; }
[ "$(hash "$1")" = "$text_wanted" ] || { echo "$1: not tinyshakespeare: $(hash "$1"); expected $text_wanted"; exit 1; }
if ! $all; then
    make_model "$1" "$2" 2
    compare "$2" "$2"
    exit
fi
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
for isa in avx512_vnni avx512 avx_vnni avx2 neon_i8mm neon_dot neon; do
    WEFT_ISA=$isa "$weft" --version 2>/dev/null | grep -q "kernels.*$isa\b" || continue
    WEFT_ISA=$isa make_model "$1" "$out/$isa.gguf" 2
    compare "$out/$isa.gguf" "$isa, 2 threads"
done
make_model "$1" "$out/one.gguf" 1
compare "$out/one.gguf" "1 thread"
