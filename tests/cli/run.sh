#!/bin/sh
# run.sh WEFT [NAME...] - runs tests/cli/cases/NAME.sh with the program as $WEFT, the golden models under $GOLDEN and an
# empty directory to work in, and compares what it prints with NAME.out. Two words are made the same everywhere: the
# golden directory is shown as GOLDEN, speeds as X tok/s (predicted), and so are times and the memory of a run. To record what is printed now: UPDATE=1 run.sh WEFT.
set -u
here=$(cd "$(dirname "$0")" && pwd)
case $1 in
/*) WEFT=$1 ;;
*) WEFT=$(pwd)/$1 ;;
esac
shift
GOLDEN=$(cd "$here/../golden" && pwd)
export WEFT GOLDEN
unset $(env | sed -n "s/^\(WEFT_[A-Z_]*\)=.*/\1/p" | grep -v -e "^WEFT_ASSETS$" -e "^WEFT$") OMP_NUM_THREADS XDG_CONFIG_HOME NO_COLOR \
    XDG_CACHE_HOME HF_HUB_CACHE HF_HOME LLAMA_CACHE OLLAMA_MODELS
HOME=/nonexistent
export HOME
LC_ALL=C
export LC_ALL

work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
failed=0
if [ $# -eq 0 ]; then
    set -- $(cd "$here/cases" && ls ./*.sh | sed 's|^\./||; s|\.sh$||')
fi

# Most commands of a case are written `try COMMAND...`: shows the command, both outputs and an exit code that is not 0.
# A case that cannot run here prints SKIP and why.
cat >"$work/try.sh" <<'END'
try()
{
    echo "\$ $*" | sed "s|$WEFT|weft|g"
    code=0
    "$@" 2>stderr || code=$?
    cat stderr
    [ $code -eq 0 ] || echo "-> $code"
}
END

for name; do
    mkdir "$work/$name"
    (cd "$work/$name" && sh -c '. ../try.sh; . "$1"' sh "$here/cases/$name.sh" </dev/null) 2>&1 |
        sed "s|$GOLDEN|GOLDEN|g; s|[0-9.]* tok/s|X tok/s|g; s|; memory [0-9.]* [KMG]*iB|; memory X|; s|\(\"[a-z]*_seconds\":\)[0-9.]*|\1X|g; s|\(\"memory_bytes\":\)[0-9]*|\1X|; s|(predicted: [^)]*)|(predicted)|" >"$work/$name.got"
    if grep -q '^SKIP ' "$work/$name.got"; then
        echo "[  SKIPPED ] cli: $name: $(sed -n 's/^SKIP //p' "$work/$name.got")"
        continue
    fi
    [ -n "${UPDATE:-}" ] && cp "$work/$name.got" "$here/cases/$name.out"
    if diff "$here/cases/$name.out" "$work/$name.got" >"$work/diff" 2>&1; then
        echo "[       OK ] cli: $name"
    else
        echo "[  FAILED  ] cli: $name: printed (>) is not what is expected (<):"
        cat "$work/diff"
        failed=1
    fi
done
exit $failed
