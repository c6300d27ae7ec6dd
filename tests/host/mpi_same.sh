#!/bin/sh
# mpi_same.sh NAME WEFT GOLDEN MPIRUN... - weft train leaves the same files for every number of ranks: weights, moments,
# losses and validation, byte for byte those of a process that nobody started as a rank, has one thread, and does not
# recompute. NAME is openmpi or mpich, MPIRUN its launcher and flags.
#
# Nine sequences in eight groups, so that the first group has two; dropout; a validation between steps. Both MPIs
# together have each pair of values in a row of the table. WEFT_TEST_QUICK: every other row. WEFT_TEST_LONG: all
# combinations, the rows over 200 steps, and a model of several buckets.
. "$(dirname "$0")/mpi_train.sh"
make_data

# MPI model ranks threads precision activations
table='
openmpi llama 4 2 bf16 kept
openmpi gpt2 2 1 f32 kept
openmpi gpt2 4 2 f32 again
openmpi bert 4 2 bf16 again
openmpi t5 4 2 bf16 again
openmpi t5 8 1 f32 kept
openmpi mixtral 4 2 bf16 again
openmpi mixtral 8 1 f32 kept
openmpi deepseek-v3 4 1 f32 kept
openmpi adapter 8 1 f32 kept
openmpi vit 2 2 f32 kept
openmpi vit 8 2 f32 again
mpich llama 2 1 f32 again
mpich llama 8 2 bf16 again
mpich gpt2 8 1 bf16 kept
mpich bert 2 1 f32 kept
mpich bert 8 2 f32 again
mpich t5 2 1 f32 again
mpich mixtral 2 1 f32 again
mpich deepseek-v3 2 2 bf16 again
mpich deepseek-v3 8 2 bf16 again
mpich adapter 2 1 bf16 again
mpich adapter 4 2 bf16 kept
mpich vit 4 1 bf16 again
'

batch="-b 9 --groups 8"

# trains DIRECTORY LAUNCH... : a run of `model`, from its start.
trains()
{
    out=$1
    shift
    rm -rf "$out"
    # shellcheck disable=SC2086
    "$@" $model --out "$out" >"$out.log" 2>&1 || { cat "$out.log"; return 1; }
}

# equals MODEL RANKS THREADS PRECISION ACTIVATIONS STEPS
equals()
{
    model_options "$1" "$4"
    steps="$batch -n $6 --eval-every $((($6 + 1) / 2)) --save-every $((($6 + 1) / 2))"
    one=one-$1-$4-$6
    # shellcheck disable=SC2086
    [ -d "$one" ] || trains "$one" "$weft" train $steps -t 1 || return 1
    again=
    [ "$5" = kept ] || again=--recompute
    # shellcheck disable=SC2086
    trains several on "$2" "$weft" train $steps -t "$3" $again && same_run "$one" several
}

# row MODEL RANKS THREADS PRECISION ACTIVATIONS STEPS
row()
{
    check "same: $name: $1, $2 ranks of $3 threads, $4, activations $5, $6 steps" equals "$@"
}

rows() # STEPS [of every Nth row]
{
    echo "$table" | awk -v name="$name" -v n="${2:-1}" '$1 == name && i++ % n == 0 { print $2, $3, $4, $5, $6 }' >rows
    while read -r what <&3; do
        # shellcheck disable=SC2086
        row $what "$1"
    done 3<rows
}

all_rows()
{
    for what in llama gpt2 bert t5 mixtral deepseek-v3 adapter vit; do
        for precision in f32 bf16; do
            for n_rank in 1 2 4 8; do
                row $what $n_rank 1 $precision kept 5
                row $what $n_rank 1 $precision again 5
                row $what $n_rank 2 $precision kept 5
                row $what $n_rank 2 $precision again 5
            done
        done
        rm -rf one-$what-*
    done
}

# 12.6 M weights: 193 chunks, two buckets.
buckets()
{
    model="-d text -c 8 --characters --arch gpt2 --layers 4 --width 512 --heads 4 --hidden 2048 --dropout 0.1 --sample 0"
    batch="-b 3 --accumulate 3 --groups 8 -n 2 --validation 0.01"
    # shellcheck disable=SC2086
    trains one-of-buckets "$weft" train $batch -t 2 && trains several on "$1" "$weft" train $batch -t 1 &&
        same_run one-of-buckets several
}

# Groups decide the order of sums. Without dropout they decide nothing else.
other_groups()
{
    model_options llama f32
    model="$model --dropout 0 -b 8 -n 3"
    trains one "$weft" train --groups 8 && trains two on 4 "$weft" train --groups 8 && trains three "$weft" train --groups 4 &&
        cmp one/model.safetensors two/model.safetensors && ! cmp one/model.safetensors three/model.safetensors
}

check "same: $name: another number of groups makes other bits" other_groups
row gpt2 1 1 f32 kept 5
if [ "${WEFT_TEST_LONG:-}" ]; then
    all_rows
    rows 200
    for n_rank in 2 4 8; do
        check "same: $name: two buckets, $n_rank ranks" buckets $n_rank
    done
elif [ "${WEFT_TEST_QUICK:-}" ]; then
    rows 3 2
else
    rows 5
fi
exit $n_failed
