# Gradients and moments of a step, weight by weight: the table, its JSON, that the numbers belong together, and its errors.
# Numbers come from the kernels that every processor has.
export WEFT_ISA=scalar
i=0
while [ $i -lt 100 ]; do
    echo "the shuttle goes through the warp, and weft number $i follows it"
    i=$((i + 1))
done >text.txt
small="--characters --layers 1 --width 16 --heads 2 -c 8 -b 2 --schedule constant --warmup 1 --sample 0 -t 1"

# shellcheck disable=SC2086
"$WEFT" train --data text.txt --out run $small -n 2 --tensors 1 --freeze 'blk.0.ffn*' 2>/dev/null >out || echo "-> $?"
sed -n '1,/^$/p' out | sed 's/ *[-0-9.]*e-[1-9][0-9]/     tiny/g' # rounding errors
sed -n 's/^\([a-z]*\) .*/\1/p' out | tail -5

# The run has the same bits as one that shows nothing, and forgets what was shown.
# shellcheck disable=SC2086
"$WEFT" train --data text.txt --out plain $small -n 2 --freeze 'blk.0.ffn*' >out 2>&1 || echo "-> $?"
cmp run/model.safetensors plain/model.safetensors && cmp run/options plain/options && echo "the same run"

# After the first step the moments are m = 0.1 g and v = 0.01 g^2 of the clipped gradient, and the norm that clips is that
# of all gradients: clip = 1 / norm.
# shellcheck disable=SC2086
"$WEFT" train --data text.txt --out json $small -n 3 --tensors 1 --json 2>/dev/null >lines || echo "-> $?"
tail -n 1 lines | sed 's/:[0-9.]*e*-*[0-9]*\([,}]\)/:N\1/g'
sed '$d; s/[][{}":,]/ /g' lines | awk '
    function near(a, b, scale) { d = a - b; return (d < 0 ? -d : d) <= 1e-5 * scale + 1e-30 }
    {
        for (i = 1; i <= NF; i++) {
            if ($i == "shape") { n = 1; for (i++; $i != "clip"; i++) n *= $i; clip = $(i + 1) }
            if ($i == "weight" || $i == "grad" || $i == "m" || $i == "v") what = $i
            if ($i == "mean" || $i == "rms" || $i == "min" || $i == "max") at[what, $i] = $(i + 1)
        }
        rms = at["grad", "rms"]
        norm += n * rms * rms
        good += near(at["m", "rms"], 0.1 * clip * rms, rms) && near(at["m", "mean"], 0.1 * clip * at["grad", "mean"], rms) &&
            near(at["m", "min"], 0.1 * clip * at["grad", "min"], rms) && near(at["m", "max"], 0.1 * clip * at["grad", "max"], rms) &&
            near(at["v", "mean"], 0.01 * clip * clip * rms * rms, rms * rms) && at["v", "min"] >= 0 &&
            at["weight", "min"] <= at["weight", "mean"] && at["weight", "mean"] <= at["weight", "max"]
    }
    END { print good " of " NR " weights add up; " (near(clip * sqrt(norm), 1, 1) ? "so does the norm" : "the norm does not: " clip " " norm) }'

# Steps that cannot be shown.
try "$WEFT" train --data text.txt --out run --resume -n 3 --tensors 2 2>&1 | grep -e tensors -e '->'
try "$WEFT" train --data text.txt --out run --resume -n 5 --tensors 4 2>&1 | grep -e '^after' -e tensors -e '->'
# shellcheck disable=SC2086
try "$WEFT" train --data text.txt --out early $small -n 9 --eval-every 1 --patience 1 --lr 1 --tensors 9 2>&1 | grep -e tensors: -e '->'
try "$WEFT" train --data text.txt --out bad -n 3 --tensors 4
try "$WEFT" train --data text.txt --out bad -n 3 --tensors -1
try "$WEFT" train --data text.txt --out bad -n 3 --tensors all
try "$WEFT" train --data text.txt --check-data --json
ls
