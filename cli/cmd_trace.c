/* weft trace - every intermediate tensor of a forward: shapes, statistics, formulas.
 *
 * The whole prompt runs in one forward, so that every tensor is complete. The callback summarises
 * a tensor while it exists and keeps one line. */
#include "cli.h"
#include "json.h"

#include <errno.h>
#include <fnmatch.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define FIRST 8 /* numbers of a tensor that are kept */

static const char *positional[2]; /* MODEL, TEXT */
static load_options load;
static shape_options shape;
static prompt_options prompt;
static text_list only;
static const char *npy;
static bool json, maps;

static const option options[] = {
    OPTION_MODEL(load),
    OPTION_PROMPT(prompt),
    OPTION_FILE(prompt),
    OPTION_IDS(prompt),
    { 0, "only", OPT_LIST, &only, "GLOB", 0, "only tensors matching 'blk.0.*'; may be repeated" },
    { 0, "maps", OPT_FLAG, &maps, NULL, 0, "also print attention scores and probabilities" },
    { 0, "npy", OPT_TEXT, &npy, "DIR", 0, "write each tensor to DIR/NAME.npy" },
    OPTION_THREADS(shape.threads),
    OPTION_KV_TYPE(shape),
    OPTION_RAM_MAX,
    OPTION_NO_MMAP(load.no_mmap),
    OPTION_NO_PACK(load.no_pack),
    OPTION_TOKENIZER(load),
    OPTION_PRE(prompt.pre),
    OPTION_PARSE_SPECIAL(prompt.parse_special),
    OPTION_JSON(json, "print one JSON object per tensor"),
    { 0 },
};

static const char examples[] = "  weft trace models/shakespeare.gguf \"ROMEO:\"\n"
                               "  weft trace model.gguf -p \"Once upon\" --only 'blk.0.*' --maps\n"
                               "  weft trace model.gguf --ids 1,403,407 --npy tensors --json\n";

static const char about[] =
    "Rows are tokens. Attention maps are [tokens, heads, positions]: how much each token\n"
    "attends to each position. Mean, min and max ignore non-finite values. For vision\n"
    "models, TEXT is the path of an image.\n";

#define TOP 5 /* tokens that may come next */

/* ---- the line of a tensor -------------------------------------------------------------------- */

typedef struct line {
    char name[96];
    const char *op, *formula; /* of the library, which outlive the forward */
    int n_dim;
    int64_t shape[3];
    double mean, min, max;
    float first[FIRST];
    int n_first;
} line;

typedef struct seen {
    line *at;
    int64_t n, room;
    int64_t n_head;
    weft_logprob top[TOP];
    int64_t n_top;
    bool no_memory;
    char failed[4096]; /* the file that could not be written, and why */
} seen;

static bool wanted(const char *name)
{
    for (int i = 0; i < only.n; i++)
        if (fnmatch(only.at[i], name, 0) == 0)
            return true;
    return only.n == 0;
}

/* A map has a row for each head of a token: they are shown as what they are. */
static void set_shape(line *l, const weft_trace_tensor *t, int64_t n_head)
{
    const bool map = strcmp(t->op, "scores") == 0 || strcmp(t->op, "probs") == 0;
    if (map && n_head > 0 && t->rows % n_head == 0) {
        l->n_dim = 3;
        l->shape[0] = t->rows / n_head;
        l->shape[1] = n_head;
    } else {
        l->n_dim = 2;
        l->shape[0] = t->rows;
    }
    l->shape[l->n_dim - 1] = t->cols;
}

static void measure(line *l, const weft_trace_tensor *t)
{
    double sum = 0;
    int64_t n = 0;
    l->min = INFINITY;
    l->max = -INFINITY;
    for (int64_t i = 0; i < t->rows; i++)
        for (int64_t k = 0; k < t->cols; k++) {
            const float x = t->data[i * t->stride + k];
            if (l->n_first < FIRST)
                l->first[l->n_first++] = x;
            if (!isfinite(x))
                continue;
            sum += x;
            l->min = fmin(l->min, x);
            l->max = fmax(l->max, x);
            n++;
        }
    l->mean = n ? sum / (double)n : NAN;
}

/* ---- files for numpy ------------------------------------------------------------------------- */

/* Names are the library's and harmless; a file's name is made to be. */
static void npy_path(const char *name, char *path, size_t size)
{
    const size_t n = (size_t)snprintf(path, size, "%s/%s.npy", npy, name);
    const size_t from = strlen(npy) + 1, to = n < size ? n - 4 : from;
    for (size_t i = from; i < to; i++)
        if (path[i] == '/' || (path[i] == '.' && i == from))
            path[i] = '_';
}

static void npy_write(seen *s, const line *l, const weft_trace_tensor *t)
{
    char path[4096];
    npy_path(t->name, path, sizeof path);
    out_file o;
    FILE *f = s->failed[0] ? NULL : out_begin(&o, path);
    bool good = f && cli_npy_header(f, l->n_dim, l->shape);
    for (int64_t i = 0; i < t->rows && good; i++)
        good = fwrite(t->data + i * t->stride, sizeof *t->data, (size_t)t->cols, f) ==
               (size_t)t->cols;
    if (f)
        good = out_end(&o, good);
    if (!good && !s->failed[0])
        snprintf(s->failed, sizeof s->failed, "%.3000s: %s", path, strerror(errno));
}

/* ---- during the forward ---------------------------------------------------------------------- */

static void look(void *ud, const weft_trace_tensor *t)
{
    seen *s = ud;
    if (!wanted(t->name) || s->no_memory || t->rows == 0 || t->cols == 0)
        return;
    if (s->n == s->room) {
        const int64_t room = s->room ? 2 * s->room : 256;
        line *longer = cli_grow(s->at, (size_t)room * sizeof *longer, "the trace");
        s->no_memory = !longer;
        if (!longer)
            return;
        s->at = longer;
        s->room = room;
    }
    line *l = &s->at[s->n++];
    *l = (line){ .op = t->op, .formula = t->formula };
    snprintf(l->name, sizeof l->name, "%s", t->name);
    set_shape(l, t, s->n_head);
    measure(l, t);
    if (npy)
        npy_write(s, l, t);
}

/* ---- for reading ----------------------------------------------------------------------------- */

static const char *shape_text(const line *l, char *text, size_t size)
{
    int n = 0;
    for (int d = 0; d < l->n_dim; d++)
        n += snprintf(text + n, size - (size_t)n, "%s%lld", d ? "x" : "", (long long)l->shape[d]);
    return text;
}

typedef struct widths {
    int name, op, shape;
} widths;

static widths measure_columns(const seen *s)
{
    widths w = { 4, 2, 5 };
    char text[80];
    for (const line *l = s->at; l < s->at + s->n; l++) {
        const int name = (int)strlen(l->name), op = (int)strlen(l->op),
                  dims = (int)strlen(shape_text(l, text, sizeof text));
        w.name = name > w.name ? name : w.name;
        w.op = op > w.op ? op : w.op;
        w.shape = dims > w.shape ? dims : w.shape;
    }
    return w;
}

#define NUMBER 8 /* columns of a number: -0.00123 */

/* Three digits, or what of them fits. */
static void print_number(double x)
{
    char text[32];
    if (snprintf(text, sizeof text, "%.3g", x) > NUMBER)
        snprintf(text, sizeof text, "%.2g", x);
    printf(" %*s", NUMBER, text);
}

static void print_line(const line *l, const widths *w, int n_first)
{
    char text[80];
    printf("%s%-*s%s %-*s %*s", cli_style(stdout, STYLE_BOLD), w->name, l->name,
           cli_style(stdout, STYLE_PLAIN), w->op, l->op, w->shape,
           shape_text(l, text, sizeof text));
    print_number(l->mean);
    print_number(l->min);
    print_number(l->max);
    for (int i = 0; i < l->n_first && i < n_first; i++)
        print_number((double)l->first[i]);
    putchar('\n');
}

/* Each op once, in the order in which they came. */
static void print_formulas(const seen *s, int width)
{
    for (const line *l = s->at; l < s->at + s->n; l++) {
        const line *x = s->at;
        while (x < l && strcmp(x->op, l->op) != 0)
            x++;
        if (x == l)
            printf("%s%-*s%s  %s\n", cli_style(stdout, STYLE_BOLD), width, l->op,
                   cli_style(stdout, STYLE_PLAIN), l->formula);
    }
}

/* As many of the first numbers as the screen has room for, but one. */
static void print_table(const seen *s)
{
    const widths w = measure_columns(s);
    const int taken = w.name + 1 + w.op + 1 + w.shape + 3 * (NUMBER + 1);
    const int fit = (cli_columns(stdout) - taken) / (NUMBER + 1);
    const int n_first = fit < 1 ? 1 : fit > FIRST ? FIRST : fit;
    printf("%s%-*s %-*s %*s %*s %*s %*s %*s%s\n", cli_style(stdout, STYLE_PALE), w.name, "name",
           w.op, "op", w.shape, "shape", NUMBER, "mean", NUMBER, "min", NUMBER, "max", NUMBER,
           "first", cli_style(stdout, STYLE_PLAIN));
    for (const line *l = s->at; l < s->at + s->n; l++)
        print_line(l, &w, n_first);
    putchar('\n');
    print_formulas(s, w.op);
}

/* The most probable next tokens. */
static void print_top(const seen *s, const weft_tokenizer *t)
{
    fputs(s->n_top ? "\nnext" : "", stdout);
    for (int64_t i = 0; i < s->n_top; i++) {
        char bytes[64];
        printf(" %d", (int)s->top[i].id);
        const int64_t length = t ? weft_tokenizer_piece(t, s->top[i].id, bytes, sizeof bytes) : 0;
        if (length > 0 && length <= (int64_t)sizeof bytes)
            cli_print_bytes(bytes, (size_t)length);
        printf(" %.1f %%%s", 100 * exp(s->top[i].logprob), i + 1 < s->n_top ? "," : "\n");
    }
}

#define SHOWN 32 /* tokens of a prompt */

static void print_tokens(const weft_tokenizer *t, const int32_t *ids, int64_t n)
{
    fputs("tokens", stdout);
    for (int64_t i = 0; i < n && i < SHOWN; i++) {
        char bytes[64];
        printf(" %d", (int)ids[i]);
        const int64_t length = t ? weft_tokenizer_piece(t, ids[i], bytes, sizeof bytes) : 0;
        if (length > 0 && length <= (int64_t)sizeof bytes)
            cli_print_bytes(bytes, (size_t)length);
    }
    if (n > SHOWN)
        printf(" ... %lld in all", (long long)n);
    fputs("\n\n", stdout);
}

/* ---- for programs ---------------------------------------------------------------------------- */

static void json_line(const line *l)
{
    cli_json_object(NULL);
    cli_json_string("name", l->name);
    cli_json_string("op", l->op);
    cli_json_string("formula", l->formula);
    cli_json_list("shape");
    for (int d = 0; d < l->n_dim; d++)
        cli_json_int(NULL, l->shape[d]);
    cli_json_end();
    cli_json_real("mean", l->mean, 9);
    cli_json_real("min", l->min, 9);
    cli_json_real("max", l->max, 9);
    cli_json_list("first");
    for (int i = 0; i < l->n_first; i++)
        cli_json_real(NULL, (double)l->first[i], 9);
    cli_json_end();
    cli_json_end();
}

/* ---- the command ----------------------------------------------------------------------------- */

static int show(const seen *s, const weft_tokenizer *t, const int32_t *ids, int64_t n)
{
    if (s->failed[0]) {
        fprintf(stderr, "weft: %s\n", s->failed);
        return 1;
    }
    if (s->no_memory)
        return cli_no_memory();
    if (s->n == 0)
        return cli_usage(&command_trace, "--only %s: no tensor matches", only.at[0]);
    if (!json) {
        if (ids)
            print_tokens(t, ids, n);
        print_table(s);
        print_top(s, t);
        return 0;
    }
    for (const line *l = s->at; l < s->at + s->n; l++)
        json_line(l);
    return 0;
}

/* The text is what is evaluated; or, with an encoder, the source of a decoder's first token. */
static weft_status evaluate(weft_model *model, weft_session *session, const int32_t *ids, int64_t n,
                            weft_error *err)
{
    weft_model_info info = { .struct_size = sizeof info };
    weft_model_get_info(model, &info);
    if (info.n_layer_src == 0)
        return weft_session_eval(session, ids, n, err);
    const weft_status status = weft_session_source(session, ids, n, err);
    return status == WEFT_OK ? weft_session_eval(session, &info.start_id, 1, err) : status;
}

static weft_status forward(weft_model *model, const weft_engine_options *o, const int32_t *ids,
                           int64_t n, seen *s, weft_error *err)
{
    weft_engine *engine = weft_engine_new(model, o, err);
    weft_session *session = engine ? weft_session_new(engine, err) : NULL;
    weft_status status = session ? weft_engine_trace(engine, look, s, maps, err) : err->code;
    cli_progress_begin("tracing", NULL);
    if (status == WEFT_OK)
        status = evaluate(model, session, ids, n, err);
    cli_progress_end();
    if (status == WEFT_OK)
        s->n_top = weft_session_top(session, TOP, s->top);
    weft_session_free(session);
    weft_engine_free(engine);
    return status;
}

/* The same for an encoder. The trace callback sees the output too. */
static weft_status forward_whole(weft_model *model, const weft_engine_options *o, weft_input in,
                                 seen *s, weft_error *err)
{
    const weft_encoder_options e = { .struct_size = sizeof e,
                                     .threads = o->threads,
                                     .n_ctx = in.n };
    weft_encoder *encoder = weft_encoder_new(model, &e, err);
    weft_status status = encoder ? weft_encoder_trace(encoder, look, s, maps, err) : err->code;
    if (status == WEFT_OK)
        in.out = cli_zalloc((size_t)(weft_encoder_rows(encoder, &in) * weft_encoder_width(encoder)),
                            sizeof *in.out, "the output");
    s->no_memory = status == WEFT_OK && !in.out;
    if (in.out)
        status = weft_encoder_eval(encoder, &in, 1, err);
    cli_free(in.out);
    weft_encoder_free(encoder);
    return status;
}

static int trace_picture(weft_model *model, const weft_engine_options *o, seen *s)
{
    weft_error err = { 0 };
    if (!prompt.text)
        return cli_usage(&command_trace, "%s takes images; give the path of one, digit.png",
                         load.path);
    weft_image *image = weft_image_open(model, prompt.text, &err);
    if (!image)
        return cli_fail(&err);
    const weft_input in = { .features = image->features, .n = image->n };
    const weft_status status = forward_whole(model, o, in, s, &err);
    weft_image_free(image);
    return status == WEFT_OK ? show(s, NULL, NULL, 0) : cli_fail(&err);
}

static int trace_text(weft_model *model, weft_engine_options *o, weft_task task, seen *s)
{
    weft_error err = { 0 };
    weft_tokenizer *t = NULL;
    int32_t *ids = NULL;
    int64_t n = 0;
    int code = cli_check_prompt(&command_trace, &prompt);
    if (!code)
        code = cli_prompt(&command_trace, &prompt, &load, &t, &ids, &n);
    if (!code) {
        o->kv_type = WEFT_KV_F32; /* numbers as others show them, who keep no cache */
        o->n_ctx = n;
        o->n_batch = n < INT_MAX ? (int)n : INT_MAX;
        const weft_input in = { .ids = ids, .n = n };
        const weft_status status = task == WEFT_TASK_GENERATE
                                       ? forward(model, o, ids, n, s, &err)
                                       : forward_whole(model, o, in, s, &err);
        code = status == WEFT_OK ? show(s, t, ids, n) : cli_fail(&err);
    }
    cli_free(ids);
    weft_tokenizer_free(t);
    return code;
}

static int trace_main(void)
{
    const command *c = &command_trace;
    weft_engine_options o;
    weft_error err = { 0 };
    weft_model_info info = { .struct_size = sizeof info };
    load.path = positional[0] ? positional[0] : load.path;
    if (!load.path)
        return cli_which_model(c);
    int code = cli_take_prompt(c, &prompt, positional[1]);
    if (!code)
        code = cli_engine_options(c, &shape, &o);
    if (code)
        return code;
    weft_model *model = cli_open(&load, &err);
    if (!model)
        return cli_fail(&err);
    weft_model_get_info(model, &info);
    seen s = { .n_head = info.n_head };
    if (npy && mkdir(npy, 0777) != 0 && errno != EEXIST) {
        fprintf(stderr, "weft: %s: %s\n", npy, strerror(errno));
        code = 1;
    }
    if (!code)
        code = info.images ? trace_picture(model, &o, &s) : trace_text(model, &o, info.task, &s);
    cli_free(s.at);
    weft_model_close(model);
    return code;
}

const command command_trace = {
    .name = "trace",
    .arguments = "MODEL [TEXT|-]",
    .summary = "print every intermediate tensor of a forward pass",
    .examples = examples,
    .about = about,
    .options = options,
    .n_positional = 2,
    .positional = positional,
    .main = trace_main,
};
