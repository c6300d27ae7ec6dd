# The error for a directory without a tokenizer says what is missing.
mkdir model
cp "$GOLDEN"/gpt2/config.json "$GOLDEN"/gpt2/model.safetensors model
try "$WEFT" run model -p "Once upon a time"
try "$WEFT" run model --ids 1,2,3 -n 2 --json
try "$WEFT" tokenize model "Once upon a time"
try "$WEFT" tokenize . "Once upon a time"
