#!/bin/sh
# examples.sh SOURCE EXAMPLES - the examples run, and simple.c equals the program in weft.h.
set -u
source=$1 examples=$2
. "$source/tests/host/say.sh"
model=$work/model
speaking_model "$source/tests/golden" "$model"

header_program "$source/include/weft.h" >"$work/header.c"
sed -n '/^#include/,$p' "$source/examples/simple.c" >"$work/example.c"
check "examples: weft.h's first comment holds a program" grep -q weft_session_eval "$work/header.c"
check "examples: simple.c is that program" diff "$work/header.c" "$work/example.c"

check "examples: simple prints a hundred tokens" prints_text "$examples/simple" "$model" "abc"
first_line=$(cut -c 1-40 "$work/text")

no_file() { ! "$examples/simple" "$work/none.gguf" 2>"$work/err" && grep -q 'none.gguf: cannot open' "$work/err"; }
check "examples: a missing file is a message and exit 1" no_file

in_batch() { "$examples/batch" "$model" "abc" "Hello, you" "a" >"$work/batch" && [ "$(grep -c . "$work/batch")" = 3 ]; }
check "examples: batch continues three prompts" in_batch
same_text() { [ "$(head -n 1 "$work/batch")" = "abc$first_line" ]; }
check "examples: a prompt is continued in a batch as it is alone" same_text

streams() { timeout 60 "$examples/stream" "$model" "abc" "$1" >"$work/stream" 2>"$work/err"; }
stops() { streams "cccc" && ! grep -q c "$work/stream"; } # as that model goes on for ever
check "examples: stream ends at its stop string, which is not shown" stops
runs_full() { streams "no such text" && grep -q 'the context is full' "$work/err"; }
check "examples: stream says that the context is full" runs_full

beams() { "$examples/beam" "$model" "abc" | awk 'NR > 1 && $1 > last { bad = 1 } { last = $1 } END { exit bad || NR != 3 }'; }
check "examples: beam prints three texts, the best first" beams

traces() { "$examples/trace" "$model" "abc" >"$work/trace" && grep -q -E '^blk\.1\.[a-z_.]+ +3 x [0-9]+ ' "$work/trace"; }
check "examples: trace shows what flows through every block" traces

reader=$work/reader
cp -r "$source/tests/golden/bert" "$reader" && cp "$model/tokenizer.json" "$reader"
alike() { "$examples/embed" "$reader" "abc" "abc" "Hello, you" >"$work/alike" && grep -q '^1.0000  abc$' "$work/alike" &&
    [ "$(wc -l <"$work/alike")" = 2 ] && ! grep -q '^1.0000  H' "$work/alike"; }
check "examples: embed finds a sentence like itself, and unlike another" alike
unlike() { "$examples/embed" "$model" "abc" "abc" "b" >"$work/alike" && grep -q '^1.0000  abc$' "$work/alike"; }
check "examples: embed takes a generative model" unlike

# The estimate stays within 0.7 of the curve, whose noise is about 0.5.
near() { "$examples/kernel" "$1" >"$work/kernel" && grep -q "^$1 kernel of width [0-9.]*, error" "$work/kernel" &&
    awk '/curve/ { n++; d = $2 - $4; bad += d > 0.7 || d < -0.7 } END { exit n != 11 || bad }' "$work/kernel"; }
for kernel in gaussian boxcar epanechnikov; do
    check "examples: kernel finds a curve with a $kernel" near $kernel
done
exit $n_failed
