/* alignment.c - the public function that draws where a decoder looked in its source: makes the text
 * once more, all of its tokens at a time, and adds up the probabilities of attention to the
 * source. */
#include "explain/alignment.h"
#include "api/api.h"
#include "api/explain.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

/* ---- during the forward ---------------------------------------------------------------------- */

typedef struct looks {
    float *sum; /* [n, n_source] over heads and layers; for the rows after the start tokens */
    int64_t n_begin, n, n_source;
    int64_t layer; /* wanted; 0: all */
    int64_t n_sum; /* heads that were added */
} looks;

/* "dec.blk.3.cross_attention.probs" has a row for each head of each token. */
static void add(void *ud, const weft_trace_tensor *t)
{
    looks *l = ud;
    int64_t layer;
    if (sscanf(t->name, "dec.blk.%" SCNd64 ".cross_attention.probs", &layer) != 1 ||
        strcmp(t->op, "probs") != 0 || t->cols != l->n_source)
        return;
    const int64_t n_row = l->n_begin + l->n - 1, n_head = t->rows / n_row;
    if (l->layer && l->layer != layer + 1)
        return;
    l->n_sum += n_head;
    for (int64_t i = 0; i < n_row * n_head; i++) {
        const int64_t row = i / n_head - (l->n_begin - 1);
        for (int64_t k = 0; row >= 0 && k < t->cols; k++)
            l->sum[row * t->cols + k] += t->data[i * t->stride + k];
    }
}

/* Token i follows from all tokens before it, so the last one is not evaluated. */
static weft_status evaluate(weft_model *m, const int32_t *ids, const weft_alignment_options *from,
                            looks *l, weft_error *err)
{
    const int64_t n_row = l->n_begin + l->n - 1;
    const int64_t n_ctx = n_row > l->n_source ? n_row : l->n_source;
    const weft_engine_options o = { .struct_size = sizeof o,
                                    .threads = from->threads,
                                    .n_session = 1,
                                    .n_ctx = n_ctx,
                                    .n_batch = (int)n_ctx,
                                    .kv_type = from->kv_type };
    weft_engine *e = weft_engine_new(m, &o, err);
    weft_session *at = e ? weft_session_new(e, err) : NULL;
    weft_status status = at ? weft_engine_trace(e, add, l, true, err) : err->code;
    if (status == WEFT_OK)
        status = weft_session_source(at, from->source, l->n_source, err);
    if (status == WEFT_OK)
        status = weft_session_eval(at, ids, n_row, err);
    weft_session_free(at);
    weft_engine_free(e);
    return status;
}

/* ---- the call -------------------------------------------------------------------------------- */

static bool check(const weft_model *m, const int32_t *ids, int64_t n, weft_alignment_options *o,
                  weft_error *err)
{
    o->n_begin = o->n_begin == 0 ? 1 : o->n_begin;
    if (m->model.n_layer_src == 0)
        weft_fail(err, WEFT_EINVAL, "%s: no source to look at; expected an encoder-decoder",
                  m->model.name);
    else if (!o->source || o->n_source < 1 || o->n_source > INT_MAX)
        weft_fail(err, WEFT_EINVAL, "%lld tokens of the source; expected 1 or more",
                  o->source ? (long long)o->n_source : 0LL);
    else if (o->n_begin < 1)
        weft_fail(err, WEFT_EINVAL, "n_begin is %lld; expected 1 or more", (long long)o->n_begin);
    else if (!ids || n <= o->n_begin || n > INT_MAX)
        weft_fail(err, WEFT_EINVAL, "%lld tokens, the first %lld given; expected more",
                  ids ? (long long)n : 0LL, (long long)o->n_begin);
    else if (o->layer < 0 || o->layer > m->model.n_layer)
        weft_fail(err, WEFT_EINVAL, "layer %lld; expected 0 to %lld", (long long)o->layer,
                  (long long)m->model.n_layer);
    return err->code == WEFT_OK;
}

static weft_status write_out(weft_model *m, const alignment *a, weft_page_fn *fn, void *ud,
                             weft_error *err)
{
    buffer b;
    buffer_begin(&b, &m->host.mem, err);
    alignment_svg(a, &b);
    if (!b.failed && !fn(ud, (const char *)b.at, b.n, err) && err->code == WEFT_OK)
        weft_fail(err, WEFT_EIO, "the picture could not be written");
    buffer_end(&b);
    return err->code;
}

weft_status weft_alignment(weft_model *m, const int32_t *ids, int64_t n,
                           const weft_alignment_options *options, weft_page_fn *fn, void *ud,
                           weft_error *err)
{
    weft_error local;
    weft_alignment_options o;
    err = begin_call(err, &local);
    if (!m || !fn)
        return weft_fail(err, WEFT_EINVAL, m ? "nobody to give the picture to" : "no model given");
    if (!read_options(&o, sizeof o, options, options ? options->struct_size : 0,
                      "weft_alignment_options", err) ||
        !check(m, ids, n, &o, err))
        return err->code;
    looks l = {
        .n_begin = o.n_begin, .n = n - o.n_begin, .n_source = o.n_source, .layer = o.layer
    };
    /* check() left both at INT_MAX or less: their product does not overflow */
    l.sum = mem_zalloc(&m->host.mem, (size_t)(l.n * l.n_source), sizeof *l.sum, "the map", err);
    weft_status status = l.sum ? evaluate(m, ids, &o, &l, err) : err->code;
    const alignment a = {
        .source = { o.source, l.n_source, spell_token, o.source_tokenizer },
        .target = { ids + o.n_begin, l.n, spell_token, o.target_tokenizer },
        .sum = l.sum,
        .n_sum = l.n_sum,
    };
    if (status == WEFT_OK)
        status = write_out(m, &a, fn, ud, err);
    mem_free(&m->host.mem, l.sum);
    return status;
}
