# mpi_train.sh - sourced by mpi_same.sh, mpi_lost.sh and mpi_refused.sh: material and jobs for weft train under mpirun.
# They are called with NAME WEFT GOLDEN MPIRUN...: NAME is openmpi or mpich, MPIRUN its launcher and flags.
set -u
name=$1 weft=$2 golden=$3
shift 3
launcher=$*
. "$(dirname "$0")/say.sh"
unset WEFT_MPI
work=$(cd "$work" && pwd -P) && cd "$work" || exit 2

# Text, pictures of 4 x 4 that are bright or dark, and golden models with a tokenizer of characters.
make_data()
{
    awk 'BEGIN { srand(7); for (i = 0; i < 4000; i++) printf "%s ", substr("the cat sat on a mat and saw", 1 + int(rand() * 20), 6) }' >text
    printf '\0\0\10\3\0\0\0\120\0\0\0\4\0\0\0\4' >images
    printf '\0\0\10\1\0\0\0\120' >labels
    i=0
    while [ $i -lt 40 ]; do
        printf '\310\311\312\313\314\315\316\317\320\321\322\323\324\325\326\327\1\2\3\4\5\6\7\10\1\2\3\4\5\6\7\10' >>images
        printf '\1\0' >>labels
        i=$((i + 1))
    done
    speaking_model "$golden" adapted-f32
    "$weft" convert adapted-f32 adapted-bf16 --type bf16 --to hf >/dev/null
    for model in mixtral deepseek-v3; do
        cp -r "$golden/$model" $model
        cp adapted-f32/tokenizer.json $model
    done
}

# What is trained, in f32 or bf16: sets `model` to its options. New models have nine chunks of weights or more, so that
# each of eight ranks updates some.
wide="--layers 3 --width 128 --heads 2 --hidden 512 --dropout 0.1"
model_options()
{
    case $1 in
    llama | gpt2) model="-d text -c 16 --characters --arch $1 $wide" ;;
    bert) model="-d text -c 16 -v 300 --arch bert $wide" ;;
    t5) model="-d text -c 16 --characters --arch t5 $wide" ;;
    mixtral | deepseek-v3) model="$1 -d text -c 16" ;;
    adapter) model="adapted-$2 --lora r=4,dropout=0.1 -d text -c 16" ;;
    vit) model="-d images -d labels --patch-size 2 --shift 1 --arch vit $wide" ;;
    esac
    case $1.$2 in
    *.f32 | adapter.*) ;;
    *) model="$model --bf16" ;;
    esac
    model="$model --sample 0 --seed 5"
}

# Under both, mpirun has no terminal to read from. `on N COMMAND...` is a job of N ranks.
on()
{
    n=$1
    shift
    # shellcheck disable=SC2086
    timeout -k 5 300 $launcher -n "$n" "$@" </dev/null
}

# same_run A B: all files of two runs are equal, except options, which say how a run was started, and times.
same_run()
{
    for run in "$1" "$2"; do
        (cd "$run" && find . -type f ! -name options ! -name metrics.jsonl | sort) >"$run.files"
        sed 's/,"tokens_per_second":[^,}]*//; s/,"share":[^,}]*//' "$run/metrics.jsonl" >"$run.metrics"
    done
    cmp "$1.files" "$2.files" && cmp "$1.metrics" "$2.metrics" || return 1
    while read -r file; do
        cmp "$1/$file" "$2/$file" || return 1
    done <"$1.files"
}
