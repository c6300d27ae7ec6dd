# say.sh - sourced by the scripts of this directory: prints one line per check, in cmocka's format, which CI counts.
# A script ends with `exit $n_failed`.
n_failed=0
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT

skip() { echo "[  SKIPPED ] host: $1: $2"; }

# check SENTENCE COMMAND...: holds if the command succeeds. Otherwise prints its output.
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
    awk '/^ \*     #include/ { inside = 1 }
         inside { sub(/^ \*(     )?/, ""); print }
         inside && /^}/ { exit }' "$1"
}

# speaking_model GOLDEN DIRECTORY: a copy of a golden model whose 67 tokens are single characters.
speaking_model()
{
    cp -r "$1/llama-gqa" "$2"
    awk 'BEGIN {
        letters = " abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.,!?"
        for (i = 1; i <= length(letters); i++)
            vocab = vocab (i > 1 ? "," : "") "\"" substr(letters, i, 1) "\":" i - 1
        printf "{\"version\":\"1.0\",\"added_tokens\":[],\"normalizer\":null,\"pre_tokenizer\":null,"
        printf "\"post_processor\":null,\"decoder\":{\"type\":\"Fuse\"},"
        printf "\"model\":{\"type\":\"BPE\",\"vocab\":{%s},\"merges\":[]}}\n", vocab
    }' >"$2/tokenizer.json"
}

# prints_text COMMAND...: what it prints is a hundred of those characters, in one line.
prints_text()
{
    "$@" >"$work/text" || return 1
    grep -q -x -E '[a-zA-Z0-9 .,!?]{100}' "$work/text" || { cat "$work/text"; return 1; }
}
