#!/bin/sh
# mpi_lost.sh NAME WEFT GOLDEN MPIRUN... - weft train under mpirun, one of whose ranks is killed or stopped: the job ends
# in seconds, and any number of ranks goes on from the newest checkpoint to the bits of a run that nothing happened to.
# NAME is openmpi or mpich, MPIRUN its launcher and flags. KILL_AT in the environment is kill_at.c, compiled: with it
# rank 0 is killed before and after its system calls that touch the run.
#
# WEFT_TEST_QUICK: fewer kills. WEFT_TEST_LONG: more of them, and all system calls.
. "$(dirname "$0")/mpi_train.sh"
make_data

if [ "${WEFT_TEST_LONG:-}" ]; then
    moments="1 2 3 5 8 10" n_call=all
elif [ "${WEFT_TEST_QUICK:-}" ]; then
    moments=3 n_call=2
else
    moments="1 6" n_call=6
fi

# Each rank leaves its process number. Rank 0 may have a library loaded before others.
cat >rank.sh <<'END'
rank=${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-0}}
[ "$rank" = 0 ] && [ "${KILL_DIR:-}" ] && LD_PRELOAD=$KILL_AT && export LD_PRELOAD
echo $$ >pid.new.$rank && mv pid.new.$rank pid.$rank
exec "$@"
END

model_options gpt2 f32
train="$model -b 8 --groups 4 -n 12 --save-every 2 --eval-every 6 -t 1"

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

# No rank is left, whatever it was: nothing of ours runs on, stopped or not.
none_left()
{
    i=0
    while [ $i -lt "$n_rank" ]; do
        pid=$(cat pid.$i)
        if tr '\0' ' ' 2>/dev/null <"/proc/$pid/cmdline" | grep -q 'train.*--out run'; then
            echo "rank $i is still there:"
            cat "/proc/$pid/status"
            kill -9 "$pid"
            return 1
        fi
        i=$((i + 1))
    done
}

# resumes RANKS: goes on to the end, with the bits of `whole`.
resumes()
{
    # shellcheck disable=SC2086
    on "$1" "$weft" train $train --out run --resume >resumed.log 2>&1 || { cat job.log resumed.log; return 1; }
    for file in model.safetensors step-00000012/state.weft step-00000012/manifest.json; do
        cmp whole/$file run/$file || return 1
    done
}

# ---- a rank is killed ----

killed_after() # RANK STEP
{
    rm -rf run
    begins 4
    reaches "$2" || { cat job.log; return 1; }
    kill -9 "$(cat "pid.$1")" || return 1
    since=$(now)
    ends
    echo "lost: $name: rank $1 of 4 killed after step $2: the job ended in $took ms with code $code" >>times
    [ $code -ne 0 ] && [ $took -lt 10000 ] && none_left
}

# shellcheck disable=SC2086
"$weft" train $train --out whole >whole.log 2>&1 || cat whole.log
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

stopped_after() # RANK STEP
{
    rm -rf run
    begins 4 --rank-limit 2
    reaches "$2" || { cat job.log; return 1; }
    stopped=$(cat "pid.$1")
    kill -STOP "$stopped" || return 1
    since=$(now)
    ends
    echo "lost: $name: rank $1 of 4 stopped after step $2: the job ended in $took ms with code $code" >>times
    good=0
    none_left || good=1
    [ $code -eq 75 ] && [ $took -lt "$3" ] && grep "no message from or to rank $1 for 2 s" job.log || good=1
    [ $good -eq 0 ] || cat job.log
    return $good
}

check "lost: $name: rank 1 is stopped, and the others name it" stopped_after 1 2 15000
check "lost: $name: 2 ranks go on to the same bits" resumes 2
check "lost: $name: rank 0 is stopped, and the others name it" stopped_after 0 2 30000
check "lost: $name: 4 ranks go on to the same bits" resumes 4
cat times
exit $n_failed
