# say.sh - sourced by the scripts of this directory: one line for each sentence, in cmocka's form, which CI counts.
# A script ends with `exit $n_failed`.
n_failed=0
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT

skip() { echo "[  SKIPPED ] host: $1: $2"; }

# check SENTENCE COMMAND...: holds if the command succeeds. What it printed is shown if not.
check()
{
    sentence=$1
    shift
    if "$@" >"$work/said" 2>&1; then
        echo "[       OK ] host: $sentence"
    else
        echo "[  FAILED  ] host: $sentence: $(tail -n 20 "$work/said")"
        n_failed=1
    fi
}

# The complete program in the first comment of weft.h: from its first include to the brace that ends main.
header_program()
{
    awk '/^ \*     #include <weft.h>/ { inside = 1 }
         inside { sub(/^ \*(     )?/, ""); print }
         inside && /^}/ { exit }' "$1"
}

# prints_ids COMMAND...: what it prints is twenty ids.
prints_ids()
{
    "$@" >"$work/ids" || return 1
    awk '{ for (i = 1; i <= NF; i++) if ($i !~ /^[0-9]+$/) bad = 1; n += NF }
         END { if (bad || n != 20) { print "expected 20 ids"; exit 1 } }' "$work/ids"
}
