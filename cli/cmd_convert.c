/* weft convert - a model from a Hugging Face directory into a GGUF file, or back; with an adapter
 * merged, or an adapter instead of a model. */
#include "json.h"
#include "lora.h"

static const char *positional[2];
static const char *type, *lora, *base, *text;
static int form;
static size_t max_shard;
static load_options load;
static bool force, json;

static const option options[] = {
    { 0, "type", OPT_TEXT, &type, "TYPE", 0,
      "f32, f16, bf16; for GGUF also quantize's (unchanged)" },
    { 0, "to", OPT_CHOICE, &form, "gguf|hf", 0, "output format (the one that IN does not have)" },
    { 0, "lora", OPT_TEXT, &lora, "PATH", 0, "merge this adapter; PATH:0.5 at half strength" },
    { 0, "text", OPT_TEXT, &text, "FILE", 0, "with --lora: KL of the merged model over this text" },
    { 0, "base", OPT_TEXT, &base, "MODEL", 0, "IN is an adapter of MODEL: PEFT to GGUF, or back" },
    { 0, "max-shard-size", OPT_SIZE, &max_shard, "SIZE", 0,
      "split the output into files of at most SIZE" },
    { 'f', "force", OPT_FLAG, &force, NULL, 0, "overwrite existing files" },
    OPTION_HF,
    OPTION_NO_MMAP(load.no_mmap),
    OPTION_RAM_MAX,
    OPTION_JSON(json, "print one JSON object"),
    { 0 },
};

static const char examples[] =
    "  weft convert models/shakespeare.gguf ./shakespeare\n"
    "  weft convert ./model-directory model.gguf\n"
    "  weft convert ./model-directory . --type f16\n"
    "  weft convert ./model-directory merged.gguf --lora ./my-adapter --text text.txt\n"
    "  weft convert ./my-adapter my-adapter.gguf --base model.gguf\n";

static const char about[] =
    "An adapter is a directory with adapter_config.json, as PEFT saves it, or a GGUF file\n"
    "whose general.type is \"adapter\". It needs its model for names and shapes.\n";

/* ---- the merged model against the adapted one ------------------------------------------------- */

static bool show(void *ud, const weft_evaluation *so_far)
{
    (void)ud;
    cli_progress_set((uint64_t)so_far->n_token, (uint64_t)so_far->n_total);
    return !cli_interrupted();
}

static int print_kl(const weft_evaluation *e)
{
    if (!json) {
        printf("divergence    mean %.6f, p99 %.5f, max %.4f (over %lld tokens)\n", e->kl_mean,
               e->kl_p99, e->kl_max, (long long)e->n_token);
        printf("same top      %.2f %%\n", 100 * e->same_top);
        return 0;
    }
    cli_json_object("against_adapted");
    cli_json_int("n_token", e->n_token);
    cli_json_real("kl_mean", e->kl_mean, 9);
    cli_json_real("kl_p99", e->kl_p99, 9);
    cli_json_real("kl_max", e->kl_max, 9);
    cli_json_real("same_top", e->same_top, 9);
    cli_json_end();
    cli_json_end();
    return 0;
}

static int compare_tokens(weft_model *model, weft_model *merged, const weft_document *d)
{
    weft_error err = { 0 };
    lora_choice adapted;
    weft_evaluation result = { .struct_size = sizeof result };
    const int code = lora_open(&command_convert, lora, model, &adapted, NULL);
    if (code)
        return code;
    const weft_evaluate_options o = { .struct_size = sizeof o,
                                      .progress = show,
                                      .adapter = adapted.adapter,
                                      .strength = adapted.strength };
    cli_progress_begin("eval", "tokens");
    const weft_status status = weft_evaluate(model, merged, d, 1, &o, &result, &err);
    cli_progress_end();
    weft_adapter_close(adapted.adapter);
    if (status != WEFT_OK)
        return cli_fail(&err);
    return result.stopped ? cli_stopped() : print_kl(&result);
}

static int compare_text(const char *path, const char *written, const char *content, size_t n)
{
    weft_error err = { 0 };
    load_options other = load;
    load.path = path;
    other.path = written;
    const weft_tokenize_options how = { .struct_size = sizeof how };
    weft_model *model = cli_open(&load, &err);
    weft_model *merged = model ? cli_open(&other, &err) : NULL;
    weft_tokenizer *t = merged ? cli_tokenizer(&load, NULL, &err) : NULL;
    weft_tokens *k = t ? weft_tokenizer_encode(t, content, n, &how, &err) : NULL;
    const weft_document d = { k ? k->ids : NULL, k ? k->n : 0 };
    const int code = k ? compare_tokens(model, merged, &d) : cli_fail(&err);
    weft_tokens_free(k);
    weft_tokenizer_free(t);
    weft_model_close(merged);
    weft_model_close(model);
    return code;
}

/* The text is read before hours of work, so that its errors come first. */
static int convert_and_compare(const char *from, const char *to, weft_convert_options *o)
{
    char written[4096];
    char *content = NULL;
    size_t n = 0;
    int code = cli_read(text, CLI_MAX_TEXT, &content, &n);
    if (!code)
        code = cli_convert(from, to, o, "converting", json, written);
    if (!code)
        code = compare_text(from, written, content, n);
    cli_free(content);
    return code;
}

/* ---- the command ----------------------------------------------------------------------------- */

static int convert_main(void)
{
    const command *c = &command_convert;
    char adapter[4096];
    weft_error err = { 0 };
    weft_convert_options o = { .to = (weft_format)form,
                               .type = type,
                               .max_shard = max_shard,
                               .force = force,
                               .load = load.no_mmap ? WEFT_LOAD_COPY : WEFT_LOAD_MAP,
                               .budget = cli_budget() };
    if (!positional[0] || !positional[1])
        return cli_usage(c, positional[0]
                                ? "no output; give a .gguf file or a directory"
                                : "no input or output; give a model and where to write it");
    if (base && (type || lora || max_shard))
        return cli_usage(c, "--base excludes --type, --lora and --max-shard-size");
    if (text && !lora)
        return cli_usage(c, "--text needs --lora");
    if (lora) {
        const int code = lora_path(c, lora, adapter, sizeof adapter, &o.strength);
        if (code)
            return code;
        o.adapter = adapter;
    }
    if (base && !(o.base = cli_model_path(base, &err)))
        return cli_fail(&err);
    return text ? convert_and_compare(positional[0], positional[1], &o)
                : cli_convert(positional[0], positional[1], &o, "converting", json, NULL);
}

const command command_convert = {
    .name = "convert",
    .arguments = "IN OUT",
    .summary = "convert between Hugging Face directories and GGUF; merge adapters",
    .examples = examples,
    .about = about,
    .options = options,
    .n_positional = 2,
    .positional = positional,
    .main = convert_main,
};
