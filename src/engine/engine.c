/* engine.c - creates an engine: its options, memory plan, threads and arenas. Steps are in
 * step.c. */
#include "engine/engine.h"

#include "base/cpu.h"
#include "models/pack.h"

#include <assert.h>

#define DEFAULT_BATCH 256
#define DEFAULT_CTX   4096
#define MAX_BATCH     65536
#define SESSION_BYTES 1024 /* a session and its handle */
#define MAX_CACHE     ((int64_t)INT32_MAX * PAGE_ROWS)

/* Bound for an engine, its list of threads, its copies of works, the calling thread's side stack,
 * and allocator overhead. */
#define ENGINE_BYTES (8192 + MAX_WORK * sizeof(work) + SIDE_BYTES)

weft_status engine_resolve(const model *m, engine_options *o, weft_error *err)
{
    if (m->task != WEFT_TASK_GENERATE)
        return weft_fail(err, WEFT_EUNSUPPORTED, "%s: %s is an encoder and cannot generate text",
                         m->file.path, m->name);
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
    if (o->n_thread < 1 || o->n_thread > POOL_MAX_THREAD)
        return weft_fail(err, WEFT_EINVAL, "threads is %d, expected 1 to %d, or 0 for all",
                         o->n_thread, POOL_MAX_THREAD);
    if (o->n_batch < 1 || o->n_batch > MAX_BATCH)
        return weft_fail(err, WEFT_EINVAL, "n_batch is %d, expected 1 to %d", o->n_batch,
                         MAX_BATCH);
    if (o->n_session < 1 || o->n_session > MAX_BATCH)
        return weft_fail(err, WEFT_EINVAL, "n_session is %d, expected 1 to %d", o->n_session,
                         MAX_BATCH);
    if (o->n_ctx < 1 || o->n_ctx > m->n_ctx)
        return weft_fail(err, WEFT_EINVAL, "n_ctx is %lld, expected 1 to %lld, the model's context",
                         (long long)o->n_ctx, (long long)m->n_ctx);
    if (o->n_cache == 0)
        o->n_cache = pages_for(o->n_ctx) * PAGE_ROWS * o->n_session * (model_has_source(m) ? 2 : 1);
    if (o->n_cache < 1 || o->n_cache > MAX_CACHE)
        return weft_fail(err, WEFT_EINVAL, "n_cache is %lld, expected 1 to %lld positions",
                         (long long)o->n_cache, (long long)MAX_CACHE);
    if (o->n_batch > o->n_session * o->n_ctx)
        o->n_batch = (int)(o->n_session * o->n_ctx); /* no batch can have more rows */
    return rank_check(o->rank, err);
}

/* The largest possible batch: every row at the end of the context, one wanted row per session, or
 * all. */
static void batch_largest(batch *b, const engine_options *o, bool all_rows)
{
    b->n_row = o->n_batch;
    b->n_seq = 1;
    b->n_wanted = !all_rows && o->n_session < o->n_batch ? o->n_session : o->n_batch;
    for (int i = 0; i < b->n_row; i++)
        b->row[i] = (batch_row){ .pos = (int32_t)(o->n_ctx - 1), .wanted = i < b->n_wanted };
    b->seq[0] = (sequence){ .n = b->n_row, .source = -1 };
    b->rank = o->rank;
}

/* The largest possible sources: a whole context encoded in one forward. */
static void sources_largest(batch *b, batch *src, const engine_options *o)
{
    src->n_row = (int32_t)o->n_ctx;
    src->n_seq = 1;
    for (int i = 0; i < src->n_row; i++)
        src->row[i] = (batch_row){ .pos = i };
    src->seq[0] = (sequence){ .n = src->n_row, .source = -1 };
    src->rank = o->rank;
    b->src = src;
    b->seq[0].source = 0;
}

/* Upper bound of what an allocation of this size counts against the cap. */
static size_t block(size_t bytes)
{
    return bytes + 2 * (size_t)MEM_ALIGN;
}

static size_t session_bytes(const model *m, const engine_options *o)
{
    return block(SESSION_BYTES) + block((size_t)o->n_ctx * sizeof(int32_t)) +
           (model_has_source(m) ? 2 : 1) * block((size_t)pages_for(o->n_ctx) * sizeof(char *)) +
           block((size_t)m->n_vocab * sizeof(float));
}

/* Everything except pages and arenas is small, so an upper bound is enough. */
static void plan_small_parts(engine_plan *p, const model *m, const engine_options *o)
{
    const size_t lists = (size_t)o->n_batch * (sizeof(batch_row) + sizeof(int32_t)) +
                         (size_t)o->n_session * sizeof(sequence) +
                         (size_t)p->n_page * (4 * sizeof(int32_t) + sizeof(bool)) +
                         (size_t)(m->n_layer * m->n_stream) * sizeof(stream) +
                         (size_t)o->n_thread * sizeof(uint64_t) +
                         (model_has_source(m) ? (size_t)o->n_ctx * sizeof(batch_row) +
                                                    (size_t)o->n_session * sizeof(sequence)
                                              : 0);
    p->session = session_bytes(m, o);
    p->panels = pack_plan(m);
    p->total = p->panels + p->kv + p->step.meta + p->step.data + p->step.scratch + lists +
               ENGINE_BYTES + (size_t)o->n_session * p->session;
}

static void step_forward(run *r, const model *m, const void *how)
{
    (void)how;
    model_forward(r, m);
}

weft_status engine_predict(const model *m, const engine_options *o, const trace_parts *show,
                           engine_plan *plan, weft_error *err)
{
    mem *from = &m->host->mem;
    cache_layout layout;
    weft_status status = pages_layout(&layout, m, o->kv, err);
    if (status != WEFT_OK)
        return status;
    *plan = (engine_plan){ .n_page = pages_for(o->n_cache),
                           .position = layout.page_bytes / PAGE_ROWS };
    const bool fits = pages_bytes(&layout, plan->n_page, &plan->kv);
    pages_layout_free(&layout, m);
    if (!fits)
        return weft_fail(err, WEFT_EINVAL, "a cache of %lld positions is too large",
                         (long long)o->n_cache);
    batch b, src = { 0 };
    status = batch_init(&b, o->n_batch, o->n_session, from, err);
    if (status == WEFT_OK && model_has_source(m))
        status = batch_init(&src, o->n_ctx, 1, from, err);
    if (status == WEFT_OK) {
        batch_largest(&b, o, o->all_rows || (show && show->all_logits));
        if (model_has_source(m))
            sources_largest(&b, &src, o);
        status = forward_predict(m, &b, step_forward, NULL, show, &plan->step, err);
    }
    if (status == WEFT_OK)
        plan_small_parts(plan, m, o);
    batch_free(&src, from);
    batch_free(&b, from);
    return status;
}

weft_status engine_tally(const model *m, int n_row, int64_t last, int n_wanted,
                         void (*tally)(void *ud, const run *r, const node *n), void *ud,
                         weft_error *err)
{
    mem *from = &m->host->mem;
    cache encoded = { .length = last + 1 };
    sequence source = { .source = -1, .cache = &encoded };
    const batch src = { .n_seq = 1, .seq = &source };
    run dry;
    batch b;
    weft_status status = batch_init(&b, n_row, 1, from, err);
    if (status == WEFT_OK)
        status = run_init_dry(&dry, from, 1, err);
    if (status == WEFT_OK) {
        b.n_row = n_row;
        b.n_seq = 1;
        b.n_wanted = n_wanted;
        for (int i = 0; i < n_row; i++)
            b.row[i] = (batch_row){ .pos = (int32_t)(last - n_row + 1 + i),
                                    .wanted = i >= n_row - n_wanted };
        b.seq[0] = (sequence){ .n = n_row, .source = model_has_source(m) ? 0 : -1 };
        b.src = &src;
        dry.tally = tally;
        dry.tally_ud = ud;
        run_begin(&dry, &b);
        model_forward(&dry, m);
        run_free(&dry);
    }
    batch_free(&b, from);
    return status;
}

/* (Re)makes the arenas for steps of which these parts are shown, or none if NULL. */
static weft_status engine_make_run(engine *e, const trace_parts *show, weft_error *err)
{
    engine_plan plan;
    const weft_status status = engine_predict(e->model, &e->opt, show, &plan, err);
    if (status != WEFT_OK)
        return status;
    const weft_status made = forward_make(&e->run, e->model, &plan.step, show, e->pool,
                                          engine_take_logits, e, err);
    e->run.n_ctx = e->opt.n_ctx;
    return made;
}

engine *engine_new(const model *m, const engine_options *o, weft_error *err)
{
    mem *from = &m->host->mem;
    engine *e = mem_zalloc(from, 1, sizeof *e, "engine", err);
    if (!e)
        return NULL;
    e->model = m;
    e->opt = *o;
    e->asked = mem_zalloc(from, MAX_WORK, sizeof *e->asked, "engine", err);
    if (e->asked && engine_resolve(m, &e->opt, err) == WEFT_OK &&
        (e->part = mem_zalloc(from, (size_t)e->opt.n_batch, sizeof *e->part, "engine", err)) &&
        (e->pool = pool_new(e->opt.n_thread, from, err)) != NULL &&
        batch_init(&e->batch, e->opt.n_batch, e->opt.n_session, from, err) == WEFT_OK &&
        (!model_has_source(m) ||
         batch_init(&e->src, e->opt.n_ctx, e->opt.n_session, from, err) == WEFT_OK) &&
        pages_init(&e->pages, m, e->opt.kv, pages_for(e->opt.n_cache), err) == WEFT_OK &&
        engine_make_run(e, NULL, err) == WEFT_OK) {
        pack_weights(m, e->pool, (size_t)e->opt.n_session * session_bytes(m, &e->opt));
        return e;
    }
    engine_free(e);
    return NULL;
}

void engine_free(engine *e)
{
    if (!e)
        return;
    assert(!e->first && "sessions are freed before their engine");
    mem *from = &e->model->host->mem;
    run_free(&e->run);
    pages_free(&e->pages, e->model);
    batch_free(&e->src, from);
    batch_free(&e->batch, from);
    pool_free(e->pool);
    mem_free(from, e->part);
    mem_free(from, e->asked);
    mem_free(from, e);
}

weft_status engine_trace(engine *e, const trace_spec *w, weft_error *err)
{
    if (!forward_shows(&e->run, &w->show)) {
        const weft_status status = engine_make_run(e, &w->show, err);
        if (status != WEFT_OK)
            return status;
    }
    forward_watch(&e->run, w);
    return WEFT_OK;
}

void engine_read(engine *e, logits_fn *fn, void *ud, int64_t n_row)
{
    assert(n_row <= 1 || e->opt.all_rows);
    e->read = n_row > 0 ? fn : NULL;
    e->read_ud = ud;
    e->n_read = e->read ? n_row : 0;
}
