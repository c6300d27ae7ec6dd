#!/bin/sh
# simulate.sh BUILD MODEL [MIX...] - the simulator against a server on this machine: for each mix of requests (short, shared,
# chat) at 30, 60, 90 and 150 % of what the server can do of it, TTFT and TPOT as measured and as simulated.
#
#     WORK=/tmp/simulate REQUESTS=300 LOADS="30 60 90 150" SERVE="--parallel 32 -c 1024" bench/simulate.sh build m.gguf
#
# The server and its client share the machine, so nothing else should run on it; a mix takes about five minutes. The capacity
# of a mix is what it answers in a second when all requests arrive at once (with a queue for them). Then each load has a server
# of its own, without cached prefixes, which records its steps, and gets a trace of Poisson arrivals. The simulator
# gets the same trace twice: with that record (replayed), and with the records of the mix's other runs (predicted). Minutes
# lie between those and the run, in which a shared machine may change its speed: `slower` is what the steps of the run took
# on average, as a share of the fit to the others.
#
# MEASURE=0 simulates again what WORK has. Fails if, replayed, p50 is off by more than 15 % or p99 by more than 30 % at up to
# 90 % load.
set -eu
build=$1 model=$2
shift 2
mixes=${*:-short shared chat}
work=${WORK:-/tmp/weft-simulate}
requests=${REQUESTS:-300}
loads=${LOADS:-30 60 90 150}
serve=${SERVE:---parallel 32 -c 1024 --cache-tokens 32768}
queue=${QUEUE:-32}
port=${PORT:-18080}
mkdir -p "$work"
# shellcheck disable=SC2086 # options
simulated_options=$(echo $serve | sed 's/ -c / --ctx-size /; s/^-c /--ctx-size /; s/ -b / --batch-size /')
server=

stop_server()
{
    [ -z "$server" ] || { kill -TERM "$server" 2>/dev/null && wait "$server"; } || true
    server=
}
trap 'stop_server' EXIT
trap 'exit 1' INT TERM

# run NAME TRACE QUEUE: a server of its own under a trace; NAME.steps and NAME.json.
run()
{
    # shellcheck disable=SC2086
    "$build/weft" serve "$model" $serve --queue "$3" --port "$port" --no-log --no-echo --record-steps "$work/$1.steps" \
        2>"$work/$1.log" &
    server=$!
    n=0
    until grep -q 'listening on' "$work/$1.log" && curl -sf "http://127.0.0.1:$port/ready" >/dev/null; do
        n=$((n + 1))
        [ "$n" -lt 300 ] || { cat "$work/$1.log" >&2; exit 1; }
        sleep 0.1
    done
    "$build/bench/load" "127.0.0.1:$port" --trace "$2" --vocab 40000 --json >"$work/$1.json"
    stop_server
}

# field NAME LIST P FILE: a percentile; value NAME FILE: a number.
field()
{
    sed -n "s/.*\"$1_ms\":{[^}]*\"$2\":\([0-9.]*\).*/\1/p" "$3" | head -n 1
}
value()
{
    sed -n "s/.*\"$1\":\([0-9.]*\).*/\1/p" "$2" | head -n 1
}

# others MIX LOAD: the records of all runs of a mix but one, with commas.
others()
{
    for of in capacity $loads; do
        [ "$of" = "$2" ] || printf '%s,' "$work/$1-$of.steps"
    done
}

grep -m 1 'model name' /proc/cpuinfo | sed 's/.*: //'
echo "$(nproc) processors; $(basename "$model"); weft serve $serve --queue $queue"
for mix in $mixes; do
    [ "${MEASURE:-1}" = 1 ] || break
    "$build/bench/trace" --mix "$mix" --rate 100000 --requests "$requests" --seed 7 >"$work/$mix-capacity.trace"
    run "$mix-capacity" "$work/$mix-capacity.trace" 4000
    awk -v n="$requests" -v refused="$(value refused_503 "$work/$mix-capacity.json")" \
        -v s="$(value seconds "$work/$mix-capacity.json")" 'BEGIN { print (n - refused) / s }' >"$work/$mix.capacity"
    for load in $loads; do
        rate=$(awk -v l="$load" '{ print $1 * l / 100 }' "$work/$mix.capacity")
        "$build/bench/trace" --mix "$mix" --rate "$rate" --requests "$requests" --seed "$load" >"$work/$mix-$load.trace"
        run "$mix-$load" "$work/$mix-$load.trace" "$queue"
    done
done

# simulate NAME RECORDS TO [--replay]
simulate()
{
    # shellcheck disable=SC2086
    "$build/bench/simulate" "$1.trace" --steps "$2" $simulated_options --queue "$queue" --repeat 5 --compare "$1.steps" \
        --json $4 >"$3"
}

# compare NAME LOAD SIMULATED HEAD LIMITED: a line of the table; fails where it is too far off.
compare()
{
    far=0
    line=$4
    for what in "ttft p50 15" "ttft p99 30" "tpot p50 15" "tpot p99 30"; do
        # shellcheck disable=SC2086
        cell=$(cell_of "$1" "$2" "$3" $what) || far=1
        line="$line | $cell"
    done
    echo "$line | $(share_of "$1.json"), $(share_of "$3") | $5 |"
    [ "$far" = 0 ]
}
cell_of()
{
    awk -v m="$(field "$4" "$5" "$1.json")" -v s="$(field "$4" "$5" "$3")" -v most="$6" -v load="$2" 'BEGIN {
        r = m > 0 ? s / m : 0
        far = r > 1 + most / 100 || r < 1 - most / 100
        printf "%.0f, %.0f: %s%.2f%s", m, s, far ? "**" : "", r, far ? "**" : ""
        exit far && load <= 90
    }'
}
share_of()
{
    awk -v n="$(value requests "$1")" -v a="$(value refused_429 "$1")" -v b="$(value refused_503 "$1")" \
        'BEGIN { printf "%.1f %%", 100 * (a + b) / n }'
}

failed=0
echo "| mix, load | requests/s | | TTFT p50, ms: measured, simulated: ratio | p99 | TPOT p50 | p99 | refused | slower |"
echo "|---|---|---|---|---|---|---|---|---|"
for mix in $mixes; do
    for load in $loads; do
        name=$work/$mix-$load
        rate=$(awk -v l="$load" '{ printf "%.2f", $1 * l / 100 }' "$work/$mix.capacity")
        simulate "$name" "$name.steps" "$name.replayed" --replay
        compare "$name" "$load" "$name.replayed" "| $mix, $load % | $rate | replayed" "" || failed=1
        simulate "$name" "$(others "$mix" "$load")" "$name.predicted" ""
        compare "$name" "$load" "$name.predicted" "| | | predicted" "$(value factor "$name.predicted")" || true
    done
done
exit "$failed"
