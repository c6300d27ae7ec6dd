#!/bin/sh
# docs.sh DOCS WEFT BUILD [PAGE...] - runs the commands of the pages in docs/ and docs/learn/: every line of their sh and console blocks, in
# a directory where small models and texts have the names that the pages use. Each command must succeed. To finish in minutes,
# `weft train` stops after two steps and models are cut (`cut` below). A command that needs a peer of weft (PyTorch, llama.cpp)
# is not run; but the script that it calls must exist and know its options.
set -u
absolute() { case $1 in /*) echo "$1" ;; *) echo "$(pwd)/$1" ;; esac; }
docs=$(absolute "$1")
weft=$(absolute "$2")
build=$(absolute "$3")
shift 3
root=$(dirname "$docs")
golden=$root/tests/golden
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
unset $(env | sed -n "s/^\(WEFT_[A-Z_]*\)=.*/\1/p") XDG_CONFIG_HOME XDG_CACHE_HOME HF_HUB_CACHE HF_HOME LLAMA_CACHE OLLAMA_MODELS
HOME=$work/home
LC_ALL=C
PATH=$work/bin:$PATH
export HOME LC_ALL PATH
[ $# -gt 0 ] || set -- $(cd "$docs" && ls ./*.md learn/*.md | sed 's|^\./||; s|\.md$||')

# The program, with the steps of a training run cut to two: an option that is repeated has its last value.
mkdir -p "$work/bin" "$work/kit" "$HOME"
cat >"$work/bin/weft" <<END
#!/bin/sh
case "\$1" in
train) exec "$weft" "\$@" -n 2 --warmup 0 ;;
*) exec "$weft" "\$@" ;;
esac
END
chmod +x "$work/bin/weft"
cut='s/--shape 1b/--shape 135m --layers 2/; s/--shape 30b-a3b --layers 24/--shape 30b-a3b --layers 1 --vocab 512/; s|build/bench/heads|& --layers 1 --longest 256|; s|build/bench/context .*|& --smoke --longest 512 --r2 0|;
    s/--cache on,off .*/& --turns 1/; s/--arch bahdanau/& --width 16/; s/reversal.sh 30000/reversal.sh 300/; s/reversal.sh 1000/reversal.sh 40/'

# What the pages' names stand for. A new model is one that was trained for two steps.
cd "$work/kit" || exit 2
cat "$root/README.md" "$docs/TEXT.md" >input.txt
head -c 4000 input.txt >text.txt
printf 'good\tA fine film.\nbad\tA dull film.\n%.0s' 1 2 3 4 5 6 7 8 >reviews.tsv
printf 'Good morning.\tGuten Morgen.\nGood night.\tGute Nacht.\n%.0s' 1 2 3 4 5 6 7 8 9 >pairs.tsv
for i in cat dog; do
    mkdir -p "pictures/$i"
    for j in 1 2 3 4; do cp "$golden"/images/photo.png "pictures/$i/$j.png"; done
done
new() { weft train -c 64 -b 2 "$@" >../log 2>&1 || { echo "docs: weft train $*"; cat ../log; exit 1; }; }
new --data input.txt --characters --arch deepseek_v3 --out deepseek
new --data pairs.tsv --characters --arch transformer --out translator
new --data input.txt -v 400 --arch bert --out bert
new bert --data reviews.tsv --out reviewer
new --data pictures --image-size 16 --out vit
new --data input.txt --characters -c 512 --out llama
weft convert llama model.gguf >../log 2>&1 || exit 1
for type in f32 q4_0 q8_0; do weft quantize llama model-$type.gguf $type >../log 2>&1 || exit 1; done
rm -rf run

# prepare PAGE: the files of a page, in the directory where its commands run.
prepare()
{
    rm -rf "$work/here"
    mkdir "$work/here" && cd "$work/here" || exit 2
    ln -s "$build" build
    ln -s "$root/tools" "$root/bench" "$root/models" .
    cp ../kit/*.txt ../kit/*.tsv ../kit/*.gguf .
    case $1 in
    CLI)
        cp "$golden/chat/chat.gguf" "$golden/chat/template.jinja" .
        digest=$(sha256sum model.gguf | cut -d' ' -f1)
        store=$HOME/.ollama/models
        mkdir -p "$store/blobs" "$store/manifests/registry.ollama.ai/library/llama3.2"
        cp model.gguf "$store/blobs/sha256-$digest"
        printf '{"schemaVersion":2,"layers":[{"mediaType":"application/vnd.ollama.image.model","digest":"sha256:%s","size":%s}]}' \
            "$digest" "$(wc -c <model.gguf)" >"$store/manifests/registry.ollama.ai/library/llama3.2/1b"
        snapshot=$HOME/.cache/huggingface/hub/models--bartowski--SmolLM2-135M-Instruct-GGUF/snapshots/1
        mkdir -p "$snapshot"
        cp model.gguf "$snapshot/SmolLM2-135M-Instruct-Q8_0.gguf"
        ;;
    CONSTRAIN)
        cp -r ../kit/llama MODEL && cp "$golden/chat/template.jinja" MODEL/chat_template.jinja
        echo 'hi' >prompt.txt
        echo '{"type": "object", "properties": {"name": {"type": "string"}}}' >person.json
        echo 'root ::= [a-z]+' >answer.gbnf
        ;;
    DEEPSEEK) cp -r ../kit/deepseek deepseek-directory && rm model.gguf ;;
    ENCDEC)
        cp -r ../kit/translator model-directory
        cut -f1 pairs.tsv | tee train.en >test_2016_flickr.en
        cut -f2 pairs.tsv | tee train.de >test_2016_flickr.de
        ;;
    ENCODERS)
        cp -r ../kit/bert all-MiniLM-L6-v2
        cp -r ../kit/bert bert-base-uncased
        weft convert bert-base-uncased model.gguf --force >../log 2>&1
        cp -r ../kit/reviewer model
        cp -r ../kit/bert masks-run
        cp reviews.tsv train.tsv && cp reviews.tsv dev.tsv && cp reviews.tsv test.tsv
        sed 's/\t/,"Title","/; s/$/"/' reviews.tsv >news.csv
        printf 'One line.\nAnother.\n' | tee lines.txt >reviews.txt
        ;;
    EVAL)
        cp text.txt stories.txt
        cp -r ../kit/llama model-directory
        gzip -k text.txt && cp text.txt.gz part-1.txt.gz && mv text.txt.gz part-2.txt.gz
        printf '1,2,3,4,5\n6,7,8\n' >ids.txt
        ;;
    FILES) cp -r ../kit/llama Llama-3.2-1B && rm model.gguf ;;
    IMAGES)
        cp -r ../kit/vit MODEL
        cp -r ../kit/pictures .
        cp pictures/cat/1.png photo.png
        cp "$golden/images/photo.jpg" photo.jpg
        ls pictures/*/*.png >list.txt
        # MNIST's format: 40 images of 28 x 28, and their labels.
        for i in train t10k; do
            { printf '\0\0\10\3\0\0\0\50\0\0\0\34\0\0\0\34' && head -c 31360 "$weft"; } >$i-images-idx3-ubyte
            { printf '\0\0\10\1\0\0\0\50' && printf '\0\1\2\3%.0s' 1 2 3 4 5 6 7 8 9 10; } >$i-labels-idx1-ubyte
            gzip -k $i-*-ubyte
        done
        ;;
    learn/*) # a checkout: commands are build/weft
        rm build && mkdir build
        ln -s "$work/bin/weft" build/weft
        ln -s "$root/tests" "$docs" .
        ;;
    EXPLAIN | TRACE)
        [ "$1" = TRACE ] || cp -r ../kit/bert bert
        cp "$golden/points.csv" .
        cp -r ../kit/translator marian
        cp -r ../kit/vit vit
        cp ../kit/pictures/cat/1.png picture.png
        ;;
    TRAINING)
        cp "$golden/chat/chat.gguf" "$golden/chat/template.jinja" .
        ln -s "$root/tests" .
        printf '%s\n' '{"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Ho"}]}' >chat.jsonl
        mkdir chats && cp chat.jsonl chats/train.jsonl && cp chat.jsonl chats/validation.jsonl
        cp -r ../kit/llama model-directory
        cp text.txt notes.txt
        ;;
    esac
}

# known COMMAND: a command with a peer. Its script exists, and its help has every option that the command gives.
known()
{
    script=${1%% *}
    [ -f "$script" ] || { echo "$script: no such script"; return 1; }
    for option in $(printf '%s\n' "$1" | grep -o -e ' --[a-z][a-z-]*'); do
        grep -q -e "[\"' ]$option[\"', ]" "$script" || { echo "$script does not know $option"; return 1; }
    done
}

n=0
failed=0
for page in "$@"; do
    # One command a line: continued lines are joined, prompts and comments cut; a for loop is one command.
    awk '/^```(sh|console)$/ { inside = 1; next } /^```/ { inside = 0 } !inside { next }
        { sub(/^\$ /, ""); sub(/  +#.*/, ""); sub(/^ +/, "") }
        /\\$/ { sub(/\\$/, ""); line = line $0; next }
        /^for /, /^done/ { line = line $0 (/do$/ ? " " : "; "); if (!/^done/) next; sub(/; $/, "", line); print line; line = ""; next }
        { print line $0; line = "" }' "$docs/$page.md" >"$work/commands"
    [ -s "$work/commands" ] || continue
    prepare "$page"
    while IFS= read -r command; do
        n=$((n + 1))
        case $command in # a block shows several ways to make one run
        *--resume*) ;;
        *weft\ train*out\ run | *weft\ train*-o\ run*) rm -rf run ;;
        esac
        case $command in
        *--peer* | *.py\ *) known "$command" >../log 2>&1 ;;
        sacrebleu*) : ;; # a peer that is not ours
        *) bash -e -c "$(printf '%s\n' "$command" | sed "$cut")" >../log 2>&1 </dev/null ;;
        esac
        code=$?
        if [ $code -eq 0 ]; then
            echo "[       OK ] docs: $page: $command"
        else
            echo "[  FAILED  ] docs: $page: $command -> $code"
            tail -n 5 ../log
            failed=$((failed + 1))
        fi
    done <"$work/commands"
done
[ $n -gt 0 ] || echo "[  FAILED  ] docs: no commands found"
[ $n -gt 0 ] && [ $failed -eq 0 ]
