#!/bin/sh
# check-seeds.sh [BUILD] - docs/SEEDS.md: every row of a table has a file and a test that exist.
#
# With the directory of a build, each test that is named runs alone, without assets and in quick mode (support.h), and must
# have asserted something: a test that has not, fails. A test that is skipped then must be marked (assets) in its row, and
# every row must have one that is not; with WEFT_ASSETS those that are marked run as well.
#
# The rows of "Figures and walk-throughs" have a command instead. It runs as it stands, must succeed, and must give what the
# row says: the names between backticks. Of a page they are looked for in its views with --json; a view that does not
# apply, or an identity that fails, is an error.
set -u
cd "$(dirname "$0")/.." || exit 2
page=docs/SEEDS.md
build=${1:-}
tried=$(mktemp -d) || exit 2
trap 'rm -rf "$tried"' EXIT
failed=0
n=0

say()
{
    echo "$page: $*"
    failed=1
}

source_of() # test_FILE
{
    ls tests/unit/"$1.c" tests/unit64/"$1.c" 2>/dev/null | head -1
}

# The sentence of function $2 in file $1: TEST("sentence", function), over several lines and strings.
sentence()
{
    tr '\n' ' ' <"$1" | grep -oE "TEST\((\"([^\"\\]|\\\\.)*\" *)+, *$2\)" | head -1 |
        sed 's/^TEST("//; s/" *, *[a-z0-9_]*)$//; s/" *"//g; s/\\\(.\)/\1/g'
}

check_name() # test_FILE:function or cli:CASE
{
    case $1 in
    cli:*)
        [ -s "tests/cli/cases/${1#cli:}.out" ] || say "no case $1, or it prints nothing"
        ;;
    test_*:*)
        file=$(source_of "${1%%:*}")
        if [ -z "$file" ]; then
            say "no test ${1%%:*}"
        elif [ -z "$(sentence "$file" "${1#*:}")" ]; then
            say "$file has no test ${1#*:}"
        fi
        ;;
    *) say "$1 is no test" ;;
    esac
}

# Runs a test alone; prints OK, SKIPPED, or what came out.
run_alone()
{
    case $1 in
    cli:*) sh tests/cli/run.sh "$build/weft" "${1#cli:}" >"$tried/out" 2>&1 ;;
    *)
        file=$(source_of "${1%%:*}")
        program=$build/tests/${1%%:*}
        case $file in tests/unit64/*) program=${program}64 ;; esac
        WEFT_TEST_QUICK=1 WEFT_TEST=$(sentence "$file" "${1#*:}") "$program" >"$tried/out" 2>&1
        ;;
    esac
    code=$?
    if [ $code -eq 0 ] && grep -qF '[  SKIPPED ]' "$tried/out"; then
        echo SKIPPED
    elif [ $code -eq 0 ] && grep -qF '[       OK ]' "$tried/out"; then
        echo OK
    else
        tail -n 5 "$tried/out"
    fi
}

# The same without assets, once for all rows.
without_assets()
{
    [ -f "$tried/$1" ] || (unset WEFT_ASSETS && run_alone "$1" >"$tried/$1")
    cat "$tried/$1"
}

with_assets()
{
    [ -f "$tried/$1.assets" ] || run_alone "$1" >"$tried/$1.assets"
    cat "$tried/$1.assets"
}

check_run() # NAME MARK: sets `runs` where it runs without assets
{
    result=$(without_assets "$1")
    case $result,$2 in
    OK,none) runs=1 ;;
    OK,assets) say "$1 is marked (assets), but needs none" ;;
    SKIPPED,none) say "$1 is skipped without assets and not marked (assets)" ;;
    SKIPPED,assets)
        [ -n "${WEFT_ASSETS:-}" ] || return
        result=$(with_assets "$1")
        [ "$result" = OK ] || say "$1, with assets: $result"
        ;;
    *) say "$1, alone: $result" ;;
    esac
}

names() # those between backticks, with none or assets behind each
{
    printf '%s\n' "$1" | grep -o '`[^`]*`\( (assets)\)\?' | sed 's/^`\([^`]*\)`$/\1 none/; s/^`\([^`]*\)` (assets)$/\1 assets/'
}

# The command of a figure, in a directory where models/ and tests/ are; once for all rows.
run_figure() # COMMAND FILE
{
    [ -f "$2.code" ] && return
    (cd "$tried/figures" && rm -f explain.html && PATH=$(cd "$here/$build" && pwd):$PATH sh -c "$1") >"$2" 2>&1 </dev/null
    echo $? >"$2.code"
    case $1 in "weft explain "*) ;; *) return ;; esac
    [ -s "$tried/figures/explain.html" ] || say "no page: $1"
    (cd "$tried/figures" && PATH=$(cd "$here/$build" && pwd):$PATH sh -c "$1 --json") </dev/null 2>&1 | sed 's/.*"views":\[//' >"$2"
    case $1 in *--only*) ! grep -q '"seed":"[^"]*","why_not"' "$2" || say "a view does not apply: $1" ;; esac
    ! grep -q '"holds":false' "$2" || say "an identity fails: $1"
}

check_figure() # ROW
{
    command=$(printf '%s\n' "$1" | cut -d'|' -f3 | sed 's/^ `\(weft [^`]*\)` $/\1/')
    case $command in weft\ *) ;; *) say "no command: $1" && return ;; esac
    [ -n "$build" ] || return
    ran=$tried/figures/$(printf '%s\n' "$command" | cksum | tr ' ' -)
    run_figure "$command" "$ran"
    [ "$(cat "$ran.code")" = 0 ] || say "$command -> $(cat "$ran.code"): $(tail -n 1 "$ran")"
    for name in $(printf '%s\n' "$1" | cut -d'|' -f4 | grep -o '`[^`]*`' | tr -d '`'); do
        case $command in
        "weft explain "*) grep -qF -e "\"$name\"" "$ran" || say "no $name: $command" ;;
        *) grep -qF -e "$name" "$ran" || say "no $name: $command" ;;
        esac
    done
}

here=$(pwd)
case $build in /*) here= ;; esac
mkdir "$tried/figures" && ln -s "$(pwd)/models" "$(pwd)/tests" "$tried/figures"
part() { awk -v want="$1" '/^## / { inside = $0 == "## Figures and walk-throughs" } inside == want' $page; }
rows=$(part 0 | grep '^|' | grep -v -e '^|---' -e '^| equation or mechanism | file | test |$' -e '^| says | ruling | test |$')
figures=$(part 1 | grep '^|' | grep -v -e '^|---' -e '^| figure or walk-through | command | shows |$')
old=$IFS
IFS='
'
for row in $rows; do
    n=$((n + 1))
    if ! printf '%s\n' "$row" | grep -Eq '^\|[^|]*[^| ][^|]*\|[^|]*[^| ][^|]*\|[^|]*`[^|]*\|$'; then
        say "an empty cell, or too many: $row"
        continue
    fi
    for name in $(names "$(printf '%s\n' "$row" | cut -d'|' -f3)"); do
        [ -e "${name% *}" ] || say "no file ${name% *}"
    done
    runs=0
    for name in $(names "$(printf '%s\n' "$row" | cut -d'|' -f4)"); do
        check_name "${name% *}"
        [ -z "$build" ] || check_run "${name% *}" "${name##* }"
    done
    [ -z "$build" ] || [ $runs -eq 1 ] || say "no test runs without assets: $row"
done
n_figure=0
for row in $figures; do
    n_figure=$((n_figure + 1))
    if printf '%s\n' "$row" | grep -Eq '^\|[^|]*[^| ][^|]*\|[^|]*`[^|]*\|[^|]*`[^|]*\|$'; then
        check_figure "$row"
    else
        say "an empty cell, too many, or nothing to look for: $row"
    fi
done
for name in $(part 1 | grep -v '^|' | grep -oE '`(test_[a-z0-9_]+|cli):[a-z0-9_-]+`' | tr -d '`'); do
    check_name "$name"
done
IFS=$old
[ "$n" -gt 0 ] && [ "$n_figure" -gt 0 ] || say "no rows"
if [ $failed -eq 0 ] && [ -n "$build" ]; then
    echo "check-seeds: $n rows, whose $(ls "$tried" | grep -c '^[a-z_0-9]*:') tests assert, each alone; $n_figure figures, whose commands show them"
elif [ $failed -eq 0 ]; then
    echo "check-seeds: $n rows, all of whose files and tests exist; $n_figure figures"
fi
exit $failed
