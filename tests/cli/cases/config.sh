# Settings: the command line, then variables, then the file, its sections first.
show() { sed "s|$PWD|HERE|g"; }
mkdir -p home/.config/weft xdg/weft
cat >home/.config/weft/config <<'END'
# for every command
threads = 2
ctx-size=64

[run]
predict = 3
[inspect]
  ctx-size = 32
END
HOME=$PWD/home
"$WEFT" config | show
"$WEFT" config inspect | show
WEFT_CTX_SIZE=16 "$WEFT" config inspect | show | grep ctx-size
WEFT_PREDICT=2 "$WEFT" config --json | show
try "$WEFT" run "$GOLDEN/llama-gqa" --ids 1
WEFT_PREDICT=2 "$WEFT" run "$GOLDEN/llama-gqa" --ids 1 2>/dev/null
WEFT_PREDICT=2 "$WEFT" run "$GOLDEN/llama-gqa" --ids 1 -n 1 2>/dev/null
"$WEFT" inspect "$GOLDEN/llama-gqa" --no-speed | sed -n 's|^memory.*\(KV cache of [0-9]* tokens\).*|\1|p'
WEFT_CTX_SIZE=16 "$WEFT" inspect "$GOLDEN/llama-gqa" --no-speed | sed -n 's|^memory.*\(KV cache of [0-9]* tokens\).*|\1|p'
"$WEFT" inspect "$GOLDEN/llama-gqa" --no-speed -c 8 | sed -n 's|^memory.*\(KV cache of [0-9]* tokens\).*|\1|p'

# Another place, none, and what is wrong in it.
echo 'predict = 1' >xdg/weft/config
XDG_CONFIG_HOME=xdg "$WEFT" run "$GOLDEN/llama-gqa" --ids 1 2>/dev/null
WEFT_CONFIG= "$WEFT" config
try env WEFT_CONFIG=missing "$WEFT" config
try env WEFT_CONFIG=home "$WEFT" config
wrong()
{
    printf "$1\n" >wrong
    try env WEFT_CONFIG=wrong "$WEFT" run "$GOLDEN/llama-gqa" --ids 1
}
wrong 'threads = 1\nthread = 2'
wrong 'gronk = 2'
wrong 'prompt = hello'
wrong '\n[rnu]'
wrong '[run'
wrong 'threads'
wrong 'threads = many'
wrong '[inspect]\ntemp = 1'
wrong '[run]\nkv-type = f8'
wrong 'a\0b'
try env WEFT_CONFIG=/dev/null "$WEFT" run "$GOLDEN/llama-gqa" --ids 1 -n 1
try "$WEFT" config rnu
try "$WEFT" help config

# Threads as other programs take them, and options of others.
OMP_NUM_THREADS=1 "$WEFT" run "$GOLDEN/llama-gqa" --ids 1 -n 1 2>/dev/null
try "$WEFT" run "$GOLDEN/llama-gqa" --ids 1 -n 1 -ngl 99
try "$WEFT" run "$GOLDEN/llama-gqa" --ids 1 -ctk f16
try "$WEFT" run "$GOLDEN/llama-gqa" --ids 1 --n-predict 4

# A model that is set is not in the way of one that is named.
WEFT_MODEL=missing "$WEFT" run "$GOLDEN/llama-gqa" --ids 1 -n 1 2>/dev/null
try env WEFT_MODEL=missing "$WEFT" tokenize "$GOLDEN/train-tokenizer/missing" hello
try env WEFT_MODEL=./missing "$WEFT" tokenize hello

# A variable that is nearly one.
try env WEFT_THREAD=1 WEFT_ISA=scalar WEFT_FROBNICATE=1 "$WEFT" run "$GOLDEN/llama-gqa" --ids 1 -n 1

# Cut off anywhere, a file is read or refused; and there may be too many lines.
file=home/.config/weft/config
codes=
for i in $(seq 0 "$(wc -c <$file)"); do
    head -c "$i" $file >cut
    WEFT_CONFIG=cut "$WEFT" config >/dev/null 2>&1
    codes="$codes $?"
done
echo $codes | tr ' ' '\n' | sort | uniq -c | awk '{ print $1 " files end with " $2 }'
for i in $(seq 1 257); do echo "threads = $i"; done >many
try env WEFT_CONFIG=many "$WEFT" config
sed -i 1d many
WEFT_CONFIG=many "$WEFT" config
