# Sampling options: checks that each reaches the sampler; other tests check their effects.
if [ -z "${WEFT_ASSETS:-}" ]; then
    echo "SKIP WEFT_ASSETS is not set"
    exit
fi
cp "$WEFT_ASSETS/llama-stories260K/stories260K-f32.gguf" stories.gguf
run() { try "$WEFT" run stories.gguf -p "Once upon a time" -n 12 --seed 0 "$@"; }
run --temp 0.8
run --temp 0.8 --seed 1
run --temp 0.8 -s 1 --top-k 1
run --temp 0.8 --top-k 40 --top-p 0.95 --min-p 0.05 --typical 0.9
run --repeat-penalty 1.3 --repeat-last-n 64 --presence-penalty 0.5 --frequency-penalty 0.25
run --temp 1 --dry-multiplier 0.8 --dry-base 2 --dry-allowed-length 3 --dry-penalty-last-n 100
run --temp 1 --xtc-probability 0.5 --xtc-threshold 0.2
run --temp 1 --mirostat-ent 3 --mirostat-lr 0.2
run --logit-bias 432-inf --logit-bias 383+2
run --temp 1 --top-k 5 --samplers "top_k;temperature"
run --temp 0

# Stop strings end a text before them, across tokens too; logprobs are for programs.
run --stop "was a"
run --stop "re w" --stop "never" --json
run --stop "zebra" --json
run -n 2 --json --logprobs 2 | sed 's/\(\.[0-9][0-9][0-9]\)[0-9]*/\1/g'
WEFT_TEMP=0.8 run --seed 1
"$WEFT" run "$GOLDEN/llama-gqa" --ids 1 -n 1 --json --logprobs 100 2>/dev/null | tr '{' '\n' | grep -c logprob\":

# Text from a file and through a pipe is the same text.
echo "Once upon a time" >prompt.txt
try "$WEFT" run stories.gguf -f prompt.txt -n 5
"$WEFT" run stories.gguf -n 5 <prompt.txt 2>/dev/null
cat prompt.txt | "$WEFT" run stories.gguf -n 5 2>/dev/null
try "$WEFT" run stories.gguf -f missing.txt
try "$WEFT" run stories.gguf -f prompt.txt -p hello

# Errors name the wrong option.
run --top-p 0.9
run --temp -1
run --temp 1 --top-p 2
run --temp 1 --top-k -3
run --logit-bias 432
run --logit-bias 99999+1
run --temp 1 --samplers "top_q"
run --temp 1 --top-k 5 --samplers "temperature"
run --mirostat 2
run --logprobs 3
run --logprobs 1000 --json
run --stop ""
try "$WEFT" run "$GOLDEN/llama-gqa" --ids 1 --stop x
