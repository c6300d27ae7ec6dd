#!/bin/sh
# mpi_lost.sh NAME WEFT GOLDEN MPIRUN... - weft train under mpirun, one of whose ranks is killed or stopped: the job ends
# in seconds, and any number of ranks resumes from the newest checkpoint, with the bits of a run that nothing happened to.
# NAME is openmpi or mpich, MPIRUN its launcher and flags. KILL_LIBRARY in the environment is kill_at.c,
# compiled: with it rank 0 is killed before and after its system calls that touch the run.
#
# WEFT_TEST_QUICK: fewer kills. WEFT_TEST_LONG: more of them, and all system calls.
. "$(dirname "$0")/mpi_train.sh"
make_data

if [ "${WEFT_TEST_LONG:-}" ]; then
    moments="1 2 3 5 8 10" n_call=all
elif [ "${WEFT_TEST_QUICK:-}" ]; then
    moments=3 n_call=2
else
    moments=5 n_call=4
fi

# Each rank leaves its process number. Rank 0 may have a library loaded before others.
cat >rank.sh <<'END'
rank=${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-0}}
[ "$rank" = 0 ] && [ "${KILL_DIR:-}" ] && LD_PRELOAD=$KILL_LIBRARY && export LD_PRELOAD
echo $$ >pid.new.$rank && mv pid.new.$rank pid.$rank
exec "$@"
END

model_options gpt2 f32
train="$model -b 8 --groups 4 -n 12 --save-every 2 --eval-every 6 -t 1" last=12

now() { echo $(($(date +%s%N) / 1000000)); } # ms

# begins RANKS OPTION...: a job in the background, whose launcher is $job.
begins()
{
    n_rank=$1
    shift
    rm -f pid.*
    # shellcheck disable=SC2086
    timeout -k 5 120 $launcher -n "$n_rank" sh rank.sh "$weft" train $train "$@" --out run </dev/null >job.log 2>&1 &
    job=$!
}

# ends: waits for the job; sets its code, and ms since `since`.
ends()
{
    code=0
    wait "$job" || code=$?
    took=$(($(now) - since))
}

# reaches STEP: waits until the run's log has it, or the job is over.
reaches()
{
    while ! grep -q "\"step\":$1," run/metrics.jsonl 2>/dev/null; do
        kill -0 "$job" 2>/dev/null || return 1
        sleep 0.01
    done
}

# is_left RANK: its process is there, and not one that came after it with the same number.
is_left()
{
    tr '\0' ' ' 2>/dev/null <"/proc/$(cat "pid.$1")/cmdline" | grep -q 'train.*--out run'
}

# No rank is left, whatever it was: nothing of ours runs on, stopped or not. The launcher may end just before the ranks.
none_left()
{
    i=0
    while [ $i -lt "$n_rank" ]; do
        until=$(($(now) + 3000))
        while is_left $i; do
            [ "$(now)" -gt "$until" ] && { echo "rank $i is still there"; kill -9 "$(cat pid.$i)"; return 1; }
            sleep 0.02
        done
        i=$((i + 1))
    done
}

# resumes RANKS: goes on to the end, with the bits of `whole`. A checkpoint beside half of one is step-N-2.
resumes()
{
    # shellcheck disable=SC2086
    on "$1" "$weft" train $train --out run --resume >resumed.log 2>&1 || { cat job.log resumed.log; return 1; }
    newest=$(find run -name manifest.json -path "*/step-000000$last*")
    for file in model.safetensors state.weft manifest.json; do
        cmp "whole/step-000000$last/$file" "${newest%/*}/$file" || return 1
    done
    cmp whole/model.safetensors run/model.safetensors
}

# The run that nothing happens to, of $train and $last steps.
whole()
{
    rm -rf whole
    # shellcheck disable=SC2086
    "$weft" train $train --out whole >whole.log 2>&1 || cat whole.log
}

# ---- a rank is killed ----

# signals RANK STEP SIGNAL OPTION...: a job of 4 whose rank gets a signal after a step; one that was over before that on a
# busy machine is begun again.
signals()
{
    rank_of_it=$1 after=$2 signal=$3
    shift 3
    for try in 1 2 3; do
        rm -rf run
        begins 4 "$@"
        reaches "$after" || { cat job.log; return 1; }
        kill "$signal" "$(cat "pid.$rank_of_it")" && since=$(now) && ends && [ $code -ne 0 ] && return 0
        echo "try $try: the job was over before rank $rank_of_it got $signal"
    done
    return 1
}

killed_after() # RANK STEP
{
    signals "$1" "$2" -9 || return 1
    echo "lost: $name: rank $1 of 4 killed after step $2: the job ended in $took ms with code $code" >>times
    [ $code -ne 0 ] && [ $took -lt 10000 ] && none_left
}

whole
: >times
again=1
for rank in 0 1 3; do
    for step in $moments; do
        check "lost: $name: rank $rank of 4 killed after step $step" killed_after $rank "$step"
        check "lost: $name: $again ranks go on to the same bits" resumes $again
        again=$((again < 4 ? again * 2 : 1))
    done
done

# ---- a rank is stopped ----

# The others wait ten times the limit for rank 0 while it writes a file or a report, so 20 s are right too.
stopped_after() # RANK STEP
{
    signals "$1" "$2" -STOP --rank-limit 2 || return 1
    echo "lost: $name: rank $1 of 4 stopped after step $2: the job ended in $took ms with code $code" >>times
    good=0
    none_left || good=1
    [ $code -eq 75 ] && [ $took -lt "$3" ] && grep -E "no message from or to rank $1 for 20? s" job.log || good=1
    [ $good -eq 0 ] || cat job.log
    return $good
}

check "lost: $name: rank 1 is stopped, and the others name it" stopped_after 1 2 15000
check "lost: $name: 2 ranks go on to the same bits" resumes 2
check "lost: $name: rank 0 is stopped, and the others name it" stopped_after 0 2 30000
check "lost: $name: 4 ranks go on to the same bits" resumes 4
if [ "${WEFT_TEST_LONG:-}" ]; then
    for rank in 2 3; do
        check "lost: $name: rank $rank is stopped, and the others name it" stopped_after $rank 5 15000
        check "lost: $name: 1 rank goes on to the same bits" resumes 1
    done
fi

# ---- rank 0 is killed at a system call ----

# The run from its start to its end: a new model, checkpoints of steps 0 to 2, of which the first is removed.
killed_at() # EDGE
{
    rm -rf run count
    KILL_AT=$1
    begins 2
    since=$(now)
    ends
    longest=$((took > longest ? took : longest))
    [ $code -ne 0 ] && [ "$(cat count)" -eq "$1" ] && [ $took -lt 20000 ] && none_left || { cat job.log; return 1; }
    resumes "$again" || return 1
    again=$((again < 4 ? again * 2 : 1))
}

edges() # as many of them as asked for
{
    longest=0 again=1 edge=$first
    while [ $edge -le "$n_edge" ]; do
        killed_at $edge || { echo "at edge $edge"; return 1; }
        edge=$((edge + step))
    done
    echo "lost: $name: rank 0 of 2 killed at $n_call of $n_edge edges of system calls: a job took at most $longest ms" >>times
}

if [ "${KILL_LIBRARY:-}" ]; then
    train="$model -b 4 --groups 4 -n 2 --save-every 1 -t 1" last=02
    whole
    KILL_DIR=$PWD/run KILL_COUNT=$PWD/count
    export KILL_DIR KILL_COUNT KILL_AT
    rm -rf run
    KILL_AT=0
    begins 2
    since=$(now)
    ends
    n_edge=$(cat count)
    check "lost: $name: the system calls of a run are counted" [ "${n_edge:=0}" -gt 100 ]
    [ $n_call != all ] || n_call=$n_edge
    step=$((n_edge / n_call)) first=$(((step + 1) / 2))
    check "lost: $name: rank 0 killed at $n_call of $n_edge edges of system calls, any number of ranks goes on" edges
else
    skip "lost: $name: rank 0 killed at system calls" "no library to preload"
fi
cat times
exit $n_failed
