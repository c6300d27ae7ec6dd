/* weft explain - a model and a text as a page to look at: every step from tokens to probabilities,
 * with the numbers of this model. */
#include "cli.h"

#include <stdlib.h>
#include <string.h>

static const char *positional[2]; /* MODEL, TEXT */
static load_options load;
static prompt_options prompt;
static const char *out, *only, *title;
static int64_t layer, head, token = -1;
static int64_t threads;
static bool json, all;

static const option options[] = {
    OPTION_MODEL(load),
    OPTION_PROMPT(prompt),
    OPTION_FILE(prompt),
    OPTION_IDS(prompt),
    { 'o', "out", OPT_TEXT, &out, "FILE", 0, "write to FILE; - is standard output (explain.html)" },
    { 0, "layer", OPT_INT, &layer, "N", 0, "layer that the page opens with (0)" },
    { 0, "head", OPT_INT, &head, "N", 0, "head that it opens with (0)" },
    { 0, "token", OPT_INT, &token, "N", 0, "token that it opens with, from 0 (the last)" },
    { 0, "only", OPT_TEXT, &only, "VIEW,...", 0, "only these views, such as heads,output" },
    { 0, "all", OPT_FLAG, &all, NULL, 0, "numbers of all layers, even if the page becomes large" },
    { 0, "title", OPT_TEXT, &title, "TEXT", RARE, "title of the page (the model's name)" },
    OPTION_THREADS(threads),
    OPTION_RAM_MAX,
    OPTION_NO_MMAP(load.no_mmap),
    OPTION_NO_PACK(load.no_pack),
    OPTION_COMPUTE(load),
    OPTION_TOKENIZER(load),
    OPTION_PRE(prompt.pre),
    OPTION_PARSE_SPECIAL(prompt.parse_special),
    OPTION_JSON(json, "print the numbers of the views as JSON"),
    { 0 },
};

static const char examples[] =
    "  weft explain models/shakespeare.gguf \"ROMEO: I love\" -o romeo.html\n"
    "  weft explain model.gguf -p \"The cat sat on\" --layer 3 --head 2 --token 1\n"
    "  weft explain model.gguf -p \"The cat sat on\" --only heads,output --json\n";

static bool write_page(void *ud, const char *bytes, size_t n, weft_error *err)
{
    (void)err;
    int *code = ud;
    const char *path = json && !out ? "-" : out ? out : "explain.html";
    if (strcmp(path, "-") == 0) {
        *code = fwrite(bytes, 1, n, stdout) == n ? 0 : 1;
        return *code == 0;
    }
    out_file o;
    const bool good = out_begin(&o, path) && fwrite(bytes, 1, n, o.f) == n;
    *code = out_end(&o, good) ? 0 : cli_cannot_write(path);
    if (*code == 0)
        printf("%s: %.1f MB; open it in a browser\n", path, (double)n / 1e6);
    return *code == 0;
}

static int explain(weft_model *model, int n_thread)
{
    weft_tokenizer *t = NULL;
    weft_error err = { 0 };
    int32_t *ids = NULL;
    int64_t n = 0;
    int code = cli_prompt(&command_explain, &prompt, &load, &t, &ids, &n);
    if (!code) {
        const char *name = strrchr(load.path, '/');
        const weft_explain_options o = { .struct_size = sizeof o,
                                         .title = title             ? title
                                                  : name && name[1] ? name + 1
                                                                    : load.path,
                                         .text = prompt.text,
                                         .tokenizer = t,
                                         .only = only,
                                         .layer = layer,
                                         .head = head,
                                         .token = token,
                                         .json = json,
                                         .all = all,
                                         .threads = n_thread };
        int written = 0;
        if (weft_explain(model, ids, n, &o, write_page, &written, &err) != WEFT_OK)
            code = written ? written : cli_fail(&err);
    }
    cli_free(ids);
    weft_tokenizer_free(t);
    return code;
}

static int explain_main(void)
{
    const command *c = &command_explain;
    weft_error err = { 0 };
    load.path = positional[0] ? positional[0] : load.path;
    if (!load.path)
        return cli_which_model(c);
    int code = cli_take_prompt(c, &prompt, positional[1]);
    int n_thread = 0;
    if (!code)
        code = cli_check_prompt(c, &prompt);
    if (!code)
        code = cli_threads(c, threads, &n_thread);
    if (code)
        return code;
    weft_model *model = cli_open(&load, &err);
    code = model ? explain(model, n_thread) : cli_fail(&err);
    weft_model_close(model);
    return code;
}

const command command_explain = {
    .name = "explain",
    .arguments = "MODEL [TEXT|-]",
    .summary = "make a page that shows what a model does with a text",
    .examples = examples,
    .options = options,
    .n_positional = 2,
    .positional = positional,
    .main = explain_main,
};
