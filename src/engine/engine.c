#include "engine/engine.h"

#include "base/cpu.h"

#include <assert.h>
#include <stddef.h>
#include <string.h>

#define DEFAULT_BATCH 256
#define DEFAULT_CTX   4096
#define MAX_BATCH     65536

weft_status engine_resolve(const model *m, engine_options *o, weft_error *err)
{
    if (o->n_thread == 0)
        o->n_thread = cpu_count();
    if (o->n_session == 0)
        o->n_session = 1;
    if (o->n_batch == 0)
        o->n_batch = DEFAULT_BATCH;
    if (o->n_ctx == 0)
        o->n_ctx = m->n_ctx < DEFAULT_CTX ? m->n_ctx : DEFAULT_CTX;
    if (!o->kv)
        o->kv = &dtype_real;
    if (o->n_batch < 1 || o->n_batch > MAX_BATCH)
        return weft_fail(err, WEFT_EINVAL, "n_batch is %d, expected 1 to %d", o->n_batch,
                         MAX_BATCH);
    if (o->n_session < 1 || o->n_session > MAX_BATCH)
        return weft_fail(err, WEFT_EINVAL, "n_session is %d, expected 1 to %d", o->n_session,
                         MAX_BATCH);
    if (o->n_ctx < 1 || o->n_ctx > m->n_ctx)
        return weft_fail(err, WEFT_EINVAL, "n_ctx is %lld, the model was made for 1 to %lld",
                         (long long)o->n_ctx, (long long)m->n_ctx);
    if (o->n_batch > o->n_session * o->n_ctx)
        o->n_batch = (int)(o->n_session * o->n_ctx); /* there will never be more rows */
    return WEFT_OK;
}

static int64_t pages_for(int64_t length)
{
    return (length + PAGE_ROWS - 1) / PAGE_ROWS;
}

static weft_status batch_init(batch *b, const engine_options *o, mem *m, weft_error *err)
{
    *b = (batch){ 0 };
    b->row = mem_zalloc(m, (size_t)o->n_batch, sizeof *b->row, "rows of a batch", err);
    b->seq = mem_zalloc(m, (size_t)o->n_session, sizeof *b->seq, "sequences of a batch", err);
    return b->row && b->seq ? WEFT_OK : WEFT_ENOMEM;
}

static void batch_free(batch *b, mem *m)
{
    mem_free(m, b->row);
    mem_free(m, b->seq);
    *b = (batch){ 0 };
}

/* The largest batch there can be: every row at the end of the context, as many wanted as there are
 * sessions, or all. */
static void batch_largest(batch *b, const engine_options *o)
{
    b->n_row = o->n_batch;
    b->n_seq = 1;
    b->n_wanted = !o->all_rows && o->n_session < o->n_batch ? o->n_session : o->n_batch;
    for (int i = 0; i < b->n_row; i++)
        b->row[i] = (batch_row){ .pos = (int32_t)(o->n_ctx - 1), .wanted = i < b->n_wanted };
    b->seq[0] = (sequence){ .n = b->n_row, .source = -1 };
}

static void take_logits(void *ud, const tensor *z, int64_t first);

weft_status engine_predict(const model *m, const engine_options *o, bool maps, engine_plan *plan,
                           weft_error *err)
{
    mem *from = &m->host->mem;
    cache_layout layout;
    weft_status status = pages_layout(&layout, m, o->kv, err);
    if (status != WEFT_OK)
        return status;
    *plan = (engine_plan){ .n_page = pages_for(o->n_ctx) * o->n_session };
    const bool fits = pages_bytes(&layout, plan->n_page, &plan->kv);
    pages_layout_free(&layout, m);
    if (!fits)
        return weft_fail(err, WEFT_EINVAL, "%d contexts of %lld positions are too large",
                         o->n_session, (long long)o->n_ctx);
    run dry;
    batch b;
    status = batch_init(&b, o, from, err);
    if (status == WEFT_OK)
        status = run_init_dry(&dry, from, 1, err);
    if (status == WEFT_OK) {
        batch_largest(&b, o);
        dry.trace_maps = maps;
        dry.read = take_logits;
        run_begin(&dry, &b);
        m->arch->family->forward(&dry, m);
        plan->meta = dry.meta.peak;
        plan->data = dry.data.peak;
        plan->scratch = dry.scratch_peak;
        run_free(&dry);
    }
    batch_free(&b, from);
    return status;
}

weft_status engine_tally(const model *m, int n_row, int64_t last, int n_wanted,
                         void (*tally)(void *ud, const run *r, const node *n), void *ud,
                         weft_error *err)
{
    mem *from = &m->host->mem;
    const engine_options o = { .n_batch = n_row, .n_session = 1 };
    run dry;
    batch b;
    weft_status status = batch_init(&b, &o, from, err);
    if (status == WEFT_OK)
        status = run_init_dry(&dry, from, 1, err);
    if (status == WEFT_OK) {
        b.n_row = n_row;
        b.n_seq = 1;
        b.n_wanted = n_wanted;
        for (int i = 0; i < n_row; i++)
            b.row[i] = (batch_row){ .pos = (int32_t)(last - n_row + 1 + i),
                                    .wanted = i >= n_row - n_wanted };
        b.seq[0] = (sequence){ .n = n_row, .source = -1 };
        dry.tally = tally;
        dry.tally_ud = ud;
        run_begin(&dry, &b);
        m->arch->family->forward(&dry, m);
        run_free(&dry);
    }
    batch_free(&b, from);
    return status;
}

/* (Re)makes the arenas for steps with or without attention maps. */
static weft_status make_run(engine *e, bool maps, weft_error *err)
{
    engine_plan plan;
    run fresh;
    weft_status status = engine_predict(e->model, &e->opt, maps, &plan, err);
    if (status == WEFT_OK)
        status = run_init(&fresh, &e->model->host->mem, plan.meta, plan.data, plan.scratch, err);
    if (status != WEFT_OK)
        return status;
    run_free(&e->run);
    e->run = fresh;
    e->run.kern = e->kern;
    e->run.pool = e->pool;
    e->run.trace_maps = maps;
    e->run.read = take_logits;
    e->run.read_ud = e;
    return WEFT_OK;
}

engine *engine_new(const model *m, const engine_options *o, weft_error *err)
{
    mem *from = &m->host->mem;
    engine *e = mem_zalloc(from, 1, sizeof *e, "engine", err);
    if (!e)
        return NULL;
    e->model = m;
    e->opt = *o;
    e->kern = kernels_select(&m->host->log);
    if (engine_resolve(m, &e->opt, err) == WEFT_OK &&
        (e->pool = pool_new(e->opt.n_thread, from, err)) != NULL &&
        batch_init(&e->batch, &e->opt, from, err) == WEFT_OK &&
        pages_init(&e->pages, m, e->opt.kv, pages_for(e->opt.n_ctx) * e->opt.n_session, err) ==
            WEFT_OK &&
        make_run(e, false, err) == WEFT_OK)
        return e;
    engine_free(e);
    return NULL;
}

void engine_free(engine *e)
{
    if (!e)
        return;
    assert(e->n_open == 0 && "sessions are freed before their engine");
    mem *from = &e->model->host->mem;
    run_free(&e->run);
    pages_free(&e->pages, e->model);
    batch_free(&e->batch, from);
    pool_free(e->pool);
    mem_free(from, e);
}

weft_status engine_trace(engine *e, trace_fn *fn, void *ud, bool maps, weft_error *err)
{
    if (maps != e->run.trace_maps) {
        const weft_status status = make_run(e, maps, err);
        if (status != WEFT_OK)
            return status;
    }
    e->run.trace = fn;
    e->run.trace_ud = ud;
    return WEFT_OK;
}

void engine_read(engine *e, logits_fn *fn, void *ud, int64_t n_row)
{
    assert(n_row <= 1 || e->opt.all_rows);
    e->read = n_row > 0 ? fn : NULL;
    e->read_ud = ud;
    e->n_read = e->read ? n_row : 0;
}

/* ---- a step ---------------------------------------------------------------------------------- */

static weft_status check_work(engine *e, const work *w, int n, weft_error *err)
{
    const int64_t V = e->model->n_vocab;
    for (int i = 0; i < n; i++) {
        const cache *c = &w[i].session->cache;
        if (w[i].session->engine != e || w[i].n < 1)
            return weft_fail(err, WEFT_EINVAL, "work %d: %s", i,
                             w[i].n < 1 ? "no tokens" : "the session belongs to another engine");
        for (int k = 0; k < i; k++)
            if (w[k].session == w[i].session)
                return weft_fail(err, WEFT_EINVAL, "work %d and %d are for the same session", k, i);
        if (w[i].n > e->opt.n_ctx - c->length)
            return weft_fail(
                err, WEFT_ECONTEXT,
                "the context of %lld positions holds %lld tokens; %lld more do not fit",
                (long long)e->opt.n_ctx, (long long)c->length, (long long)w[i].n);
        for (int64_t k = 0; k < w[i].n; k++)
            if (w[i].ids[k] < 0 || w[i].ids[k] >= V)
                return weft_fail(err, WEFT_EINVAL,
                                 "token %lld of the input is %d, the vocabulary has %lld",
                                 (long long)k, (int)w[i].ids[k], (long long)V);
    }
    return WEFT_OK;
}

static void give_back(session *s, int64_t length)
{
    while (s->cache.n_page > pages_for(length))
        pages_drop(&s->engine->pages, s->cache.page[--s->cache.n_page]);
}

static weft_status take_pages(engine *e, const work *w, int n, weft_error *err)
{
    for (int i = 0; i < n; i++) {
        cache *c = &w[i].session->cache;
        while (c->n_page < pages_for(c->length + w[i].n)) {
            char *page = pages_take(&e->pages);
            if (!page) {
                for (int k = 0; k <= i; k++)
                    give_back(w[k].session, w[k].session->cache.length);
                return weft_fail(
                    err, WEFT_ECONTEXT,
                    "all %lld cache pages are in use; the engine was made for %d sessions",
                    (long long)e->pages.n_page, e->opt.n_session);
            }
            c->page[c->n_page++] = page;
        }
    }
    return WEFT_OK;
}

/* Fills the batch with the next rows of every session that has some left. */
static void fill(engine *e, const work *w, int n)
{
    batch *b = &e->batch;
    b->n_row = b->n_seq = b->n_wanted = 0;
    for (int i = 0; i < n && b->n_row < e->opt.n_batch && b->n_seq < e->opt.n_session; i++) {
        session *s = w[i].session;
        const int64_t room = e->opt.n_batch - b->n_row,
                      take = s->planned < room ? s->planned : room;
        if (take == 0)
            continue;
        const int64_t wanted = e->n_read > 1 ? e->n_read : 1;
        b->seq[b->n_seq] = (sequence){ b->n_row, (int32_t)take, -1, &s->cache, NULL };
        for (int64_t k = 0; k < take; k++) {
            const bool asked = s->planned - k <= wanted;
            b->row[b->n_row++] = (batch_row){ .id = w[i].ids[w[i].n - s->planned + k],
                                              .seq = b->n_seq,
                                              .pos = (int32_t)(s->cache.length + k),
                                              .target = NO_TARGET,
                                              .role = ROW_PROMPT,
                                              .wanted = asked };
            b->n_wanted += asked;
        }
        b->n_seq++;
    }
}

static session *session_of(const sequence *q)
{
    return (session *)(void *)((char *)q->cache - offsetof(session, cache));
}

/* Books the rows that were computed. */
static void settle(engine *e)
{
    const batch *b = &e->batch;
    for (int q = 0; q < b->n_seq; q++) {
        session *s = session_of(&b->seq[q]);
        s->cache.length += b->seq[q].n;
        s->planned -= b->seq[q].n;
        s->has_logits = s->planned == 0;
    }
}

static bool all_finite(const tensor *t)
{
    for (int64_t i = 0; i < rows(t); i++)
        for (int64_t k = 0; k < cols(t); k++)
            if (!isfinite(row(t, i)[k]))
                return false;
    return true;
}

/* Logits of the next wanted rows: a session keeps those after its last row, the reader sees all. */
static void take_logits(void *ud, const tensor *z, int64_t first)
{
    engine *e = ud;
    e->finite = e->finite && all_finite(z);
    for (int64_t i = 0; e->finite && i < rows(z); i++) {
        while (!e->batch.row[e->next_row].wanted)
            e->next_row++;
        const sequence *q = &e->batch.seq[e->batch.row[e->next_row++].seq];
        session *s = session_of(q);
        const bool last = e->next_row == q->first + q->n && s->planned == q->n;
        for (int64_t k = 0; last && k < cols(z); k++)
            s->logits[k] = (float)row(z, i)[k];
    }
    if (e->finite && e->read)
        e->read(e->read_ud, z, first);
}

/* The same batch once more, looking at every tensor: which one was the first? */
static weft_status not_numbers(engine *e, const work *w, int n, weft_error *err)
{
    e->run.hunt_nan = true;
    run_begin(&e->run, &e->batch);
    e->model->arch->family->forward(&e->run, e->model);
    e->run.hunt_nan = false;
    for (int i = 0; i < n; i++) {
        session *s = w[i].session;
        s->cache.length -= w[i].n - s->planned;
        give_back(s, s->cache.length);
        s->has_logits = false;
    }
    return weft_fail(err, WEFT_ENUMERIC,
                     "%s: the logits are not numbers; %s is the first tensor of which this is so",
                     e->model->file.path, e->run.first_nan);
}

weft_status engine_eval(engine *e, const work *w, int n, weft_error *err)
{
    weft_status status = check_work(e, w, n, err);
    if (status == WEFT_OK)
        status = pool_ready(e->pool, err);
    if (status == WEFT_OK)
        status = take_pages(e, w, n, err);
    if (status != WEFT_OK)
        return status;
    for (int i = 0; i < n; i++) {
        w[i].session->planned = w[i].n;
        w[i].session->has_logits = false;
    }
    for (;;) {
        fill(e, w, n);
        if (e->batch.n_row == 0)
            return WEFT_OK;
        run_begin(&e->run, &e->batch);
        e->next_row = 0;
        e->finite = true;
        e->model->arch->family->forward(&e->run, e->model);
        if (!e->finite)
            return not_numbers(e, w, n, err);
        settle(e);
    }
}

/* ---- sessions -------------------------------------------------------------------------------- */

session *session_new(engine *e, weft_error *err)
{
    mem *from = &e->model->host->mem;
    session *s = mem_zalloc(from, 1, sizeof *s, "session", err);
    if (!s)
        return NULL;
    s->engine = e;
    s->cache.layout = &e->pages.layout;
    s->cache.page = mem_zalloc(from, (size_t)pages_for(e->opt.n_ctx), sizeof *s->cache.page,
                               "session", err);
    s->logits = mem_zalloc(from, (size_t)e->model->n_vocab, sizeof *s->logits, "logits", err);
    e->n_open++;
    if (s->cache.page && s->logits)
        return s;
    session_free(s);
    return NULL;
}

void session_free(session *s)
{
    if (!s)
        return;
    engine *e = s->engine;
    mem *from = &e->model->host->mem;
    give_back(s, 0);
    mem_free(from, s->cache.page);
    mem_free(from, s->logits);
    mem_free(from, s);
    e->n_open--;
}

weft_status session_rewind(session *s, int64_t length, weft_error *err)
{
    if (length < 0 || length > s->cache.length)
        return weft_fail(err, WEFT_EINVAL, "cannot rewind to %lld: the session has %lld tokens",
                         (long long)length, (long long)s->cache.length);
    s->cache.length = length;
    s->has_logits = false;
    give_back(s, length);
    return WEFT_OK;
}

int32_t session_greedy(const session *s)
{
    if (!s->has_logits)
        return -1;
    int32_t best = 0;
    for (int32_t i = 1; i < (int32_t)s->engine->model->n_vocab; i++)
        if (s->logits[i] > s->logits[best])
            best = i;
    return best;
}
