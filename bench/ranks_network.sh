#!/bin/sh
# ranks_network.sh - bench/ranks over a network of limited rate: is the exchange of a step what its forecast says?
#
#     bench/ranks_network.sh [BUILD [RANKS [MBIT...]]]      (build 2 100 300 1000)
#
# OPTIONS in the environment are those of bench/ranks (--layers 8 --sequences 2 --tokens 64).
# Beside it the exchange with sums in MPI's order (weft train --reduce fast).
#
# Each rank is in a network namespace of its own, whose only way out is a pair of virtual interfaces to a bridge; HTB
# limits what it sends. Needs root, ip, tc, and Open MPI. Ends with 1 if the median step's exchange at some rate is
# further than a fifth from its forecast, and with 77 if something is missing.
#
# The model has short ops: between two of them MPI moves only what the kernel's buffers hold, which no forecast knows.
# OPTIONS= has longer ones.
#
# Connections use Reno, whatever the machine is set to. By default Open MPI writes a large message whole, so that both
# directions of a connection take turns: the flags below keep both busy.
set -u
build=${1:-build} n_rank=${2:-2}
options=${OPTIONS---layers 8 --sequences 2 --tokens 64}
rates="100 300 1000"
[ $# -le 2 ] || { shift 2; rates=$*; }

absent()
{
    echo "ranks_network.sh: $1" >&2
    exit 77
}
[ "$(id -u)" = 0 ] || absent "network namespaces need root"
for tool in ip tc mpirun.openmpi; do
    command -v $tool >/dev/null 2>&1 || absent "$tool is not installed"
done
for file in bench/ranks comm-openmpi.so; do
    [ -e "$build/$file" ] || absent "$build/$file is not there; build weft with Open MPI's development package"
done
build=$(cd "$build" && pwd)
dir=$(mktemp -d) net=weft$$

clean()
{
    for i in $(seq 0 "$n_rank"); do
        ip netns del "$net-$i" 2>/dev/null
    done
    rm -rf "$dir"
}
trap clean EXIT
trap 'exit 130' INT TERM

# Namespace 0 is the bridge; rank r has namespace r + 1 and address 10.77.0.(r + 1).
make_network()
{
    ip netns add "$net-0" && ip -n "$net-0" link add bridge type bridge && ip -n "$net-0" link set bridge up || return 1
    for i in $(seq 1 "$n_rank"); do
        ip netns add "$net-$i" &&
            ip -n "$net-$i" link add eth0 type veth peer name "port$i" netns "$net-0" &&
            ip -n "$net-0" link set "port$i" master bridge up &&
            ip -n "$net-$i" address add "10.77.0.$i/24" dev eth0 &&
            ip -n "$net-$i" link set lo up && ip -n "$net-$i" link set eth0 up &&
            ip netns exec "$net-$i" sysctl -q -w net.ipv4.tcp_congestion_control=reno &&
            tc -n "$net-$i" qdisc add dev eth0 root handle 1: htb default 1 || return 1
    done
}

limit_rate() # MBIT
{
    for i in $(seq 1 "$n_rank"); do
        tc -n "$net-$i" class replace dev eth0 parent 1: classid 1:1 htb rate "$1mbit" quantum 60000 || return 1
    done
}

# What mpirun calls instead of ssh: HOST COMMAND...
cat >"$dir/agent" <<END
#!/bin/sh
host=\$1
shift
exec ip netns exec "$net-\${host##*.}" sh -c "\$*"
END
chmod +x "$dir/agent"

hosts=$(seq -s, -f "10.77.0.%g" 1 "$n_rank")
# shellcheck disable=SC2086 # a list of options
measure() # OPTION...
{
    WEFT_MPI=$build/comm-openmpi.so ip netns exec "$net-1" mpirun.openmpi --allow-run-as-root --host "$hosts" -n "$n_rank" \
        --bind-to none --mca plm_rsh_agent "$dir/agent" --mca btl tcp,self --mca btl_tcp_if_include 10.77.0.0/24 \
        --mca oob_tcp_if_include 10.77.0.0/24 --mca btl_tcp_flags send,inplace --mca pml_ob1_send_pipeline_depth 16 \
        -x WEFT_MPI "$build/bench/ranks" $options "$@" </dev/null
}

make_network || absent "no network namespaces here"
code=0
for rate in $rates; do
    limit_rate "$rate" || absent "tc has no HTB here"
    echo "== $rate Mbit/s =="
    measure --within 0.2 || code=1
    echo "-- sums in MPI's order --"
    measure --fast | tail -n 2 || code=1
done
exit $code
