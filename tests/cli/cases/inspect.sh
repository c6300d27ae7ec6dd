# The size of a step is the business of ops, the speed that of the machine: left out.
inspect() { "$WEFT" inspect "$@" | sed 's/^memory        [0-9.]* [KM]iB/memory        M/; s/activations [0-9.]* [KM]iB/activations S/'; }
try inspect "$GOLDEN/llama-gqa"
try inspect "$GOLDEN/gpt2" --tensors --no-speed
try inspect "$GOLDEN/gpt2" --metadata --no-speed
try inspect "$GOLDEN/llama-gqa" -c 64 -b 8 --kv-type bf16 -t 1
"$WEFT" inspect "$GOLDEN/llama-gqa" --ram-max 300K 2>&1 | sed -n 's/: needs.*//; /speed/p'
try inspect "$GOLDEN/llama-gqa" --threads -1
