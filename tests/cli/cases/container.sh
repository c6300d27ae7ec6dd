# A limit of the control group is the cap where --ram-max gives none, and --ram-max has the last word, though the config file
# is read before it. Groups are played by a directory mounted over /sys/fs/cgroup, in a mount namespace of its own; where that
# is not allowed (a user without rights) nothing is tried, and the expected lines are printed as they are.
mkdir group && echo 'threads = 1' >config
in_group() { # MEMORY.MAX COMMAND...
    echo "$1" >group/memory.max
    shift
    WEFT_CONFIG=$PWD/config unshare -m sh -c 'mount --bind group /sys/fs/cgroup && exec "$@"' sh "$@" 2>&1 | sed '/tok.s/d'
}
if unshare -m mount --bind group /sys/fs/cgroup 2>/dev/null && grep -q '^0::/$' /proc/self/cgroup; then
    in_group 100000 "$WEFT" run "$GOLDEN/llama-gqa" --ids 1 -n 1
    in_group max "$WEFT" run "$GOLDEN/llama-gqa" --ids 1 -n 1
    in_group 10000000000 "$WEFT" run "$GOLDEN/llama-gqa" --ids 1 -n 1 --ram-max 100K
    in_group 100000 "$WEFT" run "$GOLDEN/llama-gqa" --ids 1 -n 1 --ram-max 1G
else
    cat "${1%.sh}.out"
fi
