#!/bin/sh
# pages.sh WEFT - the pages of `weft explain` draw: one of each family, a text of one token, and one of 700, each run by page.mjs.
set -u
weft=$1
here=$(cd "$(dirname "$0")" && pwd)
root=$(dirname "$(dirname "$here")")
golden=$root/tests/golden
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
failed=0
page() { # NAME ARGUMENTS...
    name=$1
    shift
    "$weft" explain "$@" -o "$work/$name.html" 2>"$work/log" && "${NODE:-node}" "$here/page.mjs" "$work/$name.html" && return
    echo "pages: weft explain $*"
    cat "$work/log"
    failed=1
}
page decoder "$root/models/shakespeare.gguf" "The cat sat on" --layer 2 --head 1 --token 3
page token "$root/models/shakespeare.gguf" a
for i in gpt2 deepseek-v2 deepseek-v3 gpt-oss mixtral mistral-window gemma2 llama-yarn mpnet-fill bert-fill roberta-classify bert-tag qwen3-embed; do
    page $i "$golden/$i" --ids 4,5,6,7
done
for i in bart t5 transformer-2017 bahdanau marian; do page $i "$golden/$i" --ids 4,5,6,7,8 --target-ids 9,10,11; done
page t5-own "$golden/t5" --ids 4,5,6,7,8
page vit "$golden/vit" "$golden/images/photo.png"
page kernels --kernels "$golden/points.csv"
page train-gpt2 "$golden/gpt2" --ids 4,5,6,7,8 --train
page train-deepseek "$golden/deepseek-v2" --ids 4,5,6,7,8 --target-ids 9 --train
page train-bert "$golden/bert-fill" --ids 4,5,6,7 --target-ids 9 --token 2 --train

# More products of q and k than a call may have arguments, and more shares of attention than a page keeps.
head -c 4000 "$root/README.md" >"$work/text"
"$weft" train --data "$work/text" --characters --layers 6 --width 16 --heads 2 -c 700 -b 1 -n 1 --sample 0 --out "$work/long" >"$work/log" 2>&1 ||
    { cat "$work/log"; exit 1; }
head -c 690 "$work/text" >"$work/prompt"
page long "$work/long" -f "$work/prompt" --only heads,root,mask,cache,residual --layer 4
"$weft" explain "$work/long" -f "$work/prompt" --only heads --all -o "$work/all.html" 2>"$work/log"
size=$(wc -c <"$work/long.html") all=$(wc -c <"$work/all.html")
[ "$size" -lt 8000000 ] && [ "$all" -gt 16000000 ] ||
    { echo "pages: a long text has $size bytes, expected less than 8000000; with --all $all, expected more than 16000000"; failed=1; }

# Heads of 3 columns and 2 that rotate: an even number rotates, though 5 is odd.
"$weft" train --data "$work/text" --characters --layers 1 --width 6 --heads 2 -c 16 -b 2 -n 2 --sample 0 --attention mla --positions rope \
    --out "$work/odd" >"$work/log" 2>&1 || { cat "$work/log"; failed=1; }
page odd "$work/odd" "read"
"$weft" explain "$work/odd" "read" --only checks --json | grep -o '"name":"absorbed"[^}]*"holds":true' >/dev/null ||
    { echo "pages: an odd head: scores by latents are not the scores by keys"; failed=1; }
exit $failed
