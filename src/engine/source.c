/* source.c - encodes sources for sessions: the encoder's rows, and the cross-attention's keys and
 * values.
 *
 * This is a forward without decoder rows: the encoder runs, and every decoder block computes and
 * stores its keys and values of the encoder's output; there are no queries. An encoder attends in
 * both directions, so one forward holds a whole source. */
#include "engine/session.h"

static weft_status check_source(const engine *e, const source_text *s, weft_error *err)
{
    const int64_t V = e->model->n_vocab_src;
    if (!model_has_source(e->model))
        return weft_fail(err, WEFT_EINVAL, "%s: %s is not an encoder-decoder", e->model->file.path,
                         e->model->name);
    if (s->session->engine != e || s->n < 1 || !s->ids)
        return weft_fail(err, WEFT_EINVAL, "%s",
                         s->n < 1  ? "a source needs at least one token"
                         : !s->ids ? "no tokens given"
                                   : "the session belongs to another engine");
    if (s->n > e->opt.n_ctx)
        return weft_fail(err, WEFT_ECONTEXT,
                         "a source of %lld tokens does not fit into a context of %lld",
                         (long long)s->n, (long long)e->opt.n_ctx);
    for (int64_t i = 0; i < s->n; i++)
        if (s->ids[i] < 0 || s->ids[i] >= V)
            return weft_fail(err, WEFT_EINVAL,
                             "token %lld of the source is %d, the vocabulary has %lld",
                             (long long)i, (int)s->ids[i], (long long)V);
    return WEFT_OK;
}

/* Adds as many sources as fit, at least one; returns how many. */
static int fill_source(engine *e, const source_text *s, int n)
{
    batch *b = &e->src;
    b->n_row = b->n_seq = 0;
    b->rank = e->opt.rank;
    b->whole = session_whole(s->session);
    while (b->n_seq < n && b->n_seq < e->opt.n_session &&
           s[b->n_seq].n <= e->opt.n_ctx - b->n_row &&
           session_whole(s[b->n_seq].session) == b->whole) {
        const source_text *of = &s[b->n_seq];
        cache *c = &of->session->source;
        while (c->n_page < pages_for(of->n))
            c->page[c->n_page++] = pages_take(&e->pages);
        b->seq[b->n_seq] = (sequence){ b->n_row, (int32_t)of->n, -1, c, of->session->adapted };
        for (int64_t i = 0; i < of->n; i++)
            b->row[b->n_row++] = (batch_row){
                .id = of->ids[i], .seq = b->n_seq, .pos = (int32_t)i, .target = NO_TARGET
            };
        b->n_seq++;
    }
    return b->n_seq;
}

static weft_status encode_sources(engine *e, weft_error *err)
{
    const batch nobody = { .seq = e->batch.seq,
                           .row = e->batch.row,
                           .src = &e->src,
                           .rank = e->opt.rank,
                           .whole = e->src.whole };
    e->run.hunt_nan = true;
    run_begin(&e->run, &nobody);
    model_forward(&e->run, e->model);
    e->run.hunt_nan = false;
    if (!e->run.at.first_nan[0])
        return WEFT_OK;
    return weft_fail(err, WEFT_ENUMERIC,
                     "%s: non-finite encoder output; first non-finite tensor: %s",
                     e->model->file.path, e->run.at.first_nan);
}

static weft_status check_pages(engine *e, const source_text *s, int n, weft_error *err)
{
    int64_t need = 0;
    for (int i = 0; i < n; i++)
        need += pages_for(s[i].n);
    if (need <= pages_available(&e->pages))
        return WEFT_OK;
    return weft_fail(
        err, WEFT_ECONTEXT, "%lld cache pages are needed for sources, but %lld of %lld are free",
        (long long)need, (long long)pages_available(&e->pages), (long long)e->pages.n_page);
}

static weft_status check_sources(engine *e, const source_text *s, int n, weft_error *err)
{
    weft_status status = pool_ready(e->pool, err);
    for (int i = 0; i < n && status == WEFT_OK; i++) {
        status = check_source(e, &s[i], err);
        for (int k = 0; k < i && status == WEFT_OK; k++)
            if (s[k].session == s[i].session)
                status = weft_fail(err, WEFT_EINVAL, "source %d and %d are for the same session", k,
                                   i);
    }
    return status;
}

/* Sources are dropped even if the new ones are refused: a caller that ignores the error must not
 * get answers to the old source. Sessions of a model without an encoder keep their tokens. */
weft_status engine_encode(engine *e, const source_text *s, int n, weft_error *err)
{
    weft_status status = check_sources(e, s, n, err);
    for (int i = 0; i < n && model_has_source(e->model); i++)
        session_forget_source(s[i].session);
    if (status == WEFT_OK)
        status = check_pages(e, s, n, err);
    for (int at = 0, taken; at < n && status == WEFT_OK; at += taken) {
        taken = fill_source(e, s + at, n - at);
        status = encode_sources(e, err);
        for (int i = at; i < at + taken && status == WEFT_OK; i++)
            s[i].session->source.length = s[i].n;
    }
    for (int i = 0; i < n && status != WEFT_OK && model_has_source(e->model); i++)
        session_forget_source(s[i].session);
    return status;
}
