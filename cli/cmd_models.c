/* weft models - what other programs have downloaded and weft can open, by its names. */
#include "cli.h"
#include "json.h"

#include <stdlib.h>
#include <string.h>

static bool json;

static const option options[] = {
    OPTION_JSON(json, "print one JSON object per model"),
    OPTION_RAM_MAX,
    { 0 },
};

static const char about[] =
    "Searches the directories in $WEFT_MODELS (separated by colons), the caches of\n"
    "Hugging Face and llama.cpp, and Ollama's store. Every command that takes a MODEL\n"
    "accepts these names. Models that cannot be opened are listed on standard error.\n";

typedef struct tally {
    int64_t n, n_broken;
} tally;

static void print_model(const weft_model_entry *f, const weft_model_info *i)
{
    char size[32];
    if (!json) {
        printf("%-48s %-12s %10s  %s\n", f->name, i->architecture,
               cli_bytes(i->bytes_mapped, size, sizeof size), f->store);
        return;
    }
    cli_json_object(NULL);
    cli_json_string("name", f->name);
    cli_json_string("architecture", i->architecture);
    cli_json_string("format", i->format);
    cli_json_int("bytes", (int64_t)i->bytes_mapped);
    cli_json_int("n_parameter", i->n_parameter);
    cli_json_string("store", f->store);
    cli_json_string("path", f->path);
    cli_json_end();
}

/* Mapped, as a list has no use for the weights themselves. */
static bool show(void *ud, const weft_model_entry *f)
{
    tally *t = ud;
    weft_error err = { 0 };
    weft_model_info i = { .struct_size = sizeof i };
    const weft_model_options o = {
        .struct_size = sizeof o, .load = WEFT_LOAD_MAP, .no_pack = true, .budget = cli_budget()
    };
    weft_model *m = f->path ? weft_model_open(f->path, &o, &err) : NULL;
    if (m) {
        weft_model_get_info(m, &i);
        print_model(f, &i);
        t->n++;
    } else {
        fprintf(stderr, "weft: %s (%s): %s\n", f->name, f->store,
                f->problem ? f->problem : err.message);
        t->n_broken++;
    }
    weft_model_close(m);
    return !cli_interrupted();
}

static void add_place(void *ud, const char *place, const char *path, const char *result)
{
    (void)ud;
    cli_detail("  %-19s %s: %s\n", place, path, result);
}

static int models_main(void)
{
    weft_error err = { 0 };
    tally t = { 0 };
    const weft_find_options o = { .struct_size = sizeof o,
                                  .budget = cli_budget(),
                                  .searched = add_place };
    cli_catch_interrupt();
    const weft_status status = weft_model_list(show, &t, &o, &err);
    if (status == WEFT_ESTOPPED)
        return cli_stopped();
    if (status != WEFT_OK)
        return cli_fail(&err);
    if (t.n + t.n_broken > 0)
        return 0;
    fputs("weft: no models found; searched\n", stderr);
    cli_print_details();
    return 0;
}

const command command_models = {
    .name = "models",
    .arguments = "",
    .summary = "list models downloaded by other programs",
    .examples = "  weft models\n"
                "  WEFT_MODELS=$HOME/models weft models --json\n",
    .about = about,
    .options = options,
    .main = models_main,
};
