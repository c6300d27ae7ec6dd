# The shape of the table; what it measures depends on the machine.
shape() { "$@" | sed 's/[0-9][0-9.]* to [0-9.]*/A to B/; s/  *[0-9.]*  *A to B/ X A to B/; s/[0-9.]* [kMGT]*B\/s/Y B\/s/; s/  *[0-9.]* [kMGT]*B  *[0-9]* %/ Y Z %/; s/^\(machine *\)[^,]*/\1K/'; }
try shape "$WEFT" bench "$GOLDEN/llama-gqa" -p 16 -n 4 -r 2 --depth 0,8 --batch 1,3 -t 1
"$WEFT" bench "$GOLDEN/llama-gqa" -p 8 -n 2 -r 1 --json -t 1 |
    sed 's/\("kernels":\)"[^"]*"/\1"K"/; s/\("bytes_per_second":\|"median":\|"share":\)[-+e0-9.]*/\1X/g; s/"turns":\[[-+e0-9.,]*\]/"turns":[X]/g'
try "$WEFT" bench
try "$WEFT" bench "$GOLDEN/llama-gqa" -p 0 -n 0
try "$WEFT" bench "$GOLDEN/llama-gqa" -p -1
try "$WEFT" bench "$GOLDEN/llama-gqa" --depth 1,x
try "$WEFT" bench "$GOLDEN/llama-gqa" --batch 0
try "$WEFT" bench "$GOLDEN/llama-gqa" --turns 0
try "$WEFT" bench "$GOLDEN/llama-gqa" -p 600
try "$WEFT" bench missing.gguf

# Lengths that are not given fit the context; encoders, pictures and translations have their own tests.
try shape "$WEFT" bench "$GOLDEN/gpt2" -r 1 -t 1
try shape "$WEFT" bench "$GOLDEN/bert" -r 1 -t 1
try shape "$WEFT" bench "$GOLDEN/roberta-fill" -p 7 --batch 1,3 -r 1 -t 1
try shape "$WEFT" bench "$GOLDEN/bart" -r 1 -t 1 -n 5 --depth 0,3
try shape "$WEFT" bench "$GOLDEN/vit" -r 1 -t 1
"$WEFT" bench "$GOLDEN/vit" -r 1 --json -t 1 --batch 2 |
    sed 's/\("kernels":\)"[^"]*"/\1"K"/; s/"median":[-+e0-9.]*/"median":X/g; s/"turns":\[[-+e0-9.,]*\]/"turns":[X]/g'
try "$WEFT" bench "$GOLDEN/vit" -p 3
try "$WEFT" bench "$GOLDEN/bert" -p 0
try "$WEFT" bench "$GOLDEN/bert" -p 30
try "$WEFT" bench "$GOLDEN/bart" -p 41
