#!/bin/sh
# check-instructions.sh BUILD [--write] - instructions of three small works (bench/instructions.c), counted by callgrind, may
# not be more than 3 % above those of tools/instructions.txt. A change that needs more says so by changing that file, with
# --write, in the same commit. Counts are those of the AVX2 kernels, which is what valgrind's processor has.
set -eu
cd "$(dirname "$0")/.."
[ $# -ge 1 ] || { sed -n '2,4s/^# \{0,1\}//p' "$0"; exit 2; }
program=$1/bench/instructions
kept=tools/instructions.txt

count() { # WORK FUNCTION
    valgrind --tool=callgrind --callgrind-out-file=/dev/null --toggle-collect="$2" "$program" "$1" 2>&1 |
        awk '/Collected/ { n = $NF } END { if (n < 1000) exit 1; print n }' ||
        { echo "$program $1: nothing was counted" >&2; exit 1; }
}

token=$(count token counted_append)
prompt=$(count prompt counted_append)
step=$(count step counted_step)
now=$(printf 'token %s\nprompt %s\nstep %s' "$token" "$prompt" "$step")
if [ "${2:-}" = --write ]; then
    printf '%s\n' "$now" >"$kept"
    cat "$kept"
    exit 0
fi
printf '%s\n' "$now" | awk -v kept="$kept" '
    BEGIN { while ((getline line <kept) > 0) { split(line, part, " "); base[part[1]] = part[2] } }
    {
        change = base[$1] > 0 ? 100 * ($2 / base[$1] - 1) : 100
        printf "%-8s %12d instructions, %+.2f %%\n", $1, $2, change
        if (change > 3) bad = 1
    }
    END { if (bad) print "more than 3 % above tools/instructions.txt: cut it, or record it with --write"; exit bad }'
