# The seed's GPT: fused projections, rotary positions instead of learned ones, products in bf16.
awk 'BEGIN { for (i = 0; i < 1500; i++) printf "%s", substr("weft loom", 1 + i * i % 9, 1) }' >text
"$WEFT" train -d text -o run --arch gpt2 --positions rope --bf16 --characters --layers 2 --width 32 --heads 2 -c 32 -b 8 \
    -n 30 --lr 1e-2 -t 1 --sample 0 >/dev/null 2>err || echo "-> $?"
grep "of memory, about" err | sed "s/; .* of memory, about .* for/; N of memory, about T for/"
grep -e position -e rope run/config.json
"$WEFT" inspect run --tensors | grep -e ' position_embd' -e 'blk.0.attn_qkv.weight'
"$WEFT" convert run run.gguf >/dev/null 2>&1 || echo "-> $?"
"$WEFT" eval run text 2>/dev/null | grep NLL >directory
"$WEFT" eval run.gguf text 2>/dev/null | grep NLL >gguf
cmp directory gguf && awk '{ exit !($2 < 1.2) }' directory && echo "both forms score the same, and it has learned"
try "$WEFT" train -d text -o other --arch llama --positions rope -n 1
try "$WEFT" train -d text -o other --positions alibi -n 1
