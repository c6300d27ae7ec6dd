#!/bin/sh
# bits.sh - a hash of everything that a build computes: for a change that may not change a bit.
#
#   tools/bits.sh BUILD >before      then the change, and a build of it
#   tools/bits.sh BUILD | diff before -
#
# Of every golden model, and of the assets where WEFT_ASSETS is set: every tensor of a forward with its attention maps, the
# logits among them; what `convert` and `quantize` write, both ways; the checkpoints of three steps of training, whose moments
# hold the gradients. Then the checkpoints of a new model of every architecture, plain, in bf16, recomputed and with
# dropout. What is refused has its reason instead of a hash. Hashes hold for one processor and compiler.
# shellcheck disable=SC2086 # options are words
set -eu
cd "$(dirname "$0")/.."
[ $# = 1 ] || { sed -n '2,6s/^# \{0,1\}//p' "$0"; exit 2; }
weft=$(cd "$1" && pwd)/weft
golden=$PWD/tests/golden
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
WEFT_CONFIG=/dev/null
export WEFT_CONFIG
short=$(seq -s , 3 12) long=$(seq -s , 3 28)

hash_of() { # FILES OR DIRECTORIES: names and bytes, without files that hold times or the working directory
    find "$@" -type f ! -name metrics.jsonl ! -name options ! -name '*.html' 2>/dev/null | LC_ALL=C sort | xargs -r sha256sum | sha256sum | cut -c 1-16
}

# said WHAT NAME RESULT COMMAND...: runs it and prints the hash of its result, or why there is none.
said() {
    what=$1 name=$2 result=$3
    shift 3
    rm -rf "$result"
    if "$@" >out 2>err; then
        printf '%s %-12s %s\n' "$(hash_of "$result")" "$what" "$name"
    else
        printf -- '---------------- %-12s %s: %s\n' "$what" "$name" "$(head -n 1 err | sed "s|[^ ]*/||g")"
    fi
}

of_model() { # NAME PATH
    rm -rf model.gguf small.gguf
    said trace "$1" trace "$weft" trace "$2" --ids "$short" --maps --npy trace
    said trace-long "$1" trace "$weft" trace "$2" --ids "$long" --npy trace --kv-type f32 -t 1
    said images "$1" out "$weft" classify "$2" "$golden/images/photo.png" --json --top 0
    said gguf "$1" model.gguf "$weft" convert "$2" model.gguf --to gguf
    [ ! -f model.gguf ] || said back "$1" back "$weft" convert model.gguf back --to hf
    [ ! -f model.gguf ] || said trace-gguf "$1" trace "$weft" trace model.gguf --ids "$short" --npy trace
    for type in q8_0 q4_0 q4_k_m q3_k_m q2_k; do
        said $type "$1" small.gguf "$weft" quantize "$2" small.gguf $type
        [ ! -f small.gguf ] || said trace-$type "$1" trace "$weft" trace small.gguf --ids "$short" --npy trace
    done
    said train "$1" run "$weft" train "$2" --data text --tokenizer letters/tokenizer.json --out run $few -c 10 -b 2
    said train-pairs "$1" run "$weft" train "$2" --data pairs.tsv --tokenizer letters/tokenizer.json --out run $few -c 10 -b 2
}

new() { # ARCHITECTURE OPTIONS...
    arch=$1
    shift
    for how in "" --bf16 --recompute "--dropout 0.1"; do
        said "new $how" $arch run "$weft" train --arch $arch --width 32 --out run $few -b 3 $how "$@"
    done
}

"$weft" --version | sed -n 1p
sed -n 's/^model name.*: //p' /proc/cpuinfo | head -n 1
few="-n 3 --save-every 1 --eval-every 0 --sample 0 --keep 0 -t 2"
awk 'BEGIN { for (i = 0; i < 400; i++) printf "%s%s", substr("the weaver throws the shuttle ", 1 + i * i % 30, 3), i % 9 ? "" : "\n" }' >text
awk 'BEGIN { for (i = 0; i < 60; i++) printf "w%d\tt%d\n", i % 7, i % 5 }' >pairs.tsv

said train letters letters "$weft" train --data text --data pairs.tsv --format text --characters --layers 1 --width 8 \
    --heads 1 --out letters $few -c 24 -b 2
for path in "$golden"/*/config.json ${WEFT_ASSETS:+"$WEFT_ASSETS"/*/config.json "$WEFT_ASSETS"/*/*.gguf}; do
    case $path in
    */config.json) of_model "$(basename "$(dirname "$path")")" "$(dirname "$path")" ;;
    *) of_model "$(basename "$path")" "$path" ;;
    esac
done
for arch in llama gpt2 deepseek_v2 deepseek_v3; do
    new $arch --data text --characters --layers 2 --heads 2 -c 24
done
new bert --data text --vocab-size 300 --layers 2 --heads 2 -c 24
for arch in t5 bart marian transformer; do
    new $arch --data pairs.tsv --characters --layers 1 --heads 2 -c 24
done
new bahdanau --data pairs.tsv --characters -c 24
mkdir -p images/a images/b
for i in 1 2 3 4 5 6; do
    cp "$golden/images/photo.png" images/a/$i.png
    cp "$golden/images/grey8.png" images/b/$i.png
done
new vit --data images --image-size 16 --layers 1 --heads 2
