# Files and directories that are not models: the error says what they are, what was expected and what to do, in every
# command that opens a model before it looks for a tokenizer.
u64() { printf "\\$(printf %03o "$1")\\0\\0\\0\\0\\0\\0\\0"; }
text() { u64 ${#1} && printf %s "$1"; }

printf 'version https://git-lfs.github.com/spec/v1\noid sha256:%064d\nsize 4661211328\n' 0 >pointer.gguf
printf 'version https://git-lfs.github.com/spec/v1\noid sha256:%064d\nsize 12000000\n' 0 >small-pointer
printf '\n<!DOCTYPE html>\n<html class=""><head><title>Sign in</title>\n' >page.gguf
printf 'Entry not found' >not-found.gguf
printf 'Once\033[31m upon\n' >story.txt
printf 'PK\003\004\024\000\000\010\010\000\000\000\000\000\000\000\000\000archive/data.pkl' >pytorch_model.bin
printf 'PK\003\004\024\000\000\000\010\000xxxxxxxxxxxxxxxxxmodel.gguf' >model.zip
printf '\200\002}q\000X\004\000\000\000' >old.pt
printf '\037\213\010\010\000\000' >model.gguf.gz
printf '\010\007\022\007pytorch\032' >graph.gguf
printf 'tjgg\003\000\000\000' >ggml-model-q4_0.bin
printf '\001\002\003\004\005' >unknown.gguf
: >empty.gguf
head -c 5000 "$GOLDEN/llama-gqa/model.safetensors" >lonely.safetensors
"$WEFT" convert "$GOLDEN/llama-gqa" whole.gguf >/dev/null
head -c 9000 whole.gguf >cut.gguf
{ printf 'GGUF\003\000\000\000' && u64 0 && u64 2
  text general.architecture && printf '\010\000\000\000' && text llama
  text tokenizer.ggml.tokens && printf '\011\000\000\000\010\000\000\000' && u64 2 && text a && text b; } >vocabulary.gguf
"$WEFT" convert "$GOLDEN/llama-gqa" parts.gguf --max-shard-size 45000 >/dev/null

cp "$GOLDEN/llama-gqa/config.json" config.json
mkdir none documents ggufs cached entry adapter weights pickle graph shards broken page lfs tokenizer-lfs config-page cut
: >documents/notes.txt
for part in 1 2 3; do : >ggufs/model-q4-0000$part-of-00003.gguf; done
: >ggufs/b.gguf
: >ggufs/a.gguf
: >ggufs/c.gguf
mkdir entry/blobs entry/snapshots entry/refs
: >adapter/adapter_config.json
: >adapter/adapter_model.safetensors
: >weights/model.safetensors
for name in cached pickle graph shards broken page lfs tokenizer-lfs cut; do cp config.json $name/; done
: >pickle/pytorch_model.bin
: >graph/model.onnx
: >shards/model-00001-of-00002.safetensors
: >shards/model-00002-of-00002.safetensors
ln -s ../../blobs/0123 broken/model.safetensors
cp page.gguf page/model.safetensors
cp pointer.gguf lfs/model.safetensors
cp "$GOLDEN/llama-gqa/model.safetensors" tokenizer-lfs/
cp small-pointer tokenizer-lfs/tokenizer.json
cp page.gguf config-page/config.json
cp lonely.safetensors cut/model.safetensors

for path in pointer.gguf small-pointer page.gguf not-found.gguf story.txt pytorch_model.bin model.zip old.pt \
    model.gguf.gz graph.gguf ggml-model-q4_0.bin unknown.gguf empty.gguf lonely.safetensors config.json cut.gguf vocabulary.gguf \
    parts-00002-of-00003.gguf none documents ggufs entry adapter weights cached pickle graph shards broken page lfs \
    config-page cut; do
    try "$WEFT" inspect $path
    cp stderr said
    for command in "run -p Once" "run --ids 1" "embed - -f story.txt" "trace -p Once" "eval -f story.txt" "translate -p Once" \
        "bench"; do
        set -- $command
        name=$1
        shift
        [ $name != embed ] || shift
        "$WEFT" $name $path "$@" >/dev/null 2>stderr && echo "weft $name $path: no error"
        cmp -s said stderr || { echo "weft $name $path $*"; cat stderr; }
    done
done
try "$WEFT" run tokenizer-lfs -p Once
try "$WEFT" tokenize pointer.gguf Once
try "$WEFT" tokenize page.gguf Once
