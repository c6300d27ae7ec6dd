/* weft explain - a model and a text as a page to look at: every step from tokens to probabilities,
 * with the numbers of this model. */
#include "cli.h"

#include <stdlib.h>
#include <string.h>

static const char *positional[2]; /* MODEL, TEXT */
static load_options load;

#define SHOWN_STEPS 3 /* of training: the moments of the first are only its gradients */
static prompt_options prompt;
static target_options target;
static const char *out, *only, *title, *kernels;
static int64_t layer, head, token = -1;
static int64_t threads;
static bool json, all, train;

static const option options[] = {
    OPTION_MODEL(load),
    OPTION_PROMPT(prompt),
    OPTION_FILE(prompt),
    OPTION_IDS(prompt),
    { 0, "target", OPT_TEXT, &target.text, "TEXT", RARE,
      "input of the decoder; with --train, what the model learns" },
    OPTION_TARGET_IDS(target),
    { 'o', "out", OPT_TEXT, &out, "FILE", 0, "write to FILE; - is standard output (explain.html)" },
    { 0, "layer", OPT_INT, &layer, "N", 0, "layer that the page opens with (0)" },
    { 0, "head", OPT_INT, &head, "N", 0, "head that it opens with (0)" },
    { 0, "token", OPT_INT, &token, "N", 0, "token that it opens with, from 0 (the last)" },
    { 0, "only", OPT_TEXT, &only, "VIEW,...", 0, "only these views, such as heads,output" },
    { 0, "train", OPT_FLAG, &train, NULL, 0, "show three steps of training a copy on this text" },
    { 0, "all", OPT_FLAG, &all, NULL, 0, "numbers of all layers, even if the page becomes large" },
    { 0, "kernels", OPT_TEXT, &kernels, "CSV", 0,
      "no model: kernel regression of these points, x and y" },
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
    "  weft explain model.gguf -p \"The cat sat on\" --only heads,output --json\n"
    "  weft explain marian \"Good morning.\" --target \"Guten Morgen.\"\n"
    "  weft explain vit digit.png\n"
    "  weft explain model.gguf -p \"The cat sat on\" --target \" the\" --train\n"
    "  weft explain --kernels points.csv -o kernels.html\n";

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
        fprintf(stderr, json ? "%s: written, %.1f MB\n" : "%s: %.1f MB; open it in a browser\n",
                path, (double)n / 1e6);
    return *code == 0;
}

/* The ids of the text, followed by the target. */
static int encode_both(const weft_tokenizer *t, int32_t **both, int64_t *n_both)
{
    const weft_tokenize_options o = { .struct_size = sizeof o,
                                      .parse_special = prompt.parse_special };
    const size_t n_text = strlen(prompt.text), size = n_text + strlen(target.text);
    char *whole = cli_alloc(size + 1, 1, "the target");
    if (!whole)
        return cli_no_memory();
    memcpy(whole, prompt.text, n_text);
    memcpy(whole + n_text, target.text, size - n_text + 1);
    const int code = cli_encode(&command_explain, t, whole, size, &o, both, n_both);
    cli_free(whole);
    return code;
}

/* A decoder's target is encoded after its text: what the ids of both have more than those of the
 * text. Where the text's do not begin them, as its last piece has grown, and for masks, it is
 * encoded alone. */
static int join_target(weft_model *model, const weft_tokenizer *t, const int32_t *ids, int64_t n,
                       int32_t **to, int64_t *n_to)
{
    weft_model_info info = { .struct_size = sizeof info };
    const weft_tokenize_options alone = { .struct_size = sizeof alone, .no_special = true };
    weft_model_get_info(model, &info);
    if (prompt.text && info.task == WEFT_TASK_GENERATE) {
        int32_t *both = NULL;
        int64_t n_both = 0;
        const int code = encode_both(t, &both, &n_both);
        if (code)
            return code;
        *n_to = n_both - n;
        if (*n_to > 0 && memcmp(both, ids, (size_t)n * sizeof *ids) == 0) {
            memmove(both, both + n, (size_t)*n_to * sizeof *both);
            *to = both;
            return 0;
        }
        cli_free(both);
    }
    return cli_encode(&command_explain, t, target.text, strlen(target.text), &alone, to, n_to);
}

static int read_target(weft_model *model, const weft_tokenizer *t, const int32_t *ids, int64_t n,
                       int32_t **to, int64_t *n_to)
{
    if (target.ids)
        return cli_parse_ids(&command_explain, "--target-ids", target.ids, to, n_to);
    if (target.text && !t)
        return cli_usage(&command_explain,
                         "--target: no tokenizer; give --target-ids, or --tokenizer");
    return target.text ? join_target(model, t, ids, n, to, n_to) : 0;
}

/* What a page is made of; any may be absent. */
typedef struct subject {
    weft_model *model;
    weft_model_info info;
    weft_explain_options o;
    const int32_t *ids; /* NULL: the model's own translation, or none */
    int64_t n;
} subject;

static int make_page(subject *s)
{
    const char *name = strrchr(load.path, '/');
    weft_error err = { 0 };
    int written = 0;
    s->o.title = title ? title : name && name[1] ? name + 1 : load.path;
    s->o.only = only;
    s->o.layer = layer;
    s->o.head = head;
    s->o.token = token;
    s->o.json = json;
    s->o.all = all;
    s->o.train = train ? SHOWN_STEPS : 0;
    if (weft_explain(s->model, s->ids, s->n, &s->o, write_page, &written, &err) == WEFT_OK)
        return 0;
    return written ? written : cli_fail(&err);
}

static int explain_picture(subject *s)
{
    weft_error err = { 0 };
    if (!prompt.text)
        return cli_usage(&command_explain, "%s takes images; give the path of one, digit.png",
                         load.path);
    weft_image *image = weft_image_open(s->model, prompt.text, &err);
    s->o.image = image;
    if (!option_given(option_named(&command_explain, "token", 5)))
        token = 0; /* the class token, whose last state the head reads */
    const int code = image ? make_page(s) : cli_fail(&err);
    weft_image_free(image);
    return code;
}

/* The text is what the encoder of an encoder-decoder reads, or what other models read. */
static int explain_text(subject *s)
{
    const bool pair = s->info.n_layer_src > 0;
    weft_tokenizer *t = NULL, *of_target = NULL;
    int32_t *ids = NULL, *taught = NULL;
    id_list then = { 0 };
    int64_t n = 0;
    prompt.side = pair ? WEFT_SIDE_SOURCE : WEFT_SIDE_ANY;
    int code = cli_prompt(&command_explain, &prompt, &load, &t, &ids, &n);
    if (!code && pair)
        code = cli_target(&command_explain, &target, &prompt, &load, s->info.start_id, &then,
                          &of_target);
    else if (!code)
        code = read_target(s->model, t, ids, n, &taught, &s->o.n_target);
    s->o.target = taught;
    s->o.text = pair ? target.text : prompt.text;
    s->o.tokenizer = pair ? of_target : t;
    s->o.source = pair ? ids : NULL;
    s->o.n_source = pair ? n : 0;
    s->o.source_text = pair ? prompt.text : NULL;
    s->o.source_tokenizer = pair ? t : NULL;
    const bool given = !pair || target.text || target.ids;
    s->ids = !given ? NULL : pair ? then.at : ids;
    s->n = !given ? 0 : pair ? then.n : n;
    if (!code)
        code = make_page(s);
    cli_free(ids);
    cli_free(then.at);
    cli_free(taught);
    weft_tokenizer_free(of_target);
    weft_tokenizer_free(t);
    return code;
}

static int explain(weft_model *model, int n_thread)
{
    subject s = { .model = model,
                  .info.struct_size = sizeof s.info,
                  .o = { .struct_size = sizeof s.o, .threads = n_thread } };
    weft_model_get_info(model, &s.info);
    int code = 0;
    const char *name = target.text ? "--target" : "--target-ids";
    if (!train && (target.text || target.ids) && s.info.n_layer_src == 0)
        code = cli_usage(&command_explain, "%s needs --train or an encoder-decoder", name);
    else if (target.text && !*target.text && s.info.n_layer_src == 0)
        code = cli_usage(&command_explain, "--target is empty; give a text to learn");
    else if (target.text && target.ids)
        code = cli_usage(&command_explain, "--target and --target-ids exclude each other");
    return code ? code : s.info.images ? explain_picture(&s) : explain_text(&s);
}

/* The options that --kernels has a use for. */
static bool kernels_take(const option *o)
{
    static const char *const taken[] = { "kernels", "out", "json", "title", "ram-max" };
    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++)
        if (strcmp(o->name, taken[i]) == 0)
            return true;
    return false;
}

/* Attention before there were models. */
static int explain_kernels(const command *c)
{
    weft_error err = { 0 };
    int written = 0;
    const weft_explain_kernels_options o = {
        .struct_size = sizeof o, .title = title, .json = json, .budget = cli_budget()
    };
    if (positional[0])
        return cli_usage(c, "--kernels takes no MODEL or TEXT");
    for (const option *p = option_next(c, NULL); p; p = option_next(c, p))
        if (option_given(p) && !kernels_take(p))
            return cli_usage(c, "--kernels takes no --%s", p->name);
    if (weft_explain_kernels(kernels, &o, write_page, &written, &err) != WEFT_OK)
        return written ? written : cli_fail(&err);
    return 0;
}

static int explain_main(void)
{
    const command *c = &command_explain;
    weft_error err = { 0 };
    if (kernels)
        return explain_kernels(c);
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
