/* weft quantize - a model, in either form, into a GGUF file of fewer bits. */
#include "cli.h"

#include <stdio.h>
#include <string.h>

static const char *positional[3];
static int64_t threads;
static size_t max_shard, ram_max;
static bool force, json, quiet, no_mmap;

static const option options[] = {
    { 't', "threads", OPT_INT, &threads, "N", "WEFT_THREADS", "threads (one per processor)" },
    { 0, "max-shard-size", OPT_SIZE, &max_shard, "SIZE", NULL,
      "at most so many bytes of weights in a file" },
    { 'f', "force", OPT_FLAG, &force, NULL, NULL, "replace what is there" },
    { 'q', "quiet", OPT_FLAG, &quiet, NULL, NULL, "no line for each tensor" },
    { 0, "no-mmap", OPT_FLAG, &no_mmap, NULL, NULL, "copy the model instead of mapping it" },
    { 0, "ram-max", OPT_SIZE, &ram_max, "SIZE", "WEFT_RAM_MAX",
      "take no more memory than this (0: no cap)" },
    { 0, "json", OPT_FLAG, &json, NULL, NULL, "print one JSON object for each tensor, then one" },
    { 0 },
};

static const char examples[] =
    "  weft quantize model.gguf model-q4.gguf q4_k_m\n"
    "  weft quantize ./model-directory . q8_0\n"
    "\n"
    "TYPE is q4_k_m (the usual choice), q5_k_m, q6_k, q8_0, q5_1, q5_0, q4_1, q4_0, or bf16, f16,\n"
    "f32. Vectors and norms stay f32, the matrix that makes the logits is finer than the others.\n"
    "The error of a tensor is what it loses, relative to the size of its numbers.\n";

static void show_tensor(void *ud, const weft_converted *t)
{
    cli_bar *bar = ud;
    if (quiet)
        return;
    cli_bar_end(bar);
    if (!json) {
        printf("%-32s %5s -> %-5s %8.3f bits  error %.4f%s\n", t->name, t->from, t->to,
               8.0 * (double)t->bytes / (double)t->numbers, t->error,
               t->instead ? "  (rows do not fit the type asked for)" : "");
        return;
    }
    printf("{\"tensor\":");
    cli_json_text(t->name, strlen(t->name));
    printf(",\"from\":\"%s\",\"to\":\"%s\",\"numbers\":%llu,\"bytes\":%llu,\"error\":%.6g,"
           "\"instead\":%s}\n",
           t->from, t->to, (unsigned long long)t->numbers, (unsigned long long)t->bytes, t->error,
           t->instead ? "true" : "false");
}

static bool show_progress(void *ud, uint64_t done, uint64_t total)
{
    cli_bar_show(ud, done, total);
    return !cli_interrupted();
}

static void print_info(const weft_convert_info *i)
{
    char size[32];
    if (!json) {
        printf("%s: %s, %lld tensors (%s), %s in %lld file%s\n", i->path, i->architecture,
               (long long)i->n_tensor, i->type, cli_bytes((size_t)i->bytes, size, sizeof size),
               (long long)i->n_file, i->n_file == 1 ? "" : "s");
        return;
    }
    printf("{\"path\":");
    cli_json_text(i->path, strlen(i->path));
    printf(",\"architecture\":\"%s\",\"type\":\"%s\",\"n_tensor\":%lld,\"n_file\":%lld,"
           "\"bytes\":%llu,\"bytes_peak\":%zu}\n",
           i->architecture, i->type, (long long)i->n_tensor, (long long)i->n_file,
           (unsigned long long)i->bytes, i->bytes_peak);
}

static int quantize_main(void)
{
    const command *c = &command_quantize;
    cli_bar bar = { .label = "quantising" };
    if (!positional[0] || !positional[1] || !positional[2])
        return cli_usage(c, !positional[0]   ? "which model, where to, and which type?"
                            : !positional[1] ? "where to? Give a .gguf file or a directory"
                                             : "which type? q4_k_m is the usual choice");
    if (threads < 0 || threads > 1024)
        return cli_usage(c, "--threads: %lld is outside 1 to 1024", (long long)threads);
    const weft_convert_options o = { .struct_size = sizeof o,
                                     .to = WEFT_FORMAT_GGUF,
                                     .type = positional[2],
                                     .max_shard = max_shard,
                                     .force = force,
                                     .load = no_mmap ? WEFT_LOAD_COPY : WEFT_LOAD_MAP,
                                     .ram_max = ram_max,
                                     .n_thread = (int)threads,
                                     .progress = show_progress,
                                     .progress_ud = &bar,
                                     .converted = show_tensor,
                                     .converted_ud = &bar,
                                     .log = cli_log };
    weft_convert_info info = { .struct_size = sizeof info };
    weft_error err = { 0 };
    cli_catch_interrupt();
    const weft_status status = weft_convert(positional[0], positional[1], &o, &info, &err);
    cli_bar_end(&bar);
    if (status == WEFT_ESTOPPED)
        return EXIT_INTERRUPTED;
    if (status != WEFT_OK)
        return cli_fail(&err);
    print_info(&info);
    return 0;
}

const command command_quantize = {
    .name = "quantize",
    .arguments = "IN OUT TYPE",
    .summary = "make a model smaller: GGUF of fewer bits",
    .examples = examples,
    .options = options,
    .n_positional = 3,
    .positional = positional,
    .main = quantize_main,
};
