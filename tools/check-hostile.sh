#!/bin/sh
# check-hostile.sh [BUILD [NUMBER...]] - docs/HOSTILE.md: every test that it names exists. With a build directory they are
# run, each alone, those of the rows with these numbers or all; one that runs nothing is a failure.
set -u
cd "$(dirname "$0")/.." || exit 2
page=docs/HOSTILE.md
build=${1:-}
[ $# -gt 0 ] && shift
failed=0
n=0

say()
{
    echo "$page: $*"
    failed=1
}

sentence_of() { # test_FILE:function: the sentence of the test, as cmocka's filter takes it
    tr '\n' ' ' <"tests/unit/${1%%:*}.c" 2>/dev/null |
        sed -n "s/.*TEST(\"\([^\"]*\)\"\( *\"\([^\"]*\)\"\)*, *${1#*:}).*/\1\3/p"
}

exists() { # TEST
    case $1 in
    cli:*) [ -f "tests/cli/cases/${1#cli:}.sh" ] ;;
    host_*) grep -q "host_test($1 \|foreach(name.* ${1#host_}[ )]" tests/host/CMakeLists.txt ;;
    test_*:*) [ -n "$(sentence_of "$1")" ] ;;
    *) false ;;
    esac
}

run() { # TEST
    case $1 in
    cli:*) sh tests/cli/run.sh "$build/weft" "${1#cli:}" ;;
    host_*) ctest --test-dir "$build" -V -R "^$1\$" ;;
    test_*:*) WEFT_TEST=$(sentence_of "$1" | tr '[]' '??') "$build/tests/${1%%:*}" ;;
    esac
}

check() { # NUMBER TEST
    n=$((n + 1))
    exists "$2" || { say "row $1: no test $2"; return; }
    [ -n "$build" ] || return
    log=$(run "$2" 2>&1) && echo "$log" | grep -q '\[       OK \]' || { echo "$log" | tail -n 20; say "row $1: $2 fails"; return; }
    echo "$1 $2: ok"
}

rows=$(sed -n 's/^| \([0-9]*\) |.*| \([^|]*\) |$/\1 \2/p' $page | tr -d '`,')
while read -r number tests; do
    [ $# -eq 0 ] || echo " $* " | grep -q " $number " || continue
    case $tests in .ci/run*) continue ;; esac # a step of the gate
    for test in $tests; do
        check "$number" "$test"
    done
done <<END
$rows
END
[ $failed -eq 0 ] && echo "$page: $n tests are there"
exit $failed
