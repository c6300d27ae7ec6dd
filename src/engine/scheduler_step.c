/* scheduler_step.c - one step of a scheduler: describes the requests to schedule.h, moves them as it
 * decides, runs the forward, and passes tokens on. */
#include "engine/scheduler.h"

#include <assert.h>

/* ---- before the forward ---------------------------------------------------------------------- */

/* Ends the cancelled ones of a list, which shrinks with each. */
static void end_cancelled(scheduler *s, request **list, const int *n)
{
    weft_error why;
    weft_fail(&why, WEFT_ESTOPPED, "the request was cancelled");
    for (int i = 0; i < *n;)
        if (atomic_load(&list[i]->cancelled))
            scheduler_end(s, list[i], &why);
        else
            i++;
}

/* Pages of its tokens and of as many new ones as a start must have room for, without its source. */
static int64_t claim_of(const scheduler *s, const request *r)
{
    const weft_generate_options *o = &r->spec.opt;
    const int64_t n_ctx = s->engine->opt.n_ctx, room = s->engine->pages.n_page;
    const int64_t new = r->n_id - o->n_prompt;
    int64_t more = o->n_new < 0 ? 0 : o->n_new == 0 ? n_ctx : o->n_new - new;
    more = more < CLAIM_ROWS ? more : CLAIM_ROWS;
    const int64_t rows = r->n_id + more < n_ctx ? r->n_id + more : n_ctx;
    const int64_t most = room - pages_for(r->spec.n_source);
    return pages_for(rows) < most ? pages_for(rows) : most;
}

/* Pages that nobody else holds. */
static int64_t own_pages(const pages *p, const cache *c)
{
    int64_t n = 0;
    for (int64_t i = 0; i < c->n_page; i++)
        n += p->refs[pages_number(p, c->page[i])] == 1;
    return n;
}

static schedule_entry describe_running(const scheduler *s, request *r)
{
    const session *of = r->session;
    return (schedule_entry){ .of = r,
                             .key = r->key,
                             .priority = r->spec.priority,
                             .order = r->number,
                             .runs = true,
                             .length = of->cache.length,
                             .left = request_left(r),
                             .n_page = of->cache.n_page,
                             .n_own = own_pages(&s->engine->pages, &of->cache) +
                                      own_pages(&s->engine->pages, &of->source),
                             .claim = r->claim };
}

/* Cached pages are looked up in every step: others come, go and take them. The limit of the queue's
 * tokens bounds that. */
static schedule_entry describe_waiting(const scheduler *s, request *r)
{
    int64_t n_idle;
    const int64_t n_found = prefix_find(&s->prefix, &r->root, r->ids, request_sharable(r), &n_idle);
    r->claim = claim_of(s, r);
    const int64_t n_source = pages_for(r->spec.n_source);
    return (schedule_entry){ .of = r,
                             .key = r->key,
                             .priority = r->spec.priority,
                             .order = r->number,
                             .left = r->n_id,
                             .claim = r->claim + n_source,
                             .n_found = n_found,
                             .n_found_idle = n_idle,
                             .n_source = n_source,
                             .charge = r->began ? 0 : r->n_id - n_found * PAGE_ROWS,
                             .n_passed = r->n_passed };
}

static schedule_state decide(scheduler *s)
{
    int n = 0;
    for (int i = 0; i < s->n_running; i++)
        if (request_left(s->running[i]) > 1)
            scheduler_share(s, s->running[i]);
    for (int i = 0; i < s->n_running; i++)
        s->entry[n++] = describe_running(s, s->running[i]);
    for (int i = 0; i < s->n_waiting; i++)
        s->entry[n++] = describe_waiting(s, s->waiting[i]);
    schedule_state state = { .entry = s->entry,
                             .n = n,
                             .served = s->keys.served,
                             .n_available = pages_available(&s->engine->pages),
                             .n_seat = s->opt.n_running,
                             .n_batch = s->engine->opt.n_batch,
                             .seconds = 1e-3 * s->opt.step_ms,
                             .cost = &s->cost };
    schedule_step(&state);
    return state;
}

/* A request that cannot start for lack of memory or pages waits for others to end; if none runs, or
 * for any other reason, it fails. */
static void start(scheduler *s, const schedule_entry *e)
{
    request *r = e->of;
    const weft_status status = scheduler_start(s, r);
    if (status == WEFT_OK)
        return;
    s->keys.served[r->key] -= (double)e->charge;
    const weft_error why = r->err;
    r->err = (weft_error){ 0 };
    const bool may_wait = status == WEFT_ENOMEM || status == WEFT_ELIMIT || status == WEFT_ECONTEXT;
    if (s->n_running == 0 || !may_wait)
        scheduler_end(s, r, &why);
}

/* Moves requests as decided; true if some were to move. */
static bool move(scheduler *s, const schedule_state *state)
{
    bool any = false;
    for (int i = 0; i < state->n; i++) {
        request *r = state->entry[i].of;
        r->take = state->entry[i].take;
        r->n_passed = state->entry[i].n_passed;
        any = any || state->entry[i].move != SCHEDULE_STAY;
        if (state->entry[i].move == SCHEDULE_PREEMPT)
            scheduler_preempt(s, r);
    }
    for (int i = 0; i < state->n; i++)
        if (state->entry[i].move == SCHEDULE_START)
            start(s, &state->entry[i]);
    return any;
}

/* The rows of this step; returns the number of works. */
static int fill_works(scheduler *s)
{
    int n = 0;
    for (int i = 0; i < s->n_running; i++) {
        request *r = s->running[i];
        const int64_t left = request_left(r);
        if (r->take == 0)
            continue;
        s->busy[n] = r;
        s->works[n++] = (work){ .session = r->session,
                                .ids = r->ids + r->session->cache.length,
                                .n = left,
                                .take = r->take < left ? r->take : left };
    }
    return n;
}

/* Nobody can compute a row or move. The one that runs has the cache for itself, and it is full; or
 * none runs, and the oldest cannot start because others use the engine. */
static void end_stuck(scheduler *s)
{
    weft_error why = { 0 };
    const pages *p = &s->engine->pages;
    assert(s->n_running <= 1);
    if (s->n_running == 0 && s->n_waiting == 0)
        return;
    request *r = s->n_running > 0 ? s->running[0] : s->waiting[0];
    for (int i = 0; i < s->n_waiting && s->n_running == 0; i++)
        r = s->waiting[i]->number < r->number ? s->waiting[i] : r;
    if (r->n_id > r->spec.opt.n_prompt && r->session) {
        r->text.to.finish = WEFT_FINISH_CONTEXT;
        r->err = (weft_error){ 0 };
        generation_rest(&r->text);
        why = r->err;
    } else {
        weft_fail(&why, WEFT_ECONTEXT,
                  "%lld cache pages are needed, but %lld of %lld are free; the engine has a cache "
                  "of %lld positions for all sessions",
                  (long long)(pages_for(r->n_id) + pages_for(r->spec.n_source)),
                  (long long)pages_available(p), (long long)p->n_page,
                  (long long)s->engine->opt.n_cache);
    }
    scheduler_end(s, r, &why);
}

/* ---- after the forward ----------------------------------------------------------------------- */

/* A session that has just computed rows: keeps its pages, passes on what the prompt gave. True if
 * it draws a token now. */
static bool read_rows(scheduler *s, request *r, const work *w)
{
    if (w->status == WEFT_ECONTEXT)
        return false; /* no pages now: the next step sees that */
    if (w->status != WEFT_OK) {
        weft_error why;
        weft_fail(&why, w->status, "%s", r->session->failure);
        scheduler_end(s, r, &why);
        return false;
    }
    prefix_keep(&s->prefix, &r->root, r->session, &r->n_kept);
    request_tell_prompt(r);
    if (request_left(r) > 0)
        return false;
    r->first = r->first > 0 ? r->first : scheduler_now(s);
    if (r->spec.opt.n_new >= 0)
        return true;
    r->text.to.finish = WEFT_FINISH_LENGTH;
    scheduler_end(s, r, &(weft_error){ 0 });
    return false;
}

static void draw(void *arg, int64_t i)
{
    const scheduler *s = arg;
    request_draw(s->busy[i]);
}

/* Passes a drawn token on; ends the request if its text ends. Returns how many tokens there are. */
static int64_t pass_on(scheduler *s, request *r)
{
    const int64_t before = r->text.to.n_new;
    if (atomic_load(&r->cancelled))
        return 0; /* ends with the next step */
    if (r->err.code == WEFT_OK)
        request_take_token(r, s->engine->opt.n_ctx);
    const int64_t n = r->text.to.n_new - before;
    const weft_error why = r->err;
    if (why.code != WEFT_OK || r->text.to.finish != WEFT_FINISH_NONE)
        scheduler_end(s, r, &why);
    return n;
}

/* Tells whoever records steps. */
static void tell_step(scheduler *s, const step_shape *shape, int n_draw, double began,
                      double seconds)
{
    const weft_step step = { .struct_size = sizeof step,
                             .n_row = shape->n_row,
                             .n_draw = n_draw,
                             .prompt_context = shape->prompt,
                             .new_context = shape->fresh,
                             .seconds = seconds,
                             .before = s->ended >= 0 ? began - s->ended : -1 };
    s->ended = began + seconds;
    if (s->opt.step_fn)
        s->opt.step_fn(s->opt.step_ud, &step);
}

/* The forward, and the draws after it. */
static weft_status compute(scheduler *s, int n, const step_shape *shape, weft_error *err)
{
    engine *e = s->engine;
    const double began = scheduler_now(s);
    const weft_status status = engine_step_rows(e, s->works, n, err);
    bool failed = status != WEFT_OK;
    for (int i = 0; i < n; i++)
        failed = failed && s->works[i].status == WEFT_OK;
    if (failed)
        return status; /* of the whole call: nothing has run */
    *err = (weft_error){ 0 };
    const double forward = scheduler_now(s) - began;
    int n_draw = 0;
    for (int i = 0; i < n; i++)
        if (read_rows(s, s->busy[i], &s->works[i]))
            s->busy[n_draw++] = s->busy[i];
    const double drew = scheduler_now(s);
    pool_run(e->pool, n_draw, draw, s);
    const double seconds = forward + scheduler_now(s) - drew;
    if (status == WEFT_OK)
        step_cost_learn(&s->cost, shape, seconds);
    tell_step(s, shape, n_draw, began, seconds);
    int64_t n_new = 0;
    for (int i = 0; i < n_draw; i++)
        n_new += pass_on(s, s->busy[i]);
    pthread_mutex_lock(&s->lock);
    s->info.n_new += n_new;
    s->info.n_step++;
    s->info.step_seconds += seconds;
    pthread_mutex_unlock(&s->lock);
    return WEFT_OK;
}

/* The figures that others read; true if requests remain. */
static bool report(scheduler *s)
{
    const pages *p = &s->engine->pages;
    pthread_mutex_lock(&s->lock);
    weft_scheduler_info *i = &s->info;
    i->n_running = s->n_running;
    i->n_page = p->n_page;
    i->n_page_idle = p->n_idle;
    i->n_page_used = p->n_page - pages_available(p);
    const bool more = s->all != NULL;
    pthread_mutex_unlock(&s->lock);
    return more;
}

weft_status scheduler_step(scheduler *s, bool *more, weft_error *err)
{
    scheduler_take_incoming(s);
    end_cancelled(s, s->running, &s->n_running);
    end_cancelled(s, s->waiting, &s->n_waiting);
    const schedule_state state = decide(s);
    const bool moved = move(s, &state);
    const int n = fill_works(s);
    weft_status status = WEFT_OK;
    if (n > 0)
        status = compute(s, n, &state.shape, err);
    else if (!moved)
        end_stuck(s);
    *more = report(s);
    s->ended = *more ? s->ended : -1;
    return status;
}
