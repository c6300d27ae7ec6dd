#!/bin/sh
# size.sh SOURCE - tools/check-size.sh finds each kind of excess, planted in a small tree.
set -u
source=$1
. "$source/tests/host/say.sh"

lines() { i=0; while [ $i -lt "$1" ]; do echo "    x++;"; i=$((i + 1)); done; }

# tree FUNCTION_LINES: one file with a function of this many lines between its braces.
tree()
{
    rm -rf "$work/tree"
    mkdir -p "$work/tree/src/kernels" "$work/tree/cli"
    { echo '/* a.c - a function. */'; printf 'void f(void)\n{\n'; lines "$1"; echo '}'; } >"$work/tree/src/a.c"
    echo '/* main.c - nothing. */' >"$work/tree/cli/main.c"
}

reports() { ! "$source/tools/check-size.sh" "$work/tree" >"$work/report" && cat "$work/report" && grep -q "$1" "$work/report"; }

tree 58
check "size: a function of 60 lines passes" "$source/tools/check-size.sh" "$work/tree"
tree 59
check "size: a function of 61 lines" reports '^src/a.c: line 3: a function of 61 lines'
tree 1
echo 'int x;' >"$work/tree/cli/main.c"
check "size: a file that does not say what it is" reports '^cli/main.c: begins with'
tree 1
{ echo '/* b.h - long. */'; lines 599; } >"$work/tree/src/b.h"
check "size: a file of 600 lines passes" "$source/tools/check-size.sh" "$work/tree"
lines 1 >>"$work/tree/src/b.h"
check "size: a file of 601 lines" reports '^src/b.h: 601 lines'
mv "$work/tree/src/b.h" "$work/tree/src/kernels/tables.c"
check "size: generated tables may be longer" "$source/tools/check-size.sh" "$work/tree"
exit $n_failed
