#!/bin/sh
# check-circles.sh BUILD - fails if files call each other in a circle. nm lists the symbols that each object file defines and
# needs, so headers shared by many files hide nothing. Checks the files of the library and of the program.
set -eu
cd "$(dirname "$0")/.."
build=${1:?usage: tools/check-circles.sh BUILD}
objects=$(find "$build" \( -path '*/weft_objects.dir/*' -o -path '*/weft.dir/cli/*' -o -path '*/weft.dir/server/*' \) -name '*.c.o' | LC_ALL=C sort |
    while read -r object; do # not those of sources that are gone
        source=${object##*.dir/}
        [ ! -f "${source%.o}" ] || echo "$object"
    done)
if [ -z "$objects" ]; then
    echo "check-circles: no objects of weft under $build" >&2
    exit 2
fi

# shellcheck disable=SC2086 # one word per object
nm -A -P -g $objects | awk '
# build/CMakeFiles/weft_objects.dir/src/base/mem.c.o: mem_alloc T 0 1f
function file_of(object) {
    sub(/:$/, "", object)
    sub(/\.o$/, "", object)
    sub(/.*\.dir\//, "", object)
    return object
}

# Depth first: a file that is met again while it is still open closes a circle.
function visit(file, trail,    i, n, next_of) {
    state[file] = "open"
    n = split(uses[file], next_of, " ")
    for (i = 1; i <= n; i++) {
        if (state[next_of[i]] == "open") {
            print "a circle: " substr(trail, index(trail, next_of[i])) " -> " next_of[i] \
                  " (" name[file, next_of[i]] ")"
            circles++
        } else if (state[next_of[i]] != "done")
            visit(next_of[i], trail " -> " next_of[i])
    }
    state[file] = "done"
}

{ file = file_of($1) }
!(file in seen) { seen[file] = 1; order[++n_file] = file }
$3 == "U" { wanted[++n_wanted] = file " " $2 }
$3 != "U" { home[$2] = file }

END {
    for (i = 1; i <= n_wanted; i++) {
        split(wanted[i], part, " ")
        to = home[part[2]]
        if (to == "" || to == part[1] || (part[1], to) in name)
            continue
        name[part[1], to] = part[2]
        uses[part[1]] = uses[part[1]] " " to
    }
    for (i = 1; i <= n_file; i++)
        if (!(order[i] in state))
            visit(order[i], order[i])
    if (circles)
        print "check-circles: " circles " circles in " n_file " files"
    else
        print "check-circles: " n_file " files, no circle"
    exit (circles > 0)
}'
