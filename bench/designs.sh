#!/bin/sh
# designs.sh TEXT [WEFT] - what can be chosen for a new decoder, one change at a time: 300 steps each on the same text, of
# the same size, from the same seed. Prints a table: the choice, its weights and the validation loss. Six minutes of
# one busy core for the million characters of tinyshakespeare.
set -eu
text=${1:?usage: bench/designs.sh TEXT [WEFT]}
weft=${2:-build/weft}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# row NAME OPTION...
row() {
    name=$1
    shift
    "$weft" train --data "$text" --characters --out "$work/run" --arch gpt2 --layers 4 --width 64 --heads 4 -c 64 -b 8 -n 300 \
        --lr 3e-3 --warmup 30 --seed 1337 --eval-every 0 --save-every 0 --validation 0.02 --sample 0 --threads 1 "$@" \
        --json >"$work/result" 2>"$work/log" || { cat "$work/log"; exit 1; }
    loss=$(sed -n 's/.*"val_loss":\([0-9.]*\).*/\1/p' "$work/result")
    weights=$(sed -n 's/.*"parameters":\([0-9]*\).*/\1/p' "$work/result")
    printf '| %s | `%s` | %s | %.3f |\n' "$name" "${*:---arch gpt2}" "$weights" "$loss"
    rm -r "$work/run"
}

echo '| choice | switches | weights | validation loss |'
echo '|---|---|---|---|'
row 'GPT-2'
row 'positions: sines' --positions sinusoidal
row 'positions: rotary' --positions rope
row 'positions: none' --positions none
row 'post-norm' --norm post
row 'RMSNorm' --norm pre-rms
row 'RMSNorm, post-norm' --norm post-rms
row 'activation: ReLU' --act relu
row 'activation: GELU, exact' --act gelu
row 'activation: SiLU' --act silu
row 'activation: SwiGLU' --act swiglu
row 'activation: GEGLU' --act geglu
row 'heads: 2 share keys' --attention gqa:2
row 'heads: all share keys' --attention mqa
row 'heads: a latent' --attention mla
row "all of Llama's" --positions rope --norm pre-rms --act swiglu --attention gqa:2
