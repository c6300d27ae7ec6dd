# Texts come as an argument, from a file or through a pipe, in every command alike; -p and a pipe are joined.
if [ -z "${WEFT_ASSETS:-}" ]; then
    echo "SKIP WEFT_ASSETS is not set"
    exit
fi
cp "$WEFT_ASSETS/llama-stories260K/stories260K-f32.gguf" stories.gguf
run() { "$WEFT" run -q stories.gguf -n 6 "$@" 2>&1 || echo "-> $?"; }
run "Once upon a time"
run -p "Once upon a time"
"$WEFT" run -q -m stories.gguf "Once upon a time" -n 6
echo "Once upon a time" | run
echo "Once upon a time" | run -
printf 'Once upon a time\nthere was' | run
echo "there was" | run -p "Once upon a time"
echo "there was" >tail.txt
run -p "Once upon a time" -f tail.txt
run </dev/null
: | run
: | run -p "Once upon a time"
: >empty
run -f empty
run one two
run "Once" -p "upon"
run "Once" --ids 1
echo "Once upon" | "$WEFT" tokenize stories.gguf
echo "Once upon" | "$WEFT" tokenize stories.gguf -
"$WEFT" tokenize -m stories.gguf "Once upon"
: | "$WEFT" tokenize stories.gguf --count
echo "Once upon" | "$WEFT" trace stories.gguf --only 'tok*' | head -2
"$WEFT" trace stories.gguf "Once upon" --only 'tok*' | head -2

# A saved session resumes: the text of -p follows its contents.
run -p "Once upon a time" --session kept
run -p "The dog" --session kept
run --session kept

# Special tokens spelled in a text are letters, unless they are meant.
"$WEFT" run stories.gguf "<s>" -n 1 2>&1 | grep -o 'prompt [0-9]* token'
"$WEFT" run stories.gguf "<s>" -n 1 --parse-special 2>&1 | grep -o 'prompt [0-9]* token'
