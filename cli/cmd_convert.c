/* weft convert - a model from a Hugging Face directory into a GGUF file, or back. */
#include "cli.h"

#include <stdio.h>
#include <string.h>

static const char *positional[2];
static const char *type, *form;
static size_t max_shard, ram_max;
static bool force, json, no_mmap;

static const option options[] = {
    { 0, "type", OPT_TEXT, &type, "TYPE", NULL,
      "of matrices: f32, f16, bf16; in GGUF those of quantize too (as is)" },
    { 0, "to", OPT_TEXT, &form, "FORM", NULL, "gguf or hf (the one that IN is not)" },
    { 0, "max-shard-size", OPT_SIZE, &max_shard, "SIZE", NULL,
      "at most so many bytes of weights in a file" },
    { 'f', "force", OPT_FLAG, &force, NULL, NULL, "replace what is there" },
    { 0, "no-mmap", OPT_FLAG, &no_mmap, NULL, NULL, "copy the model instead of mapping it" },
    { 0, "ram-max", OPT_SIZE, &ram_max, "SIZE", "WEFT_RAM_MAX",
      "take no more memory than this (0: no cap)" },
    { 0, "json", OPT_FLAG, &json, NULL, NULL, "print one JSON object" },
    { 0 },
};

static const char examples[] = "  weft convert ./model-directory model.gguf\n"
                               "  weft convert ./model-directory . --type f16\n"
                               "  weft convert model.gguf ./model-directory --max-shard-size 5G\n";

static const char *const forms[] = { "", "gguf", "hf" };

static void print_info(const weft_convert_info *i)
{
    char size[32];
    if (!json) {
        printf("%s: %s, %lld tensors (%s), %s in %lld file%s\n", i->path, i->architecture,
               (long long)i->n_tensor, i->type, cli_bytes((size_t)i->bytes, size, sizeof size),
               (long long)i->n_file, i->n_file == 1 ? "" : "s");
        if (i->n_left_out)
            printf("%lld tensors that no model needs were left out\n", (long long)i->n_left_out);
        return;
    }
    printf("{\"path\":");
    cli_json_text(i->path, strlen(i->path));
    printf(",\"format\":\"%s\",\"architecture\":\"%s\",\"type\":\"%s\",\"n_tensor\":%lld,"
           "\"n_file\":%lld,\"n_left_out\":%lld,\"bytes\":%llu,\"bytes_peak\":%zu}\n",
           forms[i->format], i->architecture, i->type, (long long)i->n_tensor, (long long)i->n_file,
           (long long)i->n_left_out, (unsigned long long)i->bytes, i->bytes_peak);
}

static bool show_progress(void *ud, uint64_t done, uint64_t total)
{
    cli_bar_show(ud, done, total);
    return !cli_interrupted();
}

static int convert_main(void)
{
    const command *c = &command_convert;
    cli_bar bar = { .label = "converting" };
    weft_convert_options o = { .struct_size = sizeof o,
                               .type = type,
                               .max_shard = max_shard,
                               .force = force,
                               .load = no_mmap ? WEFT_LOAD_COPY : WEFT_LOAD_MAP,
                               .ram_max = ram_max,
                               .progress = show_progress,
                               .progress_ud = &bar,
                               .log = cli_log };
    if (!positional[0] || !positional[1])
        return cli_usage(c, positional[0] ? "where to? Give a .gguf file or a directory"
                                          : "which model, and where to?");
    for (int i = WEFT_FORMAT_GGUF; form && i <= WEFT_FORMAT_HF; i++)
        if (strcmp(form, forms[i]) == 0)
            o.to = (weft_format)i;
    if (form && o.to == WEFT_FORMAT_OTHER)
        return cli_usage(c, "--to: \"%s\" is neither gguf nor hf", form);
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

const command command_convert = {
    .name = "convert",
    .arguments = "IN OUT",
    .summary = "turn a Hugging Face directory into GGUF, or back",
    .examples = examples,
    .options = options,
    .n_positional = 2,
    .positional = positional,
    .main = convert_main,
};
