#!/bin/sh
# readme.sh README WEFT - runs the commands of README's console blocks in a directory that has README.md, models/ and, as
# build/weft, the program. Each must succeed, and print to standard output what stands below it, if anything does.
set -u
case $2 in
/*) weft=$2 ;;
*) weft=$(pwd)/$2 ;;
esac
root=$(cd "$(dirname "$1")" && pwd)
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
awk '/^```console$/ { inside = 1; next } /^```$/ { inside = 0 } inside' "$1" >"$work/commands"
mkdir -p "$work/here/build"
ln -s "$weft" "$work/here/build/weft"
ln -s "$root/models" "$root/README.md" "$work/here"
WEFT_CONFIG=
LC_ALL=C
export WEFT_CONFIG LC_ALL
cd "$work/here" || exit 2

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

# The help's own examples that need nothing but what is in the tree.
for name in "" $(build/weft help | sed -n 's/^  \([a-z-]*\)  .*/\1/p'); do
    build/weft help $name | sed -n '/^Examples:/,/^$/s/^  weft /build\/weft /p' | grep -e models/ -e README.md |
        sed -e 's/--out run/--out run2/' -e 's|\./shakespeare|./shakespeare2|'
done | sort -u >../examples
while IFS= read -r command; do
    rm -rf run2 shakespeare2 small.gguf
    : >../expected
    finish
done <../examples
[ $n -gt 0 ] || echo "[  FAILED  ] readme: no commands found"
[ $n -gt 0 ] && [ $failed -eq 0 ]
