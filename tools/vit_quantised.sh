#!/bin/sh
# vit_quantised.sh MNIST [STEPS] - trains the ViT of docs/IMAGES.md on the IDX files in the directory MNIST (packed or not), writes it in
# q8_0 and q4_0, and counts how many of the 10,000 test pictures each gets right. Fails where q8_0 loses more than 0.2 points.
# WEFT is the program (build/weft).
set -eu
weft=${WEFT:-$(dirname "$0")/../build/weft}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for name in train-images-idx3 train-labels-idx1 t10k-images-idx3 t10k-labels-idx1; do
    if [ -f "$1/$name-ubyte" ]; then cp "$1/$name-ubyte" "$work"; else gzip -dc "$1/$name-ubyte.gz" >"$work/$name-ubyte"; fi
done
"$weft" train -d "$work/train-images-idx3-ubyte" -d "$work/train-labels-idx1-ubyte" -o "$work/run" --patch-size 7 --layers 4 --width 64 \
    --heads 4 --hidden 256 --shift 1 -b 128 -n "${2:-4500}" --lr 2e-3 --min-lr 1e-5 --warmup 200 --weight-decay 0.05 \
    --validation 0.02 --eval-every 0 --save-every 0 >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
for type in q8_0 q4_0; do "$weft" quantize "$work/run" "$work/$type.gguf" $type --quiet >/dev/null 2>&1; done
for model in run q8_0.gguf q4_0.gguf; do
    right=$("$weft" classify "$work/$model" -d "$work/t10k-images-idx3-ubyte" -d "$work/t10k-labels-idx1-ubyte" | sed -n 's/^accuracy .*(\([0-9]*\) of.*/\1/p')
    echo "$model: $right of 10000 right"
    [ "$model" = run ] && first=$right
    [ "$model" != q8_0.gguf ] || [ "$right" -ge $((first - 20)) ]
done
