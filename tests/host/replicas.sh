#!/bin/sh
# replicas.sh WEFT CLIENT SOURCE - three replicas of weft serve behind HAProxy with deploy/haproxy/haproxy.cfg, each in a
# network namespace of its own: nothing is buffered, conversations find their cached prefixes, no request fails while
# all replicas are restarted in turn (2 rolls, with WEFT_TEST_LONG=1 20), and a killed replica is missed for less than
# two seconds. Needs root.
set -u
weft=$1 client=$2 source=$3
. "$source/tests/host/say.sh"
sentence="replicas behind HAProxy"
[ "$(id -u)" = 0 ] || { skip "$sentence" "network namespaces need root"; exit 0; }
for tool in ip haproxy; do
    command -v $tool >/dev/null 2>&1 || { skip "$sentence" "$tool is not installed"; exit 0; }
done
n_roll=2 n_talk=90
[ -z "${WEFT_TEST_LONG:-}" ] || n_roll=20
net=weft$$ proxy=10.78.0.4:8000
pids=

clean()
{
    # shellcheck disable=SC2086 # a list
    [ -z "$pids" ] || kill -9 $pids 2>/dev/null
    for i in 0 1 2 3 4 5; do
        ip netns del "$net-$i" 2>/dev/null
    done
    rm -rf "$work"
}
trap clean EXIT
trap 'exit 130' INT TERM

# 0 is the bridge, 1 to 3 the replicas, 4 HAProxy, 5 the clients.
make_network()
{
    ip netns add "$net-0" && ip -n "$net-0" link add bridge type bridge && ip -n "$net-0" link set bridge up || return 1
    for i in 1 2 3 4 5; do
        ip netns add "$net-$i" &&
            ip -n "$net-$i" link add eth0 type veth peer name "port$i" netns "$net-0" &&
            ip -n "$net-0" link set "port$i" master bridge up &&
            ip -n "$net-$i" address add "10.78.0.$i/24" dev eth0 &&
            ip -n "$net-$i" link set lo up && ip -n "$net-$i" link set eth0 up || return 1
    done
}

in_net() # NUMBER COMMAND...
{
    number=$1
    shift
    exec ip netns exec "$net-$number" "$@"
}

# replica_N: the process of replica N.
start_replica() # NUMBER
{
    (in_net "$1" "$weft" serve "$source/tests/golden/chat/chat.gguf" --template "$source/tests/golden/chat/template.jinja" \
        --host "10.78.0.$1" --port 8080 --insecure --connections-per-address 0 -t 1 -c 8192 --cache-tokens 131072 \
        --drain 60 --drain-delay 2 --no-log 2>>"$work/replica-$1.log") &
    eval "replica_$1=$!"
    pids="$pids $!"
}

get() { ip netns exec "$net-5" "$client" get "$@"; }

wait_until() # SECONDS COMMAND...
{
    turns=$(($1 * 20))
    shift
    while ! "$@" >/dev/null 2>&1; do
        turns=$((turns - 1))
        [ $turns -gt 0 ] || return 1
        sleep 0.05
    done
}

is_up() # NUMBER: HAProxy sends requests to it
{
    get 10.78.0.4:8404 /metrics | grep -q "^haproxy_server_status{proxy=\"replicas\",server=\"weft$1\",state=\"UP\"} 1"
}

start_all()
{
    for i in 1 2 3; do
        start_replica $i
    done
    for i in 1 2 3; do
        wait_until 60 get "10.78.0.$i:8080" /ready && wait_until 30 is_up $i || return 1
    done
}

# The exit code is weft's.
stop_replica() # NUMBER SIGNAL
{
    eval "pid=\$replica_$1"
    kill "-$2" "$pid" && wait "$pid"
}

stop_all()
{
    for i in 1 2 3; do
        stop_replica $i KILL 2>/dev/null
    done
    true
}

total() # METRIC NUMBER...: its sum over replicas
{
    metric=$1
    shift
    for i in "$@"; do
        get "10.78.0.$i:8080" /metrics
    done | awk -v name="$metric" 'index($0, name "{") == 1 { sum += $2 } END { printf "%d", sum }'
}

# ---- what is shown ---------------------------------------------------------------------------------

all="10.78.0.1:8080 10.78.0.2:8080 10.78.0.3:8080"
# shellcheck disable=SC2086 # a list
unbuffered() { ip netns exec "$net-5" "$client" whole "$proxy" $all; }
# shellcheck disable=SC2086
conversations_stay() { ip netns exec "$net-5" "$client" stay "$proxy" 10.78.0.4:8404 $all; }

conversations() # ADDRESS:PORT NUMBER...: prints hits of queries
{
    at=$1
    shift
    ip netns exec "$net-5" "$client" talk "$at" 48 $n_talk >"$work/talk" || { cat "$work/talk"; return 1; }
    echo "$(total vllm:prefix_cache_hits_total "$@") $(total vllm:prefix_cache_queries_total "$@")"
}

# The counters begin at nothing for each of the two.
prefixes()
{
    stop_all && start_all || return 1
    alone=$(conversations 10.78.0.1:8080 1) || { echo "$alone"; return 1; }
    stop_all && start_all || return 1
    shared=$(conversations "$proxy" 1 2 3) || { echo "$shared"; return 1; }
    echo "$alone $shared" | awk '{
        printf "prefix-cache hits: one replica %d of %d tokens, three %d of %d: %.3f of its share\n", $1, $2, $3, $4,
               $3 / $4 / ($1 / $2)
        exit !($2 > 0 && $4 == $2 && $3 / $4 >= 0.9 * $1 / $2) }'
}

roll_one() # NUMBER
{
    stop_replica "$1" TERM || { echo "replica $1 ended with $?"; return 1; }
    start_replica "$1"
    wait_until 60 get "10.78.0.$1:8080" /ready && wait_until 30 is_up "$1"
}

rolls()
{
    (in_net 5 "$client" talk "$proxy" 8 0 >"$work/load") &
    load=$!
    pids="$pids $load"
    sleep 1
    for roll in $(seq 1 $n_roll); do
        for i in 1 2 3; do
            roll_one $i || { echo "roll $roll, replica $i"; return 1; }
        done
    done
    kill -TERM $load
    wait $load
    code=$?
    echo "$n_roll rolls of three replicas: $(cat "$work/load")"
    return $code
}

killed()
{
    eval "pid=\$replica_2"
    ip netns exec "$net-5" "$client" kill "$proxy" 10.78.0.2:8080 "$pid" || return 1
    start_replica 2
    wait_until 30 is_up 2
}

shown() # SENTENCE FUNCTION
{
    check "$1" "$2"
    sed 's/^/    /' "$work/said"
}

make_network || { skip "$sentence" "no network namespaces here"; exit 0; }
export WEFT_BIND=$proxy WEFT_METRICS=10.78.0.4:8404 WEFT_1=10.78.0.1:8080 WEFT_2=10.78.0.2:8080 WEFT_3=10.78.0.3:8080
check "replicas: HAProxy accepts deploy/haproxy/haproxy.cfg" haproxy -c -q -f "$source/deploy/haproxy/haproxy.cfg"
(in_net 4 haproxy -db -f "$source/deploy/haproxy/haproxy.cfg" >"$work/haproxy.log" 2>&1) &
pids="$pids $!"
check "replicas: three get ready" start_all
[ $n_failed = 0 ] || exit 1
shown "replicas: events pass HAProxy while the text is generated" unbuffered
shown "replicas: each conversation stays with one of them" conversations_stay
shown "replicas: three find nine tenths of the cached prefixes that one finds" prefixes
shown "replicas: no request fails while all are restarted in turn" rolls
shown "replicas: one that is killed cuts its streams, and new requests succeed within two seconds" killed
exit $n_failed
