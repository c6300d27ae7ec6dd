#!/bin/sh
# readme.sh README WEFT - runs the commands of README's console blocks in an empty directory, with the program as `weft`
# and stories260K as model.gguf. Each must succeed, and print to standard output what stands below it, if anything
# does.
set -u
case $2 in
/*) weft=$2 ;;
*) weft=$(pwd)/$2 ;;
esac
if [ -z "${WEFT_ASSETS:-}" ]; then
    echo "[  SKIPPED ] readme: WEFT_ASSETS is not set"
    exit 0
fi
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
awk '/^```console$/ { inside = 1; next } /^```$/ { inside = 0 } inside' "$1" >"$work/commands"
mkdir "$work/bin" "$work/here"
ln -s "$weft" "$work/bin/weft"
PATH=$work/bin:$PATH
WEFT_CONFIG=
LC_ALL=C
export PATH WEFT_CONFIG LC_ALL
cd "$work/here" || exit 2
cp "$WEFT_ASSETS/llama-stories260K/stories260K-f32.gguf" model.gguf
head -n 40 "$WEFT_ASSETS/data/tinystories-slice/tinystories.txt" >text.txt

n=0
failed=0
# finish: runs the command that was collected, and compares.
finish()
{
    [ -n "$command" ] || return 0
    n=$((n + 1))
    if ! sh -c "$command" >../got 2>../stderr </dev/null; then
        echo "[  FAILED  ] readme: $command"
        cat ../got ../stderr
        failed=$((failed + 1))
    elif [ -s ../expected ] && ! diff ../expected ../got >../diff; then
        echo "[  FAILED  ] readme: $command: printed (>) is not what README says (<):"
        cat ../diff
        failed=$((failed + 1))
    else
        echo "[       OK ] readme: $command"
    fi
}

command=
while IFS= read -r line; do
    case $line in
    '$ '*)
        finish
        command=${line#'$ '}
        : >../expected
        ;;
    *) printf '%s\n' "$line" >>../expected ;;
    esac
done <../commands
finish
[ $n -gt 0 ] || echo "[  FAILED  ] readme: no commands found"
[ $n -gt 0 ] && [ $failed -eq 0 ]
