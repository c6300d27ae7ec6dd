/* weft convert - a model from a Hugging Face directory into a GGUF file, or back. */
#include "cli.h"

static const char *positional[2];
static const char *type;
static int form;
static size_t max_shard;
static load_options load;
static bool force, json;

static const option options[] = {
    { 0, "type", OPT_TEXT, &type, "TYPE", 0,
      "f32, f16, bf16; for GGUF also quantize's (unchanged)" },
    { 0, "to", OPT_CHOICE, &form, "gguf|hf", 0, "output format (the one that IN does not have)" },
    { 0, "max-shard-size", OPT_SIZE, &max_shard, "SIZE", 0,
      "split the output into files of at most SIZE" },
    { 'f', "force", OPT_FLAG, &force, NULL, 0, "overwrite existing files" },
    OPTION_HF,
    OPTION_NO_MMAP(load.no_mmap),
    OPTION_RAM_MAX,
    OPTION_JSON(json, "print one JSON object"),
    { 0 },
};

static const char examples[] = "  weft convert models/shakespeare.gguf ./shakespeare\n"
                               "  weft convert ./model-directory model.gguf\n"
                               "  weft convert ./model-directory . --type f16\n"
                               "  weft convert model.gguf ./model-directory --max-shard-size 5G\n";

static int convert_main(void)
{
    weft_convert_options o = { .to = (weft_format)form,
                               .type = type,
                               .max_shard = max_shard,
                               .force = force,
                               .load = load.no_mmap ? WEFT_LOAD_COPY : WEFT_LOAD_MAP,
                               .budget = cli_budget() };
    if (!positional[0] || !positional[1])
        return cli_usage(&command_convert,
                         positional[0] ? "no output; give a .gguf file or a directory"
                                       : "no input or output; give a model and where to write it");
    return cli_convert(positional[0], positional[1], &o, "converting", json);
}

const command command_convert = {
    .name = "convert",
    .arguments = "IN OUT",
    .summary = "convert between Hugging Face directories and GGUF",
    .examples = examples,
    .options = options,
    .n_positional = 2,
    .positional = positional,
    .main = convert_main,
};
