#!/bin/sh
# check-seeds.sh - docs/SEEDS.md: every row of a table has a file and a test that exist.
set -u
cd "$(dirname "$0")/.." || exit 2
page=docs/SEEDS.md
failed=0
n=0

say()
{
    echo "$page: $*"
    failed=1
}

# test_FILE:function is a function that a TEST of that file names.
check_test()
{
    case $1 in
    cli:*) [ -f "tests/cli/cases/${1#cli:}.sh" ] || say "no case $1" ;;
    test_*:*)
        file=$(ls tests/unit/"${1%%:*}.c" tests/unit64/"${1%%:*}.c" 2>/dev/null | head -1)
        if [ -z "$file" ]; then
            say "no test ${1%%:*}"
        elif ! tr '\n' ' ' <"$file" | grep -Eq "TEST\(\"([^\"]|\\\\\")*\"( *\"[^\"]*\")*, *${1#*:}\)"; then
            say "$file has no test ${1#*:}"
        fi
        ;;
    *) say "$1 is no test" ;;
    esac
}

names() # those between backticks
{
    printf '%s\n' "$1" | grep -o '`[^`]*`' | tr -d '`'
}

rows=$(grep '^|' $page | grep -v -e '^|---' -e '^| equation or mechanism | file | test |$')
old=$IFS
IFS='
'
for row in $rows; do
    n=$((n + 1))
    if ! printf '%s\n' "$row" | grep -Eq '^\|[^|]*[^| ][^|]*\|[^|]*`[^|]*\|[^|]*`[^|]*\|$'; then
        say "an empty cell, or too many: $row"
        continue
    fi
    for name in $(names "$(printf '%s\n' "$row" | cut -d'|' -f3)"); do
        [ -f "$name" ] || say "no file $name"
    done
    for name in $(names "$(printf '%s\n' "$row" | cut -d'|' -f4)"); do
        check_test "$name"
    done
done
IFS=$old
[ "$n" -gt 0 ] || say "no rows"
[ $failed -eq 0 ] && echo "check-seeds: $n rows, all of whose files and tests exist"
exit $failed
