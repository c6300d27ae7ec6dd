/* weft quantize - a model, in either form, into a GGUF file of fewer bits. */
#include "cli.h"
#include "json.h"

static const char *positional[3], *importance;
static int64_t threads;
static size_t max_shard;
static load_options load;
static bool force, json, quiet, marked;

static const option options[] = {
    OPTION_THREADS(threads),
    { 0, "importance", OPT_TEXT, &importance, "TEXT", 0,
      "weigh errors by each matrix's inputs over this text" },
    { 0, "max-shard-size", OPT_SIZE, &max_shard, "SIZE", 0,
      "split the output into files of at most SIZE" },
    { 'f', "force", OPT_FLAG, &force, NULL, 0, "overwrite existing files" },
    { 'q', "quiet", OPT_FLAG, &quiet, NULL, 0, "do not print a line per tensor" },
    OPTION_HF,
    OPTION_NO_MMAP(load.no_mmap),
    OPTION_RAM_MAX,
    OPTION_JSON(json, "print one JSON object per tensor, then a summary"),
    { 0 },
};

static const char examples[] =
    "  weft quantize models/shakespeare.gguf small.gguf q4_0\n"
    "  weft quantize model.gguf model-q4.gguf q4_k_m\n"
    "  weft quantize ./model-directory . q8_0\n"
    "  weft quantize model.gguf small.gguf q3_k_m --importance text.txt\n";

static const char about[] =
    "TYPE: q4_k_m (the usual choice), q5_k_m, q6_k, q8_0 (hardly any loss), q3_k_l,\n"
    "q3_k_m, q3_k_s, q2_k (clear loss), iq4_xs, iq4_nl, q5_1, q5_0, q4_1, q4_0, mxfp4,\n"
    "mxfp4_moe, bf16, f16, f32. Vectors and norms stay f32; below q6_k the output matrix\n"
    "gets q6_k, in mxfp4 q8_0. Errors are relative to the tensor's root mean square; *\n"
    "marks a type used instead, as rows are not a multiple of the block.\n";

static void show_tensor(void *ud, const weft_converted_tensor *t)
{
    (void)ud;
    if (quiet)
        return;
    cli_progress_clear();
    if (!json) {
        marked = marked || t->instead;
        printf("%-32s %6s -> %-6s%c %7.3f bits  error %.4f\n", t->name, t->from, t->to,
               t->instead ? '*' : ' ', 8.0 * (double)t->bytes / (double)t->numbers, t->error);
        return;
    }
    cli_json_object(NULL);
    cli_json_string("tensor", t->name);
    cli_json_string("from", t->from);
    cli_json_string("to", t->to);
    cli_json_int("numbers", t->numbers);
    cli_json_int("bytes", t->bytes);
    cli_json_real("error", t->error, 6);
    cli_json_bool("instead", t->instead);
    cli_json_end();
}

static int quantize_main(void)
{
    const command *c = &command_quantize;
    if (!positional[0] || !positional[1] || !positional[2])
        return cli_usage(c, !positional[0]   ? "expected IN, OUT and TYPE"
                            : !positional[1] ? "no output; give a .gguf file or a directory"
                                             : "no type; q4_k_m is the usual choice");
    weft_convert_options o = { .to = WEFT_FORMAT_GGUF,
                               .type = positional[2],
                               .max_shard = max_shard,
                               .force = force,
                               .load = load.no_mmap ? WEFT_LOAD_COPY : WEFT_LOAD_MAP,
                               .budget = cli_budget(),
                               .converted = show_tensor,
                               .importance = importance };
    int code = cli_threads(c, threads, &o.n_thread);
    if (!code)
        code = cli_convert(positional[0], positional[1], &o, "quantising", json, NULL);
    if (!code && marked)
        puts("* another type: the rows are not a multiple of the block");
    return code;
}

const command command_quantize = {
    .name = "quantize",
    .arguments = "IN OUT TYPE",
    .summary = "quantise a model to a smaller GGUF file",
    .examples = examples,
    .about = about,
    .options = options,
    .n_positional = 3,
    .positional = positional,
    .main = quantize_main,
};
