# Models by name, in stores as Hugging Face, llama.cpp and Ollama lay them out; whole, broken and hostile ones.
W=$(pwd)
home() { sed "s|$W|W|g"; }
say() { try "$@" | home; }
HOME=$W/home
export HOME
"$WEFT" convert "$GOLDEN/llama-gqa" tiny.gguf 2>/dev/null >/dev/null
"$WEFT" quantize "$GOLDEN/llama-gqa" tiny-q8.gguf q8_0 --quiet 2>/dev/null >/dev/null
"$WEFT" convert "$GOLDEN/qwen2" qwen.gguf 2>/dev/null >/dev/null

echo "# nothing anywhere"
say "$WEFT" models
say "$WEFT" run smollm2 --ids 1
say "$WEFT" run -hf org/name --ids 1
say "$WEFT" run missing.gguf --ids 1
say "$WEFT" run ./missing --ids 1

# Hugging Face: entry NAME REV, then files of its snapshot as links into blobs.
hub=$HOME/.cache/huggingface/hub
entry()
{
    e=$hub/models--$1
    mkdir -p "$e/refs" "$e/blobs" "$e/snapshots/$2"
    printf %s "$2" >"$e/refs/main"
}
add() # FILE NAME: of the last entry
{
    blob=$(cksum <"$1" | tr -d ' ')
    cp "$1" "$e/blobs/$blob"
    ln -s "../../blobs/$blob" "$e/snapshots/$(cat "$e/refs/main")/$2"
}
entry org--directory 0123abcd
add "$GOLDEN/llama-gqa/config.json" config.json
add "$GOLDEN/llama-gqa/model.safetensors" model.safetensors
entry org--Name-GGUF 4567
add tiny.gguf name.F16.gguf
add tiny-q8.gguf name.Q8_0.gguf
add tiny.gguf mmproj-name-f16.gguf
entry other--only-GGUF 89ab
add tiny.gguf only-f32.gguf
entry a--twin 1
add tiny.gguf twin.gguf
entry b--twin 1
add qwen.gguf twin.gguf
entry org--parts 1
mkdir "$e/snapshots/1/F32"
"$WEFT" convert "$GOLDEN/llama-gqa" "$e/snapshots/1/F32/parts-f32.gguf" --max-shard-size 45000 2>/dev/null >/dev/null
entry lonely 1
add tiny.gguf lonely.gguf
rm "$e/refs/main"
mkdir -p "$hub/datasets--org--texts" "$hub/.locks"
echo "# the cache of Hugging Face"
say "$WEFT" models
say "$WEFT" run -hf org/directory --ids 1,2 -n 4
say "$WEFT" run -hf org/name-gguf:q8_0 --ids 1,2 -n 4
say "$WEFT" run hf.co/org/Name-GGUF:name.Q8_0.gguf --ids 1,2 -n 4
say "$WEFT" run only-gguf --ids 1,2 -n 4
say "$WEFT" run org/parts --ids 1,2 -n 4
say "$WEFT" run lonely --ids 1,2 -n 4
say "$WEFT" run -hf org/Name-GGUF --ids 1
say "$WEFT" run -hf org/Name-GGUF:Q4_K_M --ids 1
say "$WEFT" run twin --ids 1
say "$WEFT" run b/twin --ids 1,2 -n 4
say "$WEFT" run -hf twin --ids 1
say "$WEFT" run -hf org/directory more and more
say "$WEFT" run -hf ../../etc/passwd --ids 1
say "$WEFT" run -hf 'org/na me' --ids 1
echo "# its variables"
say env HOME=/nonexistent HF_HUB_CACHE="$hub" "$WEFT" models --json
env HOME=/nonexistent HF_HOME="$HOME/.cache/huggingface" "$WEFT" models | cut -c1-30 | head -n 2
env HOME=/nonexistent XDG_CACHE_HOME="$HOME/.cache" "$WEFT" models | cut -c1-30 | head -n 2
mv "$hub" hub

echo "# a hostile one"
entry bad--newline 1
printf 'x\ny' >"$e/refs/main"
entry bad--path 1
printf '../../../../tiny.gguf' >"$e/refs/main"
entry bad--slash 1
printf '/etc' >"$e/refs/main"
entry bad--empty 1
: >"$e/refs/main"
entry bad--long 1
head -c 4000 /dev/zero | tr '\0' a >"$e/refs/main"
entry bad--gone 1
rmdir "$e/snapshots/1"
entry bad--file 1
rmdir "$e/snapshots/1"
: >"$e/snapshots/1"
entry bad--reference 1
rm "$e/refs/main"
mkdir "$e/refs/main" "$e/snapshots/2"
entry bad--incomplete 1
ln -s ../../blobs/gone "$e/snapshots/1/model-q4_0.gguf"
entry bad--nothing 1
add "$GOLDEN/llama-gqa/config.json" config.json
entry bad--pointer 1
printf 'version https://git-lfs.github.com/spec/v1\nsize 5\n' >pointer
add pointer pointer.gguf
entry good--one 1
add tiny.gguf one.gguf
: >"$hub/models--file"
: >"$hub/models--"
mkdir "$hub/models--..--.."
say "$WEFT" models
for name in bad/newline bad/path bad/long bad/reference bad/incomplete bad/nothing; do say "$WEFT" inspect $name; done
mkdir -p none/above/here
cd none/above/here
say "$WEFT" inspect ../..
cd ../../..
rm -r "$hub"

echo "# llama.cpp"
cache=$HOME/.cache/llama.cpp
mkdir -p "$cache"
cp tiny.gguf "$cache/org_some-GGUF_some-F16.gguf"
cp tiny-q8.gguf "$cache/org_some-GGUF_some-Q8_0.gguf"
cp qwen.gguf "$cache/qwen.gguf"
: >"$cache/org_some-GGUF_mmproj-some.gguf"
: >"$cache/manifest=org=some-GGUF=latest.json"
say "$WEFT" models
say "$WEFT" run -hf org/some-gguf:f16 --ids 1,2 -n 4
say "$WEFT" run some-GGUF:Q8_0 --ids 1,2 -n 4
say "$WEFT" run org_some-GGUF_some-Q8_0 --ids 1,2 -n 4
say "$WEFT" run org/some-GGUF --ids 1
say env HOME=/nonexistent LLAMA_CACHE="$cache" "$WEFT" run qwen --ids 1,2 -n 4
rm -r "$cache"

echo "# Ollama"
store=$HOME/.ollama/models
model() # PATH DIGEST [LAYERS]
{
    mkdir -p "$store/manifests/$(dirname "$1")" "$store/blobs"
    printf '{"schemaVersion":2,"mediaType":"application/vnd.docker.distribution.manifest.v2+json","config":{"digest":"sha256:0"},
"layers":[{"mediaType":"application/vnd.ollama.image.model","digest":"%s","size":1}%s]}' "$2" "${3-}" >"$store/manifests/$1"
}
sum=0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcde
library=registry.ollama.ai/library
model $library/llama3.2/1b sha256:${sum}0 ',{"mediaType":"application/vnd.ollama.image.template","digest":"sha256:1"}'
model $library/llama3.2/latest sha256:${sum}1
model $library/smollm2/135m sha256:${sum}0
model registry.ollama.ai/someone/own/latest sha256:${sum}1
model hf.co/org/Name-GGUF/Q8_0 sha256:${sum}2
cp tiny.gguf "$store/blobs/sha256-${sum}0"
cp qwen.gguf "$store/blobs/sha256-${sum}1"
cp tiny-q8.gguf "$store/blobs/sha256-${sum}2"
say "$WEFT" models
say "$WEFT" run llama3.2:1b --ids 1,2 -n 4
say "$WEFT" run llama3.2 --ids 1,2 -n 4
say "$WEFT" run smollm2 --ids 1,2 -n 4
say "$WEFT" run someone/own --ids 1,2 -n 4
say "$WEFT" run -hf org/Name-GGUF:Q8_0 --ids 1,2 -n 4
say "$WEFT" run llama3.2:70b --ids 1
say "$WEFT" run library/llama3.2 --ids 1
say env HOME=/nonexistent OLLAMA_MODELS="$store" "$WEFT" inspect llama3.2:1b --no-speed | head -n 3
echo "# Ollama, hostile"
rm -r "$store/manifests"
model $library/escape/a 'sha256:../../../../../../etc/passwd'
model $library/escape/b "sha256-${sum}0"
model $library/escape/c "sha256:${sum}"
model $library/escape/d "sha256:${sum}00"
model $library/escape/e "sha256:${sum}G"
model $library/escape/f "sha256:${sum}\\u0000"
model $library/gone/latest sha256:${sum}9
model $library/two/latest sha256:${sum}0 ',{"mediaType":"application/vnd.ollama.image.model","digest":"sha256:1"}'
model $library/adapted/latest sha256:${sum}0 ',{"mediaType":"application/vnd.ollama.image.adapter","digest":"sha256:1"}'
model $library/twice/latest sha256:${sum}0 '],"layers":['
model $library/good/latest sha256:${sum}0
model $library/directory/latest 0
rm "$store/manifests/$library/directory/latest"
mkdir "$store/manifests/$library/directory/latest"
printf '{"layers":[]}' >"$store/manifests/$library/good/none"
printf '{"layers":7}' >"$store/manifests/$library/good/number"
printf '[]' >"$store/manifests/$library/good/list"
: >"$store/manifests/$library/good/empty"
head -c 100 "$store/manifests/$library/good/latest" >"$store/manifests/$library/good/cut"
head -c 2000000 /dev/zero | tr '\0' ' ' >"$store/manifests/$library/good/huge"
head -c 20000 /dev/zero | tr '\0' '[' >"$store/manifests/$library/good/deep"
ln -s nowhere "$store/manifests/$library/good/link"
mkfifo "$store/manifests/$library/good/pipe"
say "$WEFT" models
say "$WEFT" run escape:a --ids 1
say "$WEFT" run gone --ids 1
say "$WEFT" run good --ids 1,2 -n 4
rm -r "$HOME"

echo "# WEFT_MODELS"
mkdir -p one two/org/inner two/plain
cp tiny.gguf one/first.gguf
cp qwen.gguf two/first.gguf
cp tiny.gguf one/bare
cp -r "$GOLDEN/llama-gqa" two/directory
chmod -R u+w two
cp tiny.gguf two/org/inner/inner-Q8_0.gguf
: >two/plain/notes.txt
WEFT_MODELS=$W/one:/nonexistent::$W/two
export WEFT_MODELS
say "$WEFT" models
for name in first first.gguf bare directory org/inner inner:q8_0 plain two; do
    say "$WEFT" run $name --ids 1,2 -n 4
done
"$WEFT" verify first directory 2>/dev/null | tail -n 1
say "$WEFT" convert first out.gguf
say "$WEFT" embed first text
say "$WEFT" tokenize -hf first text
echo "# a path comes first"
cp qwen.gguf first
"$WEFT" inspect first --no-speed | head -n 1
ln -s nowhere dangling
say "$WEFT" inspect dangling
say "$WEFT" models --ram-max 1K
