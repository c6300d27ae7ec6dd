# smoke.sh SOURCE RANDOM_MODEL BENCH_DIR - runs every bench once on tiny inputs, and checks that wrong command lines are refused.
set -u
source=$1
random_model=$2
bench=$3
. "$source/tests/host/say.sh"

# refused WORD COMMAND...: ends with 2 and says WORD on stderr.
refused()
{
    word=$1
    shift
    "$@" >"$work/out" 2>"$work/err"
    code=$?
    cat "$work/err"
    [ $code -eq 2 ] && grep -q -e "$word" "$work/err"
}

# objects COMMAND...: every line it prints is a JSON object.
objects()
{
    "$@" >"$work/json" || return 1
    cat "$work/json"
    [ -s "$work/json" ] && ! grep -v '^{".*}$' "$work/json"
}

fails() { ! "$@"; }

model=$work/model.gguf
check "random_model: sizes make a model" "$random_model" --layers 2 --width 64 --hidden 128 --heads 4 --kv-heads 2 \
    --vocab 200 --context 64 --type q8_0 "$model"
check "random_model: a named shape can be changed" "$random_model" --shape 124m --layers 1 --width 48 --hidden 64 \
    --vocab 100 --context 32 --type f16 "$work/gpt2.gguf"
check "random_model: a size that is missing is named" refused "--width is missing" "$random_model" --layers 2 "$model.x"
check "random_model: an unknown type is refused" refused '--type is "q9"' \
    "$random_model" --shape 1b --type q9 "$model.x"
check "random_model: an unknown shape is refused" refused 'expected 1b' "$random_model" --shape 2b "$model.x"
check "random_model: an unknown option is refused" refused "unknown option --depth" "$random_model" --depth 3 "$model.x"
check "random_model: a size out of range is refused" refused "expected 1 to" "$random_model" --layers 0 "$model.x"
check "random_model: no file name is refused" refused "expected FILE" "$random_model" --shape 1b
check "random_model: what was refused left no file" test ! -e "$model.x"

check "generate: runs" "$bench/generate" "$model" --smoke --prompt 8 --generate 2 --repeat 1 --by-op
check "generate: prints JSON" objects "$bench/generate" "$model" --smoke --prompt 8 --generate 2 --repeat 1 --json
check "generate: a missing file fails" sh -c "! '$bench/generate' '$work/none'"
check "open: runs, warm and cold" sh -c "'$bench/open' '$model' --repeat 1 && '$bench/open' '$model' --repeat 1 --cold"
check "open: prints JSON" objects "$bench/open" "$model" --repeat 1 --json
check "predict: runs" "$bench/predict" "$model" --smoke --threads 1 --repeat 1
check "predict: prints JSON" objects "$bench/predict" "$work/gpt2.gguf" --smoke --threads 1 --repeat 1 --json
check "train_step: runs" "$bench/train_step" --model "$work/gpt2.gguf" --smoke --sequences 2 --tokens 8 --repeat 1
check "train_step: prints JSON" objects "$bench/train_step" --model "$model" --smoke --sequences 1 --tokens 8 \
    --repeat 1 --recompute --json
check "train_step: runs in bf16" "$bench/train_step" --model "$work/gpt2.gguf" --type bf16 --smoke --sequences 2 \
    --tokens 8 --repeat 1
check "train_step: trains an adapter with gains" "$bench/train_step" --model "$work/gpt2.gguf" --rank 2 --dora --smoke \
    --sequences 2 --tokens 8 --repeat 1
check "train_step: gains without a rank are refused" refused "add --rank" "$bench/train_step" --dora
check "train_step: an unknown type is refused" refused "expected f32 or bf16" "$bench/train_step" --type f8
check "train_step: more tokens than positions are refused" refused "has 32 positions" \
    "$bench/train_step" --model "$work/gpt2.gguf" --tokens 33
check "matmul: runs and prints JSON" objects "$bench/matmul" --smoke --width 256 --repeat 1 --json
check "ops: runs" "$bench/ops" --smoke --rows 4 --width 64 --repeat 1
check "ops: prints JSON" objects "$bench/ops" --smoke --rows 4 --width 64 --repeat 1 --json
check "attention: runs" "$bench/attention" --smoke --most 64 --heads 4 --kv-heads 2 --repeat 1
check "load: a missing server fails" sh -c "! '$bench/load' 127.0.0.1:9 --requests 1"
check "load: a wrong mix is refused" refused "numbers of tokens with weights" "$bench/load" 127.0.0.1:9 --prompts 64:0
check "load: a wrong address is refused" refused "expected one as" "$bench/load" nowhere
check "attention: prints JSON" objects "$bench/attention" --smoke --most 64 --heads 4 --kv-heads 1 --repeat 1 --json
check "sample: runs" "$bench/sample" --smoke --vocab 1000 --history 10 --repeat 1
check "sample: prints JSON" objects "$bench/sample" --smoke --vocab 1000 --history 10 --repeat 1 --json
check "embed: runs" "$bench/embed" "$source/tests/golden/bert" --smoke --length 8 --texts 3 --repeat 1
check "embed: prints JSON" objects "$bench/embed" "$source/tests/golden/bert" --smoke --length 8 --texts 3 --repeat 1 --json
check "embed: a text that is too long fails" sh -c "! '$bench/embed' '$source/tests/golden/bert' --smoke --length 30"
check "step: runs" "$bench/step" "$model" --longest 16 --rows 4 --repeat 1
check "step: prints JSON" objects "$bench/step" "$model" --longest 16 --rows 4 --repeat 1 --json
check "step: a type that is not cached in is refused" refused "does not cache in" "$bench/step" "$model" --kv q4_9
record=$work/record trace=$work/trace
awk 'BEGIN { print "# made up"; for (i = 0; i < 300; i++) { r = 1 + i * 37 % 200
    printf "step %d %d %d %d %.6f %s\n", r, 1 + i % 16, 100 * (i % 5), 200 * (i % 3), (0.005 + 0.0005 * r) * (1 + i * 7 % 11 / 50), i % 9 ? 0.0001 : -1 } }' \
    >"$record"
for mix in short shared chat; do
    check "trace: writes $mix" sh -c "'$bench/trace' --mix $mix --rate 8 --requests 50 >'$trace' && [ \$(grep -vc '^#' '$trace') = 50 ]"
    check "simulate: runs $mix" "$bench/simulate" "$trace" --steps "$record"
done
check "trace: an unknown mix is refused" refused "expected short" "$bench/trace" --mix long
check "simulate: prints JSON" objects "$bench/simulate" "$trace" --steps "$record" --repeat 2 --compare "$record" --json
check "simulate: the same bytes twice" sh -c "
    '$bench/simulate' '$trace' --steps '$record' --write-steps '$work/a' --json >'$work/b'
    '$bench/simulate' '$trace' --steps '$record' --write-steps '$work/c' --json | cmp - '$work/b' && cmp '$work/a' '$work/c'"
check "simulate: another seed, other bytes" sh -c "
    ! '$bench/simulate' '$trace' --steps '$record' --seed 2 --json | cmp -s - '$work/b'"
check "simulate: its own steps are a record" "$bench/simulate" "$trace" --steps "$work/a"
check "simulate: without a record it is refused" refused "no --steps" "$bench/simulate" "$trace"
check "context: runs" "$bench/context" "$model" --smoke --longest 64 --generate 2 --r2 0
check "context: prints JSON" objects "$bench/context" "$model" --smoke --longest 64 --generate 2 --r2 0 --json
check "context: a line that is not straight enough fails" sh -c "
    '$bench/context' '$model' --smoke --longest 64 --generate 2 --r2 1.1 2>&1 >/dev/null | grep 'not linear in the length'"
check "context: a type that is not cached in is refused" refused "does not cache in" \
    "$bench/context" "$model" --kv q4_9
check "heads: runs" "$bench/heads" --heads 4 --d-head 8 --layers 1 --longest 64 --generate 2
check "heads: prints JSON" objects "$bench/heads" --heads 4 --d-head 8 --layers 1 --longest 64 --generate 2 --json
check "heads: too few heads for groups are refused" refused "expected 4 to" "$bench/heads" --heads 2
# ranks_of N OPTION...: bench/ranks in a job of N ranks.
ranks_of()
{
    n=$1
    shift
    WEFT_MPI=$bench/../comm-openmpi.so timeout 60 mpirun.openmpi --allow-run-as-root --oversubscribe --bind-to none -n "$n" \
        "$bench/ranks" --layers 1 --width 64 --vocab 64 --tokens 8 --steps 1 "$@" </dev/null
}
check "ranks: runs alone" "$bench/ranks" --layers 1 --width 64 --vocab 64 --tokens 8 --steps 1
check "ranks: a forecast of sums that have none is refused" refused "have no forecast" "$bench/ranks" --fast --within 0.2
check "ranks: a width that heads do not divide is refused" refused "a multiple of 64" "$bench/ranks" --width 100
if command -v mpirun.openmpi >/dev/null 2>&1 && [ -e "$bench/../comm-openmpi.so" ]; then
    check "ranks: two print JSON" objects ranks_of 2 --json
    check "ranks: two sum in the order of MPI" ranks_of 2 --fast
    check "ranks: an exchange far from its forecast fails" fails ranks_of 2 --within 0.00001
fi
if command -v python3 >/dev/null 2>&1; then
    check "versus: a missing peer is reported" sh -c "
        python3 '$source/bench/versus.py' llama --weft '$bench/generate' --prompt 8 --generate 2 --model '$model' \
            --peer '$work/none' 2>&1 | grep -q 'No such file'"
else
    skip "versus: a missing peer is reported" "no python3"
fi
exit $n_failed
