# Every named tensor of a forward: aligned, with formulas; in JSON; as files for numpy. The numbers are checked
# against traces elsewhere; here they come from the kernels that every processor has.
export WEFT_ISA=scalar
try "$WEFT" trace "$GOLDEN/llama-gqa" --ids 1,5,7 -t 1
try "$WEFT" trace "$GOLDEN/gpt2" --ids 1,5 --only 'blk.0.attention*' --only output --maps
"$WEFT" trace "$GOLDEN/llama-gqa" --ids 1,5 --only 'blk.1.att*' --maps --json | sed 's/\(\.[0-9][0-9]\)[0-9]*/\1/g'
try "$WEFT" trace "$GOLDEN/llama-gqa" --ids 1,5,7 --only blk.0.attn_norm --npy tensors
ls tensors
head -c 128 tensors/blk.0.attn_norm.npy | tr -d '\223' | sed 's/[^ -~]/?/g'
wc -c <tensors/blk.0.attn_norm.npy

# Wrong usage and files.
try "$WEFT" trace
try "$WEFT" trace "$GOLDEN/llama-gqa"
try "$WEFT" trace "$GOLDEN/llama-gqa" --ids 1 --only nothing
try "$WEFT" trace "$GOLDEN/llama-gqa" --ids 1 --npy missing/directory
touch file
try "$WEFT" trace "$GOLDEN/llama-gqa" --ids 1 --npy file
try "$WEFT" trace "$GOLDEN/llama-gqa" --ids 9999
# The cache is f32 unless an option or a setting says otherwise; a coarser one changes the numbers.
WEFT_KV_TYPE=bf16 "$WEFT" trace "$GOLDEN/llama-gqa" --ids 1,5,7 --only output --json >set
for kv in '' f32 f16 bf16; do
    "$WEFT" trace "$GOLDEN/llama-gqa" --ids 1,5,7 --only output --json ${kv:+--kv-type $kv} >"kv.$kv"
done
for kv in f32 f16 bf16; do cmp -s kv. "kv.$kv" && echo "$kv is the default"; done
cmp set kv.bf16 && echo "WEFT_KV_TYPE counts"
for command in trace eval run; do "$WEFT" help all $command | grep -A 1 -e --kv-type; done
try "$WEFT" help trace
