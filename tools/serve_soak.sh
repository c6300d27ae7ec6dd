#!/bin/sh
# serve_soak.sh BUILD MODEL [MINUTES] - weft serve under load for an hour: the resident memory after a sixth of the time and at
# the end may differ by 1 %, and no descriptor may be left. Prints both every minute. Streams of several lengths, long prompts
# that arrive besides, and clients that hang up.
set -u
build=$1
model=$2
minutes=${3:-60}
dir=$(mktemp -d)
trap 'kill "$server" "$load" "$rude" 2>/dev/null; rm -rf "$dir"' EXIT
"$build/weft" serve "$model" --port 0 --parallel 16 -c 2048 --cache-tokens 8192 --no-log 2>"$dir/errors" &
server=$!
port=
while [ -z "$port" ]; do
    kill -0 $server 2>/dev/null || { cat "$dir/errors"; exit 1; }
    sleep 1
    port=$(sed -n 's|.*listening on http://127.0.0.1:\([0-9]*\).*|\1|p' "$dir/errors")
done
until curl -sf "http://127.0.0.1:$port/ready" >"$dir/ready"; do sleep 1; done

"$build/bench/load" "127.0.0.1:$port" --streams 12 --seconds $((minutes * 60)) --prompts 16:4,64:2,256:1 --generate 48 \
    --shared 64 --rate 0.05 --arriving 1024 >"$dir/load" 2>&1 &
load=$!
while :; do # a client that hangs up after a second, and one that sends nonsense
    curl -s -m 1 "http://127.0.0.1:$port/v1/completions" -H 'Content-Type: application/json' \
        -d '{"prompt":"Once","max_tokens":2000,"ignore_eos":true,"stream":true}' >/dev/null
    curl -s -m 1 "http://127.0.0.1:$port/v1/completions" -H 'Content-Type: application/json' -d '{"prompt":' >/dev/null
    sleep 2
done &
rude=$!

rss() { awk '/^VmRSS/ { print $2 }' "/proc/$server/status"; }
descriptors() { find "/proc/$server/fd" -type l 2>/dev/null | wc -l; }
first=0
most=0
i=0
while [ $i -lt "$minutes" ]; do
    sleep 60
    i=$((i + 1))
    kill -0 $server 2>/dev/null || { echo "the server ended after $i minutes"; cat "$dir/errors"; exit 1; }
    n=$(descriptors)
    echo "$i min: $(rss) KiB, $n descriptors"
    if [ $i -eq $(((minutes + 5) / 6)) ]; then
        first=$(rss)
    fi
    if [ "$i" -gt $(((minutes + 5) / 6)) ]; then
        [ "$n" -gt "$most" ] && most=$n
    fi
done
last=$(rss)
wait $load
cat "$dir/load"
kill $rude
sleep 20 # until idle connections are closed
left=$(descriptors)
kill $server
wait $server
code=$?
echo "resident: $first KiB after a sixth of the time, $last KiB at the end; $left descriptors without clients, at most $most with them; exit code $code"
[ $code -eq 0 ] && awk -v a="$first" -v b="$last" 'BEGIN { exit !(b <= 1.01 * a && b >= 0.99 * a) }' && [ "$left" -le 16 ]
