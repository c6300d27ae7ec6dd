# What a model makes of changed tensors, and what else a trace shows. Numbers come from the kernels that every processor
# has; bits are compared through the files of --npy.
export WEFT_ISA=scalar
model=$GOLDEN/llama-gqa
try "$WEFT" trace "$model" --ids 1,5,7 --only output --zero blk.1.attn.head.2 --lens --top 3
try "$WEFT" trace "$model" --ids 1,5,7 --only blk.0.glu --scale 'blk.*.glu=0.5' --all-logits --top 2
"$WEFT" trace "$model" --ids 1,5,7 --only output --zero blk.0.attn.head.1 --lens --top 2 --json |
    sed 's/\(\.[0-9][0-9]\)[0-9]*/\1/g'

# The fused ops, opened; the logits keep their bits.
try "$WEFT" trace "$model" --ids 1,5 --open --only 'blk.0.ffn*' --only blk.0.glu --top 1
try "$WEFT" trace "$GOLDEN/mixtral" --ids 1,5 --open --only 'blk.0.moe*' --top 1
"$WEFT" trace "$GOLDEN/deepseek-v2" --ids 1,5 --only output --npy plain >out
"$WEFT" trace "$GOLDEN/deepseek-v2" --ids 1,5 --only output --npy opened --open --lens --maps >out
cmp plain/output.npy opened/output.npy && echo "opened: the same bits"

# A tensor patched with itself, a head with its columns, and one row for all rows.
"$WEFT" trace "$model" --ids 1,5,7 --npy a >out
try "$WEFT" trace "$model" --ids 1,5,7 --only output --npy b --top 1 --patch blk.0.attention=a/blk.0.attention.npy
cmp a/output.npy b/output.npy && echo "patched with itself: the same bits"
"$WEFT" trace "$model" --ids 1,5 --only output --npy c --patch token_embd=a/output_norm.npy >out
"$WEFT" trace "$model" --ids 1,5 --only output --npy d --patch blk.1.attn.head.0=a/token_embd.npy 2>&1 | head -1
# With one token and one head of values, every head's output is that value.
"$WEFT" trace "$GOLDEN/llama-mqa" --ids 5 --npy one >out
"$WEFT" trace "$GOLDEN/llama-mqa" --ids 5 --npy two --patch blk.0.attn.head.1=one/blk.0.attn_v.npy >out
cmp one/output.npy two/output.npy && echo "a head patched with its value: the same bits"
cmp -s a/output.npy c/output.npy || echo "one row for all: other bits"

# Translation: the decoder reads its start and the target, all in one forward. Pictures have labels.
try "$WEFT" trace "$GOLDEN/t5" --ids 4,5,6 --target-ids 7,8 --only 'dec.blk.0.cross_attention' --only output --top 2
try "$WEFT" trace "$GOLDEN/vit" "$GOLDEN/images/photo.png" --only cls.output --lens --zero blk.0.attn.head.0

# Wrong usage and files.
try "$WEFT" trace "$model" --ids 1 --zero nothing
try "$WEFT" trace "$model" --ids 1 --zero blk.0.ffn_up
try "$WEFT" trace "$model" --ids 1 --zero blk.0.attn.head.6
try "$WEFT" trace "$model" --ids 1 --maps --zero blk.0.attention.probs
try "$WEFT" trace "$model" --ids 1 --scale blk.0.glu
try "$WEFT" trace "$model" --ids 1 --scale blk.0.glu=half
try "$WEFT" trace "$model" --ids 1 --patch =a/output.npy
try "$WEFT" trace "$model" --ids 1 --patch blk.0.glu=missing.npy
try "$WEFT" trace "$model" --ids 1,5 --patch blk.0.glu=a/blk.0.glu.npy
try "$WEFT" trace "$model" --ids 1 --top 0
try "$WEFT" trace "$model" --ids 1 --target text
try "$WEFT" trace "$GOLDEN/t5" --ids 4 --target text --target-ids 4

# Files that are not what they say: every prefix is refused, and so are other types, orders and shapes.
file=a/blk.0.attn_norm.npy
size=$(wc -c <$file)
accepted=0
for n in 0 1 5 6 7 8 9 10 11 12 13 64 127 128 129 132 $((size - 4)) $((size - 1)); do
    head -c "$n" $file >cut.npy
    "$WEFT" trace "$model" --ids 1,5,7 --patch blk.0.attn_norm=cut.npy >out 2>&1 && accepted=$((accepted + 1))
done
{ cat $file; printf x; } >cut.npy
"$WEFT" trace "$model" --ids 1,5,7 --patch blk.0.attn_norm=cut.npy >out 2>&1 && accepted=$((accepted + 1))
echo "$accepted accepted"
wrong()
{
    LC_ALL=C sed "1s/$1/$2/" $file >wrong.npy
    try "$WEFT" trace "$model" --ids 1,5,7 --patch blk.0.attn_norm=wrong.npy
}
wrong "<f4" "<f8"
wrong "False" "True "
wrong "(3, 48)" "(3,-48)"
wrong "(3, 48), } *" "(4294967296, 4294967296, 4294967296), } "
wrong "(3, 48), }     " "(1, 1, 1, 3, 48), "
wrong "(3, 48)" "3, 48  "
wrong "NUMPY" "NUMPI"
