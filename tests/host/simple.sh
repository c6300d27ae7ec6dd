#!/bin/sh
# simple.sh SOURCE PROGRAM - examples/simple.c is the program of weft.h, and it runs.
set -u
source=$1 program=$2
. "$source/tests/host/say.sh"

header_program "$source/include/weft.h" | sed -n '/^int main/,$p' >"$work/header.c"
sed -n '/^int main/,$p' "$source/examples/simple.c" >"$work/example.c"
check "simple: weft.h's first comment holds a program" grep -q weft_session_greedy "$work/header.c"
check "simple: examples/simple.c is that program" diff "$work/header.c" "$work/example.c"

check "simple: prints twenty ids" prints_ids "$program" "$source/tests/golden/llama-gqa"

no_file() { ! "$program" "$work/none.gguf" 2>"$work/err" && grep -q 'none.gguf: cannot open' "$work/err"; }
check "simple: a missing file is a message and exit 1" no_file
exit $n_failed
