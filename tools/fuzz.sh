#!/bin/sh
# fuzz.sh - runs every fuzz target, or measures what their inputs and the parser tests reach.
#
#   tools/fuzz.sh [SECONDS]    each target for so long (default 60)
#   tools/fuzz.sh --runs N     each target for N inputs
#   tools/fuzz.sh --coverage   branches of the parsers reached by all inputs and by the parser tests
#
# What is found is kept in build-fuzz: inputs/ grows from run to run, findings/ holds what broke. Exit status 1 on a
# finding, on fewer inputs than asked for, or on less coverage than LEAST. JOBS sets how many compilers, targets and tests
# run at once (1), TARGETS which targets there are, PATIENCE the seconds that an input may take (20). Many inputs in a short
# time: LONGEST=128 bounds their bytes, PROFILE=0 leaves out the comparison of values.
set -eu
cd "$(dirname "$0")/.."
TARGETS=${TARGETS:-safetensors gguf config model regex tokenizer session manifest shard documents metrics image idx find
    api settings resume unpack jinja request gbnf rx schema calls npy peft gguf_lora load points}
TESTS="test_gguf test_safetensors test_config test_load_faults test_parts test_convert test_save test_describe test_regex
    test_unicode test_tokenizer test_tokenizer_files test_tokenizer_gguf test_session_files test_manifest test_checkpoint
    test_shard test_data test_report test_image test_idx test_table test_points test_labelled test_classify test_marian
    test_tokenizer_limits test_tokenizer_forms test_find test_stores test_recognise test_unpack
    test_jinja test_templates test_trust test_chat test_chat_data
    test_request test_image_cost test_answer test_serve_parts test_gbnf test_rows test_constraint test_rx test_rx_parse test_schema test_calls
    test_npy test_peft test_gguf_lora test_adapt_use test_lora test_train_lora test_merge test_peft_write"
GATED="formats/gguf formats/gguf_write formats/safetensors formats/safetensors_write formats/config formats/open
    formats/index formats/shard base/save text/regex/regex text/regex/class text/regex/translate text/unicode/unicode
    text/unicode/normal text/sources/load text/sources/gguf text/sources/files text/sources/sp text/sources/hf
    text/sources/hf_fields text/sources/hf_model text/sources/hf_steps text/sources/hf_post text/encode text/bpe
    text/unigram text/wordpiece text/normalize text/split text/scan text/decode text/sources/pieces
    text/sources/pieces_sp text/charsmap text/tokenizer text/finish text/vocab text/trie text/munch text/sources/pre
    text/sources/describe text/trust text/chat text/chat_probe text/sources/chat_file engine/session_file
    formats/manifest train/checkpoint train/documents train/chat_data train/corpus
    train/corpus_open explain/metrics explain/chart explain/report formats/image formats/image_resize
    formats/image_recipe formats/idx formats/table formats/points train/labelled formats/recognise formats/stores formats/ollama
    formats/find formats/unpack formats/unpack_gzip formats/unpack_zstd
    text/jinja/attr text/jinja/cases text/jinja/chars text/jinja/constant text/jinja/cursor text/jinja/eval text/jinja/filters
    text/jinja/format text/jinja/functions text/jinja/iter text/jinja/jinja text/jinja/lex text/jinja/loop
    text/jinja/methods text/jinja/number text/jinja/ops text/jinja/parse text/jinja/parse_expr text/jinja/pieces
    text/jinja/pool text/jinja/repr text/jinja/run text/jinja/scope text/jinja/sequence text/jinja/tests
    text/jinja/text text/jinja/value server/body server/image_cost server/request server/request_values
    server/request_talk server/request_format server/grammars server/answer server/blocks server/blocks_messages
    server/blocks_responses text/calls_probe text/calls_read text/constrain/constraint text/constrain/matcher
    text/constrain/token_trie text/constrain/think text/constrain/tools text/constrain/tools_grammar
    text/constrain/gbnf text/constrain/grammar text/constrain/flatten text/constrain/fold text/constrain/rows text/constrain/dfa
    text/constrain/rx text/constrain/rx_join text/constrain/rx_derive text/constrain/rx_alive text/constrain/rx_points
    text/constrain/rx_class text/constrain/rx_anchor text/constrain/rx_parse text/constrain/schema
    text/constrain/schema_set text/constrain/schema_place text/constrain/schema_facts text/constrain/schema_decimal
    text/constrain/schema_number text/constrain/schema_string text/constrain/schema_list
    text/constrain/schema_object text/constrain/schema_value text/constrain/schema_check
    text/constrain/schema_apart text/constrain/schema_rule cli/npy
    adapt/peft adapt/peft_config adapt/peft_keys adapt/peft_match adapt/take adapt/modules adapt/gguf_lora"
SHOWN="formats/json formats/container text/text text/scratch formats/image_png formats/image_jpeg"
LEAST=90
JOBS=${JOBS:-1}
FUZZ=${FUZZ_BUILD:-build-fuzz}
COVERAGE=${COVERAGE_BUILD:-build-coverage}

build() { # PRESET DIRECTORY TARGET...
    preset=$1 directory=$2
    shift 2
    cmake --preset "$preset" -B "$directory" -DWEFT_WERROR=ON >/dev/null
    cmake --build "$directory" -j "$JOBS" --target "$@" >"$directory/build.log" 2>&1 || {
        grep -v Building "$directory/build.log"
        exit 1
    }
}

dictionary() { # TARGET
    case $1 in
    gguf | model) echo tests/fuzz/gguf.dict ;;
    regex) echo tests/fuzz/regex.dict ;;
    jinja) echo tests/fuzz/jinja.dict ;;
    gbnf) echo tests/fuzz/gbnf.dict ;;
    settings) echo tests/fuzz/settings.dict ;;
    rx) echo tests/fuzz/rx.dict ;;
    schema) echo tests/fuzz/schema.dict ;;
    npy) echo tests/fuzz/npy.dict ;;
    *) echo tests/fuzz/json.dict ;;
    esac
}

longest() { # TARGET: bytes of an input
    [ -z "${LONGEST:-}" ] || set -- LONGEST
    case $1 in
    LONGEST) echo "$LONGEST" ;;
    model | tokenizer | session) echo 16384 ;;
    regex | rx) echo 1024 ;;
    api) echo 96 ;;
    *) echo 4096 ;;
    esac
}

profile() { # TARGET: whether values that are compared guide it; a sequence of calls has no bytes to guess
    case $1 in
    api) echo 0 ;;
    *) echo "${PROFILE:-1}" ;;
    esac
}

stat_of() { # NAME LOG
    sed -n "s/^stat::$1: *//p" "$2"
}

fuzz() { # TARGET LIMIT-OPTION LEAST-INPUTS
    inputs=$FUZZ/inputs/$1 findings=$FUZZ/findings log=$FUZZ/$1.log
    mkdir -p "$inputs" "$findings"
    before=$(find "$findings" -name "$1-*" | wc -l)
    passed=1
    "$FUZZ/tests/fuzz/fuzz_$1" "$2" -max_len="$(longest "$1")" -dict="$(dictionary "$1")" \
        -use_value_profile="$(profile "$1")" -timeout="${PATIENCE:-20}" -rss_limit_mb=2048 -print_final_stats=1 \
        -artifact_prefix="$findings/$1-" \
        "$inputs" "tests/fuzz/corpus/$1" >"$log" 2>&1 || passed=0
    found=$(($(find "$findings" -name "$1-*" | wc -l) - before))
    count=$(stat_of number_of_executed_units "$log")
    printf '%-12s %10s inputs %8s exec/s %4d findings\n' "$1" "${count:-0}" "$(stat_of average_exec_per_sec "$log")" \
        "$found"
    if [ $passed = 0 ] || [ "$found" -gt 0 ]; then
        tail -40 "$log"
        return 1
    fi
    [ "${count:-0}" -ge "$3" ]
}

at_once() { # NAMES COMMAND...: the command with each name in the place of {}, JOBS at a time
    names=$1
    shift
    # shellcheck disable=SC2086
    printf '%s\n' $names | xargs -P "$JOBS" -I{} "$@" || return 1
}

fuzz_all() { # LIMIT-OPTION LEAST-INPUTS
    build fuzz "$FUZZ" fuzz_targets
    at_once "$TARGETS" sh tools/fuzz.sh --one {} "$1" "$2"
}

coverage() {
    # shellcheck disable=SC2086
    build coverage "$COVERAGE" fuzz_targets $TESTS
    rm -rf "$COVERAGE/profiles"
    LLVM_PROFILE_FILE="$(cd "$COVERAGE" && pwd)/profiles/%p.profraw"
    export LLVM_PROFILE_FILE
    at_once "$TARGETS" env "$COVERAGE/tests/fuzz/replay_{}" {} tests/fuzz/corpus/{} "$FUZZ/inputs/{}"
    # shellcheck disable=SC2016
    at_once "$TESTS" sh -c '"$1" >"$2" 2>&1 || { cat "$2"; exit 1; }' sh "$COVERAGE/tests/{}" "$COVERAGE/{}.log"
    objects=
    # shellcheck disable=SC2086
    for program in $(printf 'fuzz/replay_%s ' $TARGETS) $TESTS; do
        objects="$objects ${objects:+-object }$COVERAGE/tests/$program"
    done
    llvm-profdata merge -o "$COVERAGE/all.profdata" "$COVERAGE"/profiles/*.profraw
    sources=
    for name in $GATED $SHOWN; do
        case $name in
        cli/* | server/*) sources="$sources $name.c" ;;
        *) sources="$sources src/$name.c" ;;
        esac
    done
    # shellcheck disable=SC2086
    llvm-cov report $objects -instr-profile="$COVERAGE/all.profdata" -show-branch-summary -show-region-summary=false \
        $sources | tee "$COVERAGE/report.txt"
    awk -v least=$LEAST -v names="$GATED" '
        BEGIN {
            n = split(names, name)
            for (i = 1; i <= n; i++)
                gated[name[i] ".c"] = 1
        }
        { sub(/^.*src\//, "", $1); sub(/^.*server\//, "server/", $1); sub(/^.*cli\//, "cli/", $1) }
        $1 in gated {
            n--
            if ($NF + 0 < least) { print $1 " is below " least " %"; bad = 1 }
        }
        END { exit bad || n != 0 }' "$COVERAGE/report.txt"
}

case ${1:-60} in
--coverage) coverage ;;
--one) fuzz "$2" "$3" "$4" ;; # what fuzz_all runs at once
--runs) fuzz_all "-runs=$2" "$2" ;;
-* | *[!0-9]*) sed -n '2,9s/^# \{0,1\}//p' "$0"; exit 2 ;;
*) fuzz_all "-max_total_time=${1:-60}" 1 ;;
esac
