#!/bin/sh
# mpi_refused.sh NAME WEFT GOLDEN MPIRUN... - what weft train refuses under mpirun: no rank hangs, the exit code is not
# 0, one sentence says why, and nothing is left in the run. NAME is openmpi or mpich, MPIRUN its launcher and flags.
. "$(dirname "$0")/mpi_train.sh"
make_data
small="--characters --arch gpt2 --layers 1 --width 16 --heads 2 --hidden 32 -c 16 -b 8 -n 3 --sample 0 -t 1"

# refused RANKS MESSAGE OPTION...: the message comes once, and no checkpoint.
refused()
{
    n_rank=$1 message=$2
    shift 2
    rm -rf run
    since=$(date +%s)
    code=0
    on "$n_rank" "$weft" train "$@" --out run >said.txt 2>&1 || code=$?
    cat said.txt
    find run
    [ $code -ne 0 ] && [ $(($(date +%s) - since)) -lt 20 ] && [ "$(grep -c -e "$message" said.txt)" -eq 1 ] &&
        [ ! -e run/step-00000000 ] && [ ! -e run/start ]
}

# The second of two runs with one directory, while the first trains.
held_directory()
{
    # shellcheck disable=SC2086
    "$weft" train -d text $small --groups 4 -n 100000 --out held >held.log 2>&1 &
    first=$!
    i=0
    while ! grep -q '"step":1,' held/metrics.jsonl 2>/dev/null && [ $i -lt 1000 ]; do
        sleep 0.02
        i=$((i + 1))
    done
    code=0
    # shellcheck disable=SC2086
    on 4 "$weft" train -d text $small --groups 4 --out held --resume >said.txt 2>&1 || code=$?
    kill -9 $first
    wait $first 2>/dev/null
    cat said.txt
    [ $code -ne 0 ] && [ "$(grep -c -e 'held: ' said.txt)" -eq 1 ]
}

# Rank 1 alone has no such files, as on a machine that does not share them.
cat >rank.sh <<'END'
rank=${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-0}}
[ "$rank" = 1 ] && cd elsewhere
exec "$@"
END
mkdir -p elsewhere/adapted-f32
one_without() # MESSAGE OPTION...
{
    message=$1
    shift
    code=0
    since=$(date +%s)
    on 4 sh rank.sh "$weft" train "$@" >said.txt 2>&1 || code=$?
    cat said.txt
    [ $code -ne 0 ] && [ $(($(date +%s) - since)) -lt 20 ] && [ "$(grep -c -e "$message" said.txt)" -eq 1 ]
}

# refuses SENTENCE RANKS MESSAGE OPTION...
refuses()
{
    sentence=$1
    shift
    check "refused: $name: $sentence" refused "$@"
}

# shellcheck disable=SC2086
{
    refuses "three ranks" 3 "3 ranks; expected a power of two" -d text $small --groups 8
    refuses "more ranks than groups" 4 "4 ranks, but 2 groups a step; give --groups 4" -d text $small --groups 2
    refuses "--tensors" 2 "tensors are shown by a run of one" -d text $small --groups 2 --tensors 1
    refuses "missing data of a new model" 4 "nothing: cannot open" -d nothing $small --groups 4
    refuses "missing data of a model" 4 "nothing: cannot open" adapted-f32 -d nothing --groups 4 -c 16
    refuses "a missing model" 4 "no-model" ./no-model -d text --groups 4
    check "refused: $name: a directory that another run has" held_directory
    check "refused: $name: a model of which one rank has an empty directory" one_without "rank 1 of 4: .*adapted-f32" adapted-f32 \
        -d "$PWD/text" --groups 4 -c 16 --out "$PWD/tuned"
    "$weft" train -d text $small --groups 4 --save-every 1 --out going >going.log 2>&1
    check "refused: $name: a checkpoint that one rank does not find" one_without "rank 1 of 4: .*going" -d "$PWD/text" \
        $small --groups 4 -n 5 --out going --resume
}
exit $n_failed
