#!/bin/sh
# two_processes.sh - memory of two processes on one model, with packed weights and without: resident memory, and each one's
# share (Pss), which counts a page mapped by both as half.
#
#     bench/two_processes.sh MODEL.gguf [BUILD]
set -eu
[ $# -ge 1 ] || { sed -n '2,5s/^# \{0,1\}//p' "$0"; exit 2; }
model=$1 build=${2:-build}
for how in "" --no-pack; do
    pids=
    for _ in 1 2; do
        # shellcheck disable=SC2086 # an empty option is none
        "$build/weft" run "$model" --ids 1,2,3 -n 100000 -c 4096 --ignore-eos -t 1 $how >/dev/null 2>&1 &
        pids="$pids $!"
    done
    sleep 5
    for pid in $pids; do
        awk -v how="${how:-packed}" '/^(Rss|Pss|Anonymous):/ { printf "%s %.1f MB  ", $1, $2 / 1024 } END { print how }' \
            "/proc/$pid/smaps_rollup"
    done
    # shellcheck disable=SC2086 # a list of numbers
    kill $pids
    wait
done
