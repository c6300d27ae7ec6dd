/* texts.c - reads texts for encoders, one per line, and tokenizes them. */
#include "texts.h"

#include "json.h"

#include <stdlib.h>
#include <string.h>

/* ---- lines ----------------------------------------------------------------------------------- */

static int64_t count_lines(const char *text, size_t n)
{
    int64_t lines = n > 0 && text[n - 1] != '\n';
    for (size_t i = 0; i < n; i++)
        lines += text[i] == '\n';
    return lines;
}

/* Cuts what was read into lines; "\r\n" ends one too. */
static bool cut(texts *t, size_t n)
{
    const bool one = !t->read_from;
    t->n = one ? 1 : count_lines(t->text, n);
    t->line = cli_zalloc((size_t)t->n + 1, sizeof *t->line, "lines");
    if (!t->line)
        return false;
    size_t from = 0;
    for (int64_t i = 0; i < t->n; i++) {
        const char *end = one ? NULL : memchr(t->text + from, '\n', n - from);
        const size_t to = end ? (size_t)(end - t->text) : n;
        const bool cr = end && to > from && t->text[to - 1] == '\r';
        t->line[i] = (text_line){ t->text + from, to - from - cr };
        from = to + 1;
    }
    return true;
}

static int read_lines(texts *t, const command *c, const text_options *o, const char *given)
{
    size_t n = 0;
    if (given && o->file)
        return cli_usage(c, "both a text and --file; give one of them");
    if (!given && !o->file && !cli_is_piped())
        return cli_usage(c, "no text; give it, or - for lines of standard input");
    t->read_from = o->file ? o->file : !given || strcmp(given, "-") == 0 ? "-" : NULL;
    if (t->read_from) {
        const int code = cli_read(t->read_from, CLI_MAX_TEXT, &t->text, &n);
        if (code)
            return code;
        if (n == 0)
            return cli_usage(c, "%s is empty; expected text",
                             strcmp(t->read_from, "-") == 0 ? "standard input" : t->read_from);
    } else {
        n = strlen(given);
        t->text = cli_alloc(n + 1, 1, "the text");
        if (t->text)
            memcpy(t->text, given, n + 1);
    }
    return t->text && cut(t, n) ? 0 : cli_no_memory();
}

/* ---- tokens ---------------------------------------------------------------------------------- */

/* The special tokens that a text ends with stay; those before them that are too many go. */
static void shorten(const texts *t, weft_tokens *k, int64_t most)
{
    int64_t tail = 0;
    while (tail < k->n && weft_tokenizer_is_special(t->tokenizer, k->ids[k->n - 1 - tail]))
        tail++;
    if (tail > most)
        tail = most;
    memmove((int32_t *)k->ids + most - tail, k->ids + k->n - tail, (size_t)tail * sizeof *k->ids);
    k->n = most;
}

weft_tokens *texts_encode(const texts *t, int64_t i, const text_options *o, weft_error *err)
{
    const text_line *l = &t->line[i];
    const char *tab = o->pairs ? memchr(l->at, '\t', l->n) : NULL;
    const size_t first = tab ? (size_t)(tab - l->at) : l->n;
    const weft_tokenize_options e = { .struct_size = sizeof e,
                                      .parse_special = o->parse_special,
                                      .pair = tab ? tab + 1 : NULL,
                                      .pair_length = tab ? l->n - first - 1 : 0 };
    weft_tokens *k = weft_tokenizer_encode(t->tokenizer, l->at, first, &e, err);
    if (!k)
        return NULL;
    const int64_t most = t->n_ctx;
    if (k->n > most && o->truncate)
        shorten(t, k, most);
    if (k->n >= 1 && k->n <= most)
        return k;
    *err = (weft_error){ .code = WEFT_EFORMAT };
    const long long number = (long long)(i + 1 - t->n_before);
    if (k->n)
        snprintf(err->message, sizeof err->message,
                 "line %lld has %lld tokens; the model's context is %lld%s", number,
                 (long long)k->n, (long long)most, o->pairs ? "" : "; use --truncate");
    else
        snprintf(err->message, sizeof err->message, "line %lld has no tokens", number);
    weft_tokens_free(k);
    return NULL;
}

/* ---- the model ------------------------------------------------------------------------------- */

static bool fits_task(const texts *t, unsigned tasks)
{
    if (tasks >> t->info.task & 1 && t->info.n_layer_src == 0)
        return true;
    cli_wrong_task(t->path, &t->info);
    return false;
}

/* With the adapter that was given. */
static int open_encoder(texts *t, const command *c, const text_options *o, weft_encoder_options *e)
{
    weft_error err = { 0 };
    const int code = lora_open(c, o->lora, t->model, &t->lora, &e->adapter_rank);
    if (code)
        return code;
    t->encoder = weft_encoder_new(t->model, e, &err);
    const bool good = t->encoder && weft_encoder_adapt(t->encoder, t->lora.adapter,
                                                       t->lora.strength, &err) == WEFT_OK;
    return good ? 0 : cli_fail(&err);
}

/* The model, and what reads texts with it. */
static int open_model(texts *t, const command *c, const load_options *load, const text_options *o,
                      unsigned tasks, weft_encoder_output what)
{
    weft_error err = { 0 };
    weft_encoder_options e = { .struct_size = sizeof e,
                               .output = what,
                               .pooling = (weft_pooling)o->pooling,
                               .normalize = o->normalize };
    const int code = cli_threads(c, o->threads, &e.threads);
    if (code)
        return code;
    t->model = cli_open(load, &err);
    if (!t->model)
        return cli_fail(&err);
    weft_model_get_info(t->model, &t->info);
    t->n_ctx = t->info.n_ctx;
    if (!fits_task(t, tasks))
        return 1;
    if (t->info.images && (o->pairs || o->truncate))
        return cli_usage(c, "%s takes images: --pairs and --truncate are for texts", t->path);
    t->tokenizer = t->info.images ? NULL : cli_tokenizer(load, NULL, &err);
    return t->tokenizer || t->info.images ? open_encoder(t, c, o, &e) : cli_fail(&err);
}

static texts begin(const load_options *load)
{
    return (texts){ .path = load->path, .info = { .struct_size = sizeof(weft_model_info) } };
}

int texts_open(texts *t, const command *c, const load_options *load, const text_options *o,
               const char *given, unsigned tasks, weft_encoder_output what)
{
    *t = begin(load);
    if (!load->path)
        return cli_which_model(c);
    if (o->truncate && o->pairs)
        return cli_usage(
            c, "--truncate and --pairs exclude each other: which of the two texts would be cut?");
    const int code = read_lines(t, c, o, given);
    return code ? code : open_model(t, c, load, o, tasks, what);
}

int texts_open_lines(texts *t, const command *c, const load_options *load, const text_options *o,
                     char *text, weft_encoder_output what)
{
    *t = begin(load);
    t->read_from = "the documents";
    t->text = text;
    return cut(t, strlen(text)) ? open_model(t, c, load, o, ~0u, what) : cli_no_memory();
}

void texts_close(texts *t)
{
    weft_encoder_free(t->encoder);
    weft_adapter_close(t->lora.adapter);
    weft_tokenizer_free(t->tokenizer);
    weft_model_close(t->model);
    cli_free(t->line);
    cli_free(t->text);
}

/* ---- some at a time -------------------------------------------------------------------------- */

typedef struct group {
    weft_tokens *tokens[TEXTS_AT_ONCE];
    weft_image *image[TEXTS_AT_ONCE];
    weft_input input[TEXTS_AT_ONCE];
    int64_t n;
    weft_error why[TEXTS_AT_ONCE]; /* of each line: what is wrong with it, if its code is not 0 */
} group;

/* The picture at the path in line i. */
static weft_image *open_image(const texts *t, int64_t i, weft_error *err)
{
    char path[4096];
    const text_line *l = &t->line[i];
    if (l->n >= sizeof path) {
        *err = (weft_error){ .code = WEFT_EIO };
        snprintf(err->message, sizeof err->message,
                 "line %lld has %zu bytes; expected the path of an image", (long long)i + 1, l->n);
        return NULL;
    }
    memcpy(path, l->at, l->n);
    path[l->n] = '\0';
    return weft_image_open(t->model, path, err);
}

/* Line i becomes an input. */
static bool read_line(const texts *t, int64_t i, const text_options *o, group *g, weft_error *err)
{
    weft_input *in = &g->input[g->n];
    weft_image *image = t->info.images ? open_image(t, i, err) : NULL;
    weft_tokens *k = t->info.images ? NULL : texts_encode(t, i, o, err);
    g->image[g->n] = image;
    g->tokens[g->n] = k;
    *in = image ? (weft_input){ .features = image->features, .n = image->n }
          : k   ? (weft_input){ .ids = k->ids, .types = k->types, .n = k->n }
                : (weft_input){ 0 };
    return image || k;
}

/* Room for the output of an input: all rows, or those chosen by `pick`. */
static bool prepare(const texts *t, weft_input *in, const weft_tokens *k, texts_pick_fn *pick,
                    void *ud)
{
    if (pick) {
        int32_t *at = cli_alloc((size_t)k->n, sizeof *at, "rows");
        if (!at)
            return false;
        in->n_at = pick(ud, k, at);
        in->at = at;
    }
    const int64_t rows = weft_encoder_rows(t->encoder, in);
    in->out = cli_alloc((size_t)(rows * weft_encoder_width(t->encoder) + 1), sizeof *in->out,
                        "the output");
    return in->out != NULL;
}

static void release(group *g)
{
    for (int64_t i = 0; i < g->n; i++) {
        cli_free((int32_t *)g->input[i].at);
        cli_free(g->input[i].out);
        weft_tokens_free(g->tokens[i]);
        weft_image_free(g->image[i]);
    }
    g->n = 0;
}

/* A bad line among many is reported and skipped. */
static bool passed_over(const texts *t, const weft_error *err)
{
    return t->read_from && err->code != WEFT_ENOMEM && err->code != WEFT_ELIMIT;
}

/* `many` lines from `at` on become inputs, but those that cannot. */
static int read_group(const texts *t, int64_t at, int64_t many, const text_options *o,
                      texts_pick_fn *pick, void *ud, group *g)
{
    for (int64_t i = 0; i < many; i++) {
        weft_error *why = &g->why[i];
        *why = (weft_error){ 0 };
        if (read_line(t, at + i, o, g, why)) {
            const int64_t k = g->n++;
            if (!prepare(t, &g->input[k], g->tokens[k], pick, ud))
                return cli_no_memory();
            continue;
        }
        const int code = cli_fail(why);
        if (!passed_over(t, why))
            return code;
    }
    return 0;
}

/* In the order of lines. */
static int show_group(texts *t, int64_t at, int64_t many, texts_show_fn *show, void *ud, group *g)
{
    int code = 0;
    for (int64_t i = 0, k = 0; i < many && !code; i++) {
        const bool good = g->why[i].code == WEFT_OK;
        t->n_failed += !good;
        t->why = g->why[i].message;
        code = show(ud, at + i, good ? g->tokens[k] : NULL, good ? &g->input[k] : NULL);
        k += good;
    }
    return code;
}

int texts_each(texts *t, const text_options *o, texts_pick_fn *pick, texts_show_fn *show, void *ud)
{
    static group g;
    weft_error err = { 0 };
    const int64_t most = t->info.images ? PICTURES_AT_ONCE : TEXTS_AT_ONCE;
    int code = 0;
    for (int64_t at = 0; at < t->n && !code; at += most) {
        const int64_t many = t->n - at < most ? t->n - at : most;
        code = read_group(t, at, many, o, pick, ud, &g);
        if (!code && g.n && weft_encoder_eval(t->encoder, g.input, g.n, &err) != WEFT_OK)
            code = cli_fail(&err);
        if (!code)
            code = show_group(t, at, many, show, ud, &g);
        release(&g);
        if (cli_interrupted() && !code)
            code = cli_stopped();
    }
    if (!code && t->n_failed)
        fprintf(stderr, "weft: %lld of %lld lines failed\n", (long long)t->n_failed,
                (long long)(t->n - t->n_before));
    return code ? code : t->n_failed > 0;
}

void texts_json_failed(const texts *t, int64_t i)
{
    cli_json_object(NULL);
    cli_json_int("index", i);
    cli_json_string("error", t->why);
    cli_json_end();
}

/* ---- probabilities --------------------------------------------------------------------------- */

void texts_softmax(const float *z, int64_t n, double *p)
{
    double most = (double)z[0], sum = 0;
    for (int64_t k = 1; k < n; k++)
        most = (double)z[k] > most ? (double)z[k] : most;
    for (int64_t k = 0; k < n; k++)
        sum += p[k] = exp((double)z[k] - most);
    for (int64_t k = 0; k < n; k++)
        p[k] /= sum;
}

int64_t texts_best(const double *p, int64_t n, int64_t most, int64_t *best)
{
    int64_t count = 0;
    for (int64_t k = 0; k < n; k++) {
        int64_t at = count;
        while (at > 0 && p[best[at - 1]] < p[k])
            at--;
        if (at == most)
            continue;
        const int64_t last = count < most ? count : most - 1;
        memmove(best + at + 1, best + at, (size_t)(last - at) * sizeof *best);
        best[at] = k;
        count = last + 1;
    }
    return count;
}
