#!/bin/sh
# beam.sh SOURCE PROGRAM - examples/beam.c runs: three texts, the best first.
set -u
source=$1 program=$2
. "$source/tests/host/say.sh"

three_texts()
{
    "$program" "$source/tests/golden/llama-gqa" 1 2 3 >"$work/texts" || return 1
    cat "$work/texts"
    awk 'NF < 2 || (NR > 1 && $1 > last) { bad = 1 } { last = $1 } END { exit bad || NR != 3 }' "$work/texts"
}
check "beam: prints three texts, the best first" three_texts

no_token() { ! "$program" "$source/tests/golden/llama-gqa" 99999 2>"$work/err" && grep -q 'is 99999' "$work/err"; }
check "beam: a token that does not exist is a message and exit 1" no_token
exit $n_failed
