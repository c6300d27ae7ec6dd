/* verify_read.c - both models read the same; what the first one's forward makes is kept until the
 * second has made it too. Tensors are paired by name, which does not depend on the form a model is
 * stored in. */
#include "score.h"
#include "verify.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define ROWS 16 /* tokens of a prompt that are read at a time: their tensors are kept */

static entry *find_entry(finding *f, const char *name)
{
    for (int64_t i = 0; i < f->n_entry; i++) {
        const int64_t at = (f->next + i) % f->n_entry;
        if (strcmp(f->entry[at].name, name) == 0) {
            f->next = at + 1;
            return &f->entry[at];
        }
    }
    if (f->n_entry == f->room) {
        const int64_t room = f->room ? 2 * f->room : 256;
        entry *longer = cli_grow(f->entry, (size_t)room * sizeof *longer, "the list of tensors");
        f->no_memory = f->no_memory || !longer;
        if (!longer)
            return NULL;
        f->entry = longer;
        f->room = room;
    }
    entry *e = &f->entry[f->n_entry++];
    *e = (entry){ .same_shape = true };
    snprintf(e->name, sizeof e->name, "%s", name);
    f->next = f->n_entry;
    return e;
}

/* ---- tensors --------------------------------------------------------------------------------- */

/* The larger of the difference so far and |a - b|; a NaN stays. */
static double farther(double so_far, float a, float b)
{
    const double d = a == b ? 0 : fabs((double)a - (double)b);
    return isnan(so_far) || d <= so_far ? so_far : d;
}

static void keep(void *ud, const weft_trace_tensor *t)
{
    finding *f = ud;
    entry *e = find_entry(f, t->name);
    const size_t n = (size_t)(t->rows * t->cols);
    if (!e)
        return;
    e->in_a = true;
    e->rows = t->rows;
    e->cols = t->cols;
    float *longer = cli_grow(e->data, (n ? n : 1) * sizeof *longer, t->name);
    f->no_memory = f->no_memory || !longer;
    if (!longer)
        return;
    e->data = longer;
    for (int64_t i = 0; i < t->rows; i++)
        for (int64_t k = 0; k < t->cols; k++) {
            const float x = t->data[i * t->stride + k];
            e->data[i * t->cols + k] = x;
            e->largest = isfinite(x) ? farther(e->largest, x, 0) : e->largest;
        }
}

/* Rotary positions rotate pairs of numbers of a head: neighbours in GGUF files of Llama, halves in
 * Hugging Face's. Column k of a GGUF file's query is this one of theirs. */
static int64_t permuted(int64_t k, int64_t E)
{
    const int64_t in = k % E;
    return k - in + (in % 2 ? E / 2 : 0) + in / 2;
}

static void compare(void *ud, const weft_trace_tensor *t)
{
    finding *f = ud;
    entry *e = find_entry(f, t->name);
    if (!e)
        return;
    e->in_b = true;
    e->same_shape = e->same_shape && e->in_a && e->rows == t->rows && e->cols == t->cols;
    if (!e->same_shape || !e->data)
        return;
    const int64_t E = f->of_a.d_head;
    const bool heads = (strstr(t->name, ".attn_q") || strstr(t->name, ".attn_k")) &&
                       strcmp(f->of_a.format, f->of_b.format) != 0 && E % 2 == 0 &&
                       e->cols % E == 0;
    const bool a_gguf = strcmp(f->of_a.format, "gguf") == 0;
    for (int64_t i = 0; i < e->rows; i++) {
        const float *a = e->data + i * e->cols, *b = t->data + i * t->stride;
        for (int64_t k = 0; k < e->cols; k++) {
            const int64_t other = heads ? permuted(k, E) : k;
            e->off = farther(e->off, a[k], b[k]);
            e->off_permuted = a_gguf ? farther(e->off_permuted, a[k], b[other])
                                     : farther(e->off_permuted, a[other], b[k]);
        }
    }
}

double verify_difference(const entry *e)
{
    const double off = fmin(e->off, e->off_permuted);
    if (!e->in_a || !e->in_b || !e->same_shape)
        return INFINITY;
    return off == 0 ? 0 : off / e->largest;
}

/* ---- a prompt, by a decoder -------------------------------------------------------------------
 */

typedef struct reader {
    weft_engine *engine;
    weft_session *session;
} reader;

static bool reader_open(reader *r, weft_model *m, const weft_engine_options *o, weft_trace_fn *fn,
                        finding *f, weft_error *err)
{
    r->engine = weft_engine_new(m, o, err);
    r->session = r->engine ? weft_session_new(r->engine, err) : NULL;
    return r->session && weft_engine_trace(r->engine, fn, f, false, err) == WEFT_OK;
}

static void reader_close(reader *r)
{
    weft_session_free(r->session);
    weft_engine_free(r->engine);
}

static int read_prompt(finding *f)
{
    weft_error err = { 0 };
    reader a = { 0 }, b = { 0 };
    /* f32: a coarser cache would make large differences of small ones, and hide others */
    const weft_engine_options o = { .struct_size = sizeof o,
                                    .threads = f->threads,
                                    .n_batch = ROWS,
                                    .n_ctx = f->n,
                                    .kv_type = WEFT_KV_F32 };
    bool good = reader_open(&a, f->a, &o, keep, f, &err) &&
                reader_open(&b, f->b, &o, compare, f, &err);
    for (int64_t at = 0, n; at < f->n && good && !f->no_memory && !cli_interrupted(); at += n) {
        n = f->n - at < ROWS ? f->n - at : ROWS;
        f->next = 0;
        good = weft_session_eval(a.session, f->ids + at, n, &err) == WEFT_OK;
        f->next = 0;
        good = good && weft_session_eval(b.session, f->ids + at, n, &err) == WEFT_OK;
    }
    reader_close(&b);
    reader_close(&a);
    return !good ? cli_fail(&err) : f->no_memory ? cli_no_memory() : 0;
}

static bool go_on(void *ud, const weft_evaluation *so_far)
{
    (void)ud;
    (void)so_far;
    return !cli_interrupted();
}

/* B measured against A. */
static int read_logits(finding *f)
{
    weft_error err = { 0 };
    f->logits.struct_size = sizeof f->logits;
    const weft_document d = { f->ids, f->n };
    const weft_evaluate_options o = { .struct_size = sizeof o,
                                      .threads = f->threads,
                                      .n_ctx = f->n,
                                      .stride = f->n,
                                      .progress = go_on };
    return weft_evaluate(f->b, f->a, &d, 1, &o, &f->logits, &err) == WEFT_OK ? 0 : cli_fail(&err);
}

/* ---- a source and its text, by an encoder and a decoder
 * ----------------------------------------- */

/* The target tokens: the start token, then the tokens of the source, reduced to the target
 * vocabulary. */
static int32_t target_id(const finding *f, int64_t i)
{
    const int32_t start = f->of_a.start_id < 0 ? 0 : f->of_a.start_id;
    return i == 0 ? start : (int32_t)(f->ids[i - 1] % f->of_a.n_vocab);
}

static bool step(finding *f, const reader *a, const reader *b, int64_t i, row_scores *s,
                 weft_error *err)
{
    const int32_t id = target_id(f, i);
    f->next = 0;
    if (weft_session_eval(a->session, &id, 1, err) != WEFT_OK)
        return false;
    f->next = 0;
    if (weft_session_eval(b->session, &id, 1, err) != WEFT_OK)
        return false;
    f->no_memory = !score_row(s, weft_session_logits(b->session), weft_session_logits(a->session),
                              f->of_a.n_vocab, -1) ||
                   f->no_memory;
    return true;
}

static int read_pair(finding *f)
{
    weft_error err = { 0 };
    reader a = { 0 }, b = { 0 };
    row_scores s;
    const weft_engine_options o = {
        .struct_size = sizeof o, .threads = f->threads, .n_ctx = f->n, .kv_type = WEFT_KV_F32
    };
    f->no_memory = !score_begin(&s, f->of_a.n_vocab);
    bool good = reader_open(&a, f->a, &o, keep, f, &err) &&
                reader_open(&b, f->b, &o, compare, f, &err) &&
                weft_session_source(a.session, f->ids, f->n, &err) == WEFT_OK;
    f->next = 0;
    good = good && weft_session_source(b.session, f->ids, f->n, &err) == WEFT_OK;
    for (int64_t i = 0; i < f->n && good && !f->no_memory && !cli_interrupted(); i++)
        good = step(f, &a, &b, i, &s, &err);
    score_result(&s, &f->logits);
    score_end(&s);
    reader_close(&b);
    reader_close(&a);
    return !good ? cli_fail(&err) : f->no_memory ? cli_no_memory() : 0;
}

/* ---- a whole, by an encoder
 * --------------------------------------------------------------------- */

/* A synthetic image: pseudo-random values from -1 to 1, the same in every run. */
static float *draw_rows(const weft_model_info *m)
{
    const int64_t n = m->n_ctx * m->n_feature;
    float *x = cli_alloc((size_t)n, sizeof *x, "a picture");
    uint64_t state = 1;
    for (int64_t i = 0; x && i < n; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        x[i] = (float)(state >> 40) / 8388608.0f - 1;
    }
    return x;
}

/* Returns the output, or NULL. */
static float *read_as(finding *f, weft_model *m, const weft_input *from, weft_trace_fn *fn,
                      int64_t *rows, int64_t *width, weft_error *err)
{
    const weft_encoder_options o = { .struct_size = sizeof o,
                                     .threads = f->threads,
                                     .output = f->of_a.task == WEFT_TASK_EMBED ? WEFT_OUTPUT_POOLED
                                                                               : WEFT_OUTPUT_HEAD };
    weft_input in = *from;
    weft_encoder *e = weft_encoder_new(m, &o, err);
    bool good = e && weft_encoder_trace(e, fn, f, false, err) == WEFT_OK;
    *rows = good ? weft_encoder_rows(e, &in) : 0;
    *width = good ? weft_encoder_width(e) : 0;
    in.out = good ? cli_alloc((size_t)(*rows * *width + 1), sizeof *in.out, "the output") : NULL;
    f->no_memory = f->no_memory || (good && !in.out);
    f->next = 0;
    good = in.out && weft_encoder_eval(e, &in, 1, err) == WEFT_OK;
    weft_encoder_free(e);
    if (!good)
        cli_free(in.out);
    return good ? in.out : NULL;
}

/* Labels and tokens have probabilities, vectors an angle; the two numbers of an answer have
 * neither. */
static void compare_outputs(finding *f, const float *a, const float *b, int64_t rows, int64_t width)
{
    row_scores s;
    if (f->of_a.task == WEFT_TASK_EMBED) {
        for (int64_t i = 0; i < rows; i++)
            f->cosine = fmin(f->cosine, score_cosine(a + i * width, b + i * width, width));
        return;
    }
    if (f->of_a.task == WEFT_TASK_ANSWER || width < 2)
        return;
    f->no_memory = !score_begin(&s, width) || f->no_memory;
    for (int64_t i = 0; i < rows && !f->no_memory; i++)
        f->no_memory = !score_row(&s, b + i * width, a + i * width, width, -1);
    score_result(&s, &f->logits);
    score_end(&s);
}

static int read_whole(finding *f)
{
    weft_error err = { 0 };
    int64_t rows = 0, width = 0;
    float *drawn = f->of_a.n_feature ? draw_rows(&f->of_a) : NULL;
    if (f->of_a.n_feature && !drawn)
        return cli_no_memory();
    const weft_input in = { .ids = drawn ? NULL : f->ids,
                            .features = drawn,
                            .n = drawn ? f->of_a.n_ctx : f->n };
    float *a = read_as(f, f->a, &in, keep, &rows, &width, &err);
    float *b = a && !f->no_memory ? read_as(f, f->b, &in, compare, &rows, &width, &err) : NULL;
    if (b)
        compare_outputs(f, a, b, rows, width);
    const int code = f->no_memory ? cli_no_memory() : b ? 0 : cli_fail(&err);
    cli_free(b);
    cli_free(a);
    cli_free(drawn);
    return code;
}

int verify_read(finding *f)
{
    if (f->of_a.task != WEFT_TASK_GENERATE)
        return read_whole(f);
    if (f->of_a.n_layer_src > 0)
        return read_pair(f);
    const int code = read_prompt(f);
    return !code && f->n > 1 ? read_logits(f) : code;
}
