#!/bin/sh
# old-files.sh WEFT - writes tests/golden/old/VERSION: one small file of each kind that weft writes and reads again, and the
# options of its two runs, which resume with them. Run it for each release; tests/cli/cases/old-files.sh opens what every
# version wrote.
set -eu
cd "$(dirname "$0")/.."
case $1 in
/*) weft=$1 ;;
*) weft=$(pwd)/$1 ;;
esac
to=tests/golden/old/$("$weft" version | sed -n 's/^weft //p')
if [ -e "$to" ]; then
    echo "$to: is there already; files of a version are written once" >&2
    exit 1
fi
mkdir -p "$to"
cd "$to"

i=0
while [ $i -lt 40 ]; do
    echo "the shuttle goes through the warp, and weft number $i follows it"
    i=$((i + 1))
done >text.txt
common="--data text.txt --layers 1 --heads 2 -b 8 --sample 4 --save-every 0 --eval-every 50 --keep 1 -t 1 --characters --lr 1e-2"
echo "$common --arch gpt2 --width 32 -c 48" >run.options
echo "$common --arch t5 --width 16 --hidden 16 -c 32" >spans.options
# shellcheck disable=SC2046
"$weft" train $(cat run.options) --out run -n 150
# shellcheck disable=SC2046
"$weft" train $(cat spans.options) --out spans -n 50
"$weft" train --data text.txt --tokenizer run/tokenizer.json --save-ids ids.weft
"$weft" train-tokenizer text.txt --vocab-size 300 -o tokenizer.json
"$weft" convert run model.gguf
"$weft" convert run parts.gguf --max-shard-size 10K
"$weft" convert model.gguf directory
for type in q8_0 q4_0 q5_1 f16 bf16; do
    "$weft" quantize model.gguf $type.gguf $type --quiet
done
for kv in f32 f16 bf16 q8_0; do
    "$weft" run model.gguf -p "the shuttle" -n 8 --temp 0 --kv-type $kv --session $kv.session
done
du -sh .
