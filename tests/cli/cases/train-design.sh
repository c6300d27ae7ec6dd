# What a new decoder is made of: one run with everything changed, which every command reads again; and what is refused.
awk 'BEGIN { for (i = 0; i < 1500; i++) printf "%s", substr("weft loom", 1 + i * i % 9, 1) }' >text
"$WEFT" train -d text -o run --positions sinusoidal --norm post-rms --act swiglu --attention mla --characters --layers 2 \
    --width 32 --heads 2 -c 32 -b 8 -n 30 --lr 1e-2 -t 1 --sample 0 >/dev/null 2>err || { cat err; echo "-> $?"; }
grep -e model_type -e activation -e position_emb -e norm_ -e rank -e head_dim -e n_inner run/config.json
"$WEFT" inspect run --tensors | grep -e position_embd -e 'blk.0' | sed 's/  *[0-9]* bytes.*//'
"$WEFT" trace run -p weft 2>/dev/null | grep -c -e latent.join -e _output_norm -e glu
"$WEFT" explain run -p weft --only checks --json 2>/dev/null | grep -o '"holds":[a-z]*' | sort | uniq -c | sed 's/^ *//'
"$WEFT" convert run run.gguf 2>err >/dev/null || echo "-> $?"
grep -o "GGUF defines.*" err
"$WEFT" eval run text 2>/dev/null | grep NLL >directory
"$WEFT" eval run.gguf text 2>/dev/null | grep NLL >gguf
cmp directory gguf && awk '{ exit !($2 < 1.2) }' directory && echo "both forms score the same, and it has learned"
try "$WEFT" train -d text -o other --norm sideways -n 1
try "$WEFT" train -d text -o other --act tanh -n 1
try "$WEFT" train -d text -o other --attention gqa:3 -n 1
try "$WEFT" train -d text -o other --attention gqa -n 1
try "$WEFT" train -d text -o other --arch llama --attention mla -n 1
try "$WEFT" train -d text -o other --arch t5 --attention mqa -n 1
try "$WEFT" train -d text -o other --kv-heads 2 --attention mqa -n 1
