# What a cache saves: FLOPs and rows are the model's, times are the machine's.
shape() # WIDTH COMMAND...: columns of times
{
    width=$1
    shift
    "$@" -t 1 | sed '/ - /!s/^\([ 0-9]\{7\}[0-9]\).\{'"$width"'\}/\1 TIMES/; s/^\(on  \|off \)[0-9].*R2 .*/\1CURVE/; s/^\(machine *\).*/\1K/'
}
try shape 33 "$WEFT" bench "$GOLDEN/llama-gqa" --cache on,off --lengths 32,64,128,256 -r 2
try shape 33 "$WEFT" bench "$GOLDEN/llama-gqa" --cache off,on --lengths 511,2,2 -r 1
try shape 12 "$WEFT" bench "$GOLDEN/gpt2" --cache on -r 1
try shape 12 "$WEFT" bench "$GOLDEN/mistral-window" --cache off -r 1

numbers()
{
    "$@" --json -t 1 | sed 's/\("kernels":\)"[^"]*"/\1"K"/; s/\("turns":\|"ms":\)\[[-+e0-9.,]*\]/\1[X]/g; s/\("ms":\|"text_ms":\|"ms_r2":\)[-+e0-9.][-+e0-9.]*/\1X/g'
}
try numbers "$WEFT" bench "$GOLDEN/deepseek-v2" --cache on,off --lengths 8,16,32,64 -r 2
try numbers "$WEFT" bench "$GOLDEN/deepseek-v2" --cache on --lengths 8 -r 1

try "$WEFT" bench "$GOLDEN/llama-gqa" --cache maybe
try "$WEFT" bench "$GOLDEN/llama-gqa" --cache on,
try "$WEFT" bench "$GOLDEN/llama-gqa" --cache onoff
try "$WEFT" bench "$GOLDEN/llama-gqa" --cache ""
try "$WEFT" bench "$GOLDEN/llama-gqa" --cache on --lengths 0
try "$WEFT" bench "$GOLDEN/llama-gqa" --cache on --lengths 511,512
try "$WEFT" bench "$GOLDEN/llama-gqa" --cache on --lengths 1,x
try "$WEFT" bench "$GOLDEN/llama-gqa" --cache on --lengths ""
try "$WEFT" bench "$GOLDEN/llama-gqa" --cache on --lengths 1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31,32,33
try "$WEFT" bench "$GOLDEN/llama-gqa" --lengths 8
try "$WEFT" bench "$GOLDEN/llama-gqa" --cache on --depth 8
try "$WEFT" bench "$GOLDEN/llama-gqa" --cache on --turns 101
try "$WEFT" bench "$GOLDEN/bert" --cache on
try "$WEFT" bench "$GOLDEN/vit" --cache on
try "$WEFT" bench "$GOLDEN/bart" --cache on,off
try "$WEFT" bench "$GOLDEN/llama-gqa" --cache off --lengths 511 --ram-max 1M -t 1 | sed "s/[0-9]\{5,\}/N/g"
