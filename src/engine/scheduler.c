/* scheduler.c - makes a scheduler, takes requests, and ends them. Steps are in scheduler_step.c. */
#include "engine/scheduler.h"

#include "base/clock.h"

#define DEFAULT_STEP_MS  200.0
#define DEFAULT_WAITING  128
#define MAX_WAITING      65536
#define DEFAULT_CONTEXTS 4  /* of tokens that wait */
#define SPARE_KEYS       64 /* that are remembered without requests */

/* ---- life ------------------------------------------------------------------------------------ */

/* What could run together may also arrive together. */
static int64_t default_tokens(const engine *e)
{
    const int64_t some = DEFAULT_CONTEXTS * e->opt.n_ctx, all = e->pages.n_page * PAGE_ROWS;
    return some > all ? some : all;
}

static weft_status fill_options(weft_scheduler_options *o, const engine *e, weft_error *err)
{
    const engine_options *of = &e->opt;
    int most = of->n_session < of->n_batch ? of->n_session : of->n_batch;
    most = most < MAX_WORK ? most : MAX_WORK;
    o->step_ms = o->step_ms != 0 ? o->step_ms : DEFAULT_STEP_MS;
    o->n_running = o->n_running ? o->n_running : most;
    o->n_waiting = o->n_waiting ? o->n_waiting : DEFAULT_WAITING;
    o->n_waiting_tokens = o->n_waiting_tokens ? o->n_waiting_tokens : default_tokens(e);
    if (!(o->step_ms >= 1 && o->step_ms <= 1e6))
        return weft_fail(err, WEFT_EINVAL, "step_ms is %g, expected 1 to 1000000", o->step_ms);
    if (o->n_running < 1 || o->n_running > most)
        return weft_fail(err, WEFT_EINVAL,
                         "n_running is %d, expected 1 to %d: the engine has n_session %d and "
                         "n_batch %d",
                         o->n_running, most, of->n_session, of->n_batch);
    if (o->n_waiting < 1 || o->n_waiting > MAX_WAITING)
        return weft_fail(err, WEFT_EINVAL, "n_waiting is %d, expected 1 to %d", o->n_waiting,
                         MAX_WAITING);
    if (o->n_waiting_tokens < 1)
        return weft_fail(err, WEFT_EINVAL, "n_waiting_tokens is %lld, expected 1 or more",
                         (long long)o->n_waiting_tokens);
    return WEFT_OK;
}

static weft_status make_lists(scheduler *s, weft_error *err)
{
    mem *m = s->mem;
    const size_t most = (size_t)s->opt.n_running, wait = (size_t)s->room;
    s->spare = mem_zalloc(m, most, sizeof *s->spare, "a scheduler", err);
    s->running = mem_zalloc(m, most, sizeof *s->running, "a scheduler", err);
    s->waiting = mem_zalloc(m, wait, sizeof *s->waiting, "a scheduler", err);
    s->entry = mem_zalloc(m, most + wait, sizeof *s->entry, "a scheduler", err);
    s->works = mem_zalloc(m, most, sizeof *s->works, "a scheduler", err);
    s->busy = mem_zalloc(m, most, sizeof *s->busy, "a scheduler", err);
    if (!s->spare || !s->running || !s->waiting || !s->entry || !s->works || !s->busy)
        return WEFT_ENOMEM;
    for (; s->n_spare < s->opt.n_running; s->n_spare++)
        if (!(s->spare[s->n_spare] = session_new(s->engine, err)))
            return err->code;
    return WEFT_OK;
}

static double real_time(void *ud)
{
    (void)ud;
    return clock_seconds();
}

scheduler *scheduler_new(engine *e, const weft_scheduler_options *options, weft_error *err)
{
    mem *m = &e->model->host->mem;
    weft_scheduler_options o = *options;
    if (fill_options(&o, e, err) != WEFT_OK)
        return NULL;
    if (e->pages.forget) {
        weft_fail(err, WEFT_EINVAL, "the engine has a scheduler; free that first");
        return NULL;
    }
    scheduler *s = mem_zalloc(m, 1, sizeof *s, "a scheduler", err);
    if (!s)
        return NULL;
    *s = (scheduler){ .engine = e, .mem = m, .opt = o, .room = o.n_waiting + o.n_running };
    s->coming = &s->incoming;
    s->now = real_time;
    s->ended = -1;
    pthread_mutex_init(&s->lock, NULL);
    if (make_lists(s, err) == WEFT_OK &&
        fair_keys_init(&s->keys, s->room + s->opt.n_running + SPARE_KEYS, m, err) == WEFT_OK &&
        prefix_init(&s->prefix, &e->pages, m, err) == WEFT_OK)
        return s;
    scheduler_free(s);
    return NULL;
}

void scheduler_free(scheduler *s)
{
    if (!s)
        return;
    weft_error stopped;
    weft_fail(&stopped, WEFT_ESTOPPED, "the scheduler was freed");
    scheduler_take_incoming(s);
    while (s->all)
        scheduler_end(s, s->all, &stopped);
    while (s->n_spare > 0)
        session_free(s->spare[--s->n_spare]);
    prefix_free(&s->prefix);
    fair_keys_free(&s->keys, s->mem);
    mem_free(s->mem, s->busy);
    mem_free(s->mem, s->works);
    mem_free(s->mem, s->entry);
    mem_free(s->mem, s->waiting);
    mem_free(s->mem, s->running);
    mem_free(s->mem, s->spare);
    pthread_mutex_destroy(&s->lock);
    mem_free(s->mem, s);
}

/* ---- requests -------------------------------------------------------------------------------- */

static weft_status check_fit(const engine *e, const request_spec *q, weft_error *err)
{
    const int64_t n = q->opt.n_prompt, n_ctx = e->opt.n_ctx;
    const int64_t V = e->model->n_vocab, V_src = e->model->n_vocab_src;
    if (n > n_ctx || q->n_source > n_ctx)
        return weft_fail(err, WEFT_ECONTEXT,
                         "a %s of %lld tokens does not fit into a context of %lld",
                         n > n_ctx ? "prompt" : "source", (long long)(n > n_ctx ? n : q->n_source),
                         (long long)n_ctx);
    if (pages_for(n) + pages_for(q->n_source) > e->pages.n_page)
        return weft_fail(
            err, WEFT_ECONTEXT,
            "%lld cache pages are needed, but there are %lld; the engine has a cache of "
            "%lld positions for all sessions",
            (long long)(pages_for(n) + pages_for(q->n_source)), (long long)e->pages.n_page,
            (long long)e->opt.n_cache);
    for (int64_t i = 0; i < n; i++)
        if (q->opt.prompt[i] < 0 || q->opt.prompt[i] >= V)
            return weft_fail(err, WEFT_EINVAL,
                             "token %lld of the prompt is %d, the vocabulary has %lld",
                             (long long)i, (int)q->opt.prompt[i], (long long)V);
    for (int64_t i = 0; i < q->n_source; i++)
        if (q->source[i] < 0 || q->source[i] >= V_src)
            return weft_fail(err, WEFT_EINVAL,
                             "token %lld of the source is %d, the vocabulary has %lld",
                             (long long)i, (int)q->source[i], (long long)V_src);
    return WEFT_OK;
}

/* Under the lock: appends a request, if the queue has room. */
static weft_status enqueue(scheduler *s, request *r, weft_error *err)
{
    weft_scheduler_info *i = &s->info;
    if (i->n_waiting >= s->opt.n_waiting)
        return weft_fail(err, WEFT_EBUSY, "%lld requests are waiting, the most that may",
                         (long long)i->n_waiting);
    if (i->n_waiting > 0 && request_tokens(r) > s->opt.n_waiting_tokens - i->n_waiting_tokens)
        return weft_fail(err, WEFT_EBUSY,
                         "%lld tokens are waiting; %lld more would be over the limit of %lld",
                         (long long)i->n_waiting_tokens, (long long)request_tokens(r),
                         (long long)s->opt.n_waiting_tokens);
    i->n_waiting++;
    i->n_waiting_tokens += request_tokens(r);
    r->number = ++s->last_number;
    r->next = s->all;
    if (r->next)
        r->next->before = r;
    s->all = r;
    *s->coming = r;
    s->coming = &r->queued;
    return WEFT_OK;
}

uint64_t scheduler_submit(scheduler *s, const request_spec *spec, weft_error *err)
{
    if (check_fit(s->engine, spec, err) != WEFT_OK)
        return 0;
    request *r = request_new(spec, s->engine, err);
    if (!r)
        return 0;
    r->submitted = scheduler_now(s);
    pthread_mutex_lock(&s->lock);
    const weft_status status = enqueue(s, r, err);
    const uint64_t number = r->number;
    pthread_mutex_unlock(&s->lock);
    if (status != WEFT_OK)
        request_free(r, s->mem);
    return number;
}

bool scheduler_cancel(scheduler *s, uint64_t number)
{
    pthread_mutex_lock(&s->lock);
    request *r = s->all;
    while (r && r->number != number)
        r = r->next;
    if (r)
        atomic_store(&r->cancelled, true);
    pthread_mutex_unlock(&s->lock);
    return r != NULL;
}

weft_scheduler_info scheduler_info(scheduler *s)
{
    pthread_mutex_lock(&s->lock);
    const weft_scheduler_info info = s->info;
    pthread_mutex_unlock(&s->lock);
    return info;
}
