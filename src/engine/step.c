/* step.c - one forward for several sessions: selects rows, reserves pages, distributes logits.
 *
 * Wrong arguments fail the whole call before anything happens. A full context, a lack of pages and
 * non-finite logits fail one work alone: the others get the bits they would get without it, since
 * no row depends on other sequences in the batch. */
#include "engine/session.h"

#include <stddef.h>
#include <string.h>

static int64_t left(const work *w)
{
    return w->status == WEFT_OK ? w->n - w->done : 0;
}

/* Marks a work as failed; its session keeps the message. */
static void fail_work(work *w, const weft_error *why)
{
    w->status = why->code;
    w->take = 0;
    w->fails = true;
    memcpy(w->session->failure, why->message, sizeof w->session->failure);
}

/* The first failed work, of those in this step or of all. */
static weft_status first_failure(const work *w, int n, bool any, weft_error *err)
{
    for (int i = 0; i < n; i++) {
        if (w[i].status == WEFT_OK || !(any || w[i].fails))
            continue;
        const char *why = w[i].session->failure;
        return n > 1 ? weft_fail(err, w[i].status, "work %d: %s", i, why)
                     : weft_fail(err, w[i].status, "%s", why);
    }
    return WEFT_OK;
}

static weft_status check_step_tokens(const engine *e, const work *w, weft_error *err)
{
    const int64_t V = e->model->n_vocab;
    for (int64_t k = w->done; k < w->n; k++)
        if (w->ids[k] < 0 || w->ids[k] >= V)
            return weft_fail(err, WEFT_EINVAL,
                             "token %lld of the input is %d, the vocabulary has %lld", (long long)k,
                             (int)w->ids[k], (long long)V);
    return WEFT_OK;
}

static weft_status check_work(const engine *e, const work *w, int n, weft_error *err)
{
    for (int i = 0; i < n; i++) {
        const session *s = w[i].session;
        if (s->engine != e || w[i].n < 1 || w[i].done < 0 || w[i].done > w[i].n)
            return weft_fail(err, WEFT_EINVAL, "work %d: %s", i,
                             w[i].n < 1       ? "no tokens"
                             : s->engine != e ? "the session belongs to another engine"
                                              : "done is outside 0 to n");
        if (model_has_source(e->model) && s->source.length == 0)
            return weft_fail(
                err, WEFT_EINVAL,
                "work %d: the model is an encoder-decoder, and its session has no source", i);
        for (int k = 0; k < i; k++)
            if (w[k].session == s)
                return weft_fail(err, WEFT_EINVAL, "work %d and %d are for the same session", k, i);
        const weft_status status = check_step_tokens(e, &w[i], err);
        if (status != WEFT_OK)
            return status;
    }
    return WEFT_OK;
}

/* ---- which rows ------------------------------------------------------------------------------ */

/* A cancellation applies once, and is not a failure. */
static void leave_cancelled(work *w, int n)
{
    weft_error why;
    for (int i = 0; i < n; i++) {
        if (left(&w[i]) > 0 && atomic_exchange(&w[i].session->cancelled, false)) {
            weft_fail(&why, WEFT_ESTOPPED, "its session was cancelled");
            fail_work(&w[i], &why);
        }
        w[i].fails = false;
    }
}

/* Works that do not fit into the context fail before any of their tokens is evaluated. */
static void leave_too_long(const engine *e, work *w, int n)
{
    weft_error why;
    for (int i = 0; i < n; i++) {
        const int64_t length = w[i].session->cache.length;
        if (left(&w[i]) <= e->opt.n_ctx - length)
            continue;
        weft_fail(&why, WEFT_ECONTEXT,
                  "the context of %lld tokens holds %lld; %lld more do not fit",
                  (long long)e->opt.n_ctx, (long long)length, (long long)left(&w[i]));
        fail_work(&w[i], &why);
    }
}

/* One row for each work with one left, then equal shares of the remaining rows for the others. */
static void share_rows(const engine *e, work *w, int n)
{
    int64_t room = e->opt.n_batch;
    int seats = e->opt.n_session, waiting = 0;
    for (int i = 0; i < n; i++) {
        w[i].take = left(&w[i]) == 1 && room > 0 && seats > 0;
        room -= w[i].take;
        seats -= (int)w[i].take;
        waiting += left(&w[i]) > 1;
    }
    waiting = waiting < seats ? waiting : seats;
    for (int i = 0; i < n && waiting > 0; i++) {
        if (left(&w[i]) <= 1)
            continue;
        const int64_t part = (room + waiting - 1) / waiting;
        w[i].take = left(&w[i]) < part ? left(&w[i]) : part;
        room -= w[i].take;
        waiting--;
    }
    for (int i = 0; i < n && room > 0; i++) { /* rows that short works left over */
        const int64_t more = w[i].take > 0 ? left(&w[i]) - w[i].take : 0;
        w[i].take += more < room ? more : room;
        room -= more < room ? more : room;
    }
}

/* The rows of the works whose adapters replace the weights that `like`'s does; and of no others. */
static void fill_batch(engine *e, const work *w, int n, const session *like)
{
    batch *b = &e->batch;
    const int64_t wanted = e->n_read > 1 ? e->n_read : 1;
    b->n_row = b->n_seq = b->n_wanted = 0;
    b->src = &e->src;
    e->src.n_row = e->src.n_seq = 0;
    b->rank = e->src.rank = e->opt.rank;
    b->whole = e->src.whole = session_whole(like);
    for (int i = 0; i < n; i++) {
        session *s = w[i].session;
        if (w[i].take == 0 || session_whole(s) != b->whole)
            continue;
        s->planned = left(&w[i]);
        s->has_logits = s->poisoned = false;
        b->seq[b->n_seq] = (sequence){ b->n_row, (int32_t)w[i].take, -1, &s->cache, s->adapted };
        if (model_has_source(e->model)) {
            b->seq[b->n_seq].source = e->src.n_seq;
            e->src.seq[e->src.n_seq++] = (sequence){ .source = -1,
                                                     .cache = &s->source,
                                                     .adapted = s->adapted };
        }
        for (int64_t k = 0; k < w[i].take; k++) {
            const bool asked = s->planned - k <= wanted || s->read || e->run.show.all_logits;
            b->row[b->n_row++] = (batch_row){ .id = w[i].ids[w[i].done + k],
                                              .seq = b->n_seq,
                                              .pos = (int32_t)(s->cache.length + k),
                                              .target = NO_TARGET,
                                              .wanted = asked };
            b->n_wanted += asked;
        }
        b->n_seq++;
    }
}

/* ---- pages ----------------------------------------------------------------------------------- */

/* The page for a session's next row, if it already has rows. */
static char **partial_page(const session *s)
{
    return s->cache.length % PAGE_ROWS ? &s->cache.page[s->cache.n_page - 1] : NULL;
}

/* Must work i copy its partly filled page? Not if all other holders come before it and copy it. */
static bool must_copy(const engine *e, const work *w, int i)
{
    char *const *page = partial_page(w[i].session);
    if (!page || w[i].take == 0)
        return false;
    int64_t holders = pages_holders(&e->pages, *page);
    for (int k = 0; k < i && holders > 1; k++) {
        char *const *other = partial_page(w[k].session);
        holders -= w[k].take > 0 && other && *other == *page;
    }
    return holders > 1;
}

/* In the order of the works; those without pages fail. */
static void reserve_pages(const engine *e, work *w, int n)
{
    int64_t n_free = pages_available(&e->pages);
    for (int i = 0; i < n; i++) {
        const cache *c = &w[i].session->cache;
        const int64_t need = pages_for(c->length + w[i].take) - c->n_page + must_copy(e, w, i);
        weft_error why;
        if (need <= n_free) {
            n_free -= need;
            continue;
        }
        weft_fail(&why, WEFT_ECONTEXT,
                  "%lld cache pages are needed, but %lld of %lld are free; the engine has a cache "
                  "of %lld positions for all sessions",
                  (long long)need, (long long)n_free, (long long)e->pages.n_page,
                  (long long)e->opt.n_cache);
        fail_work(&w[i], &why);
    }
}

static void take_pages(engine *e, const work *w, int n)
{
    for (int i = 0; i < n; i++) {
        cache *c = &w[i].session->cache;
        char **begun = partial_page(w[i].session);
        if (w[i].take > 0 && begun && pages_holders(&e->pages, *begun) > 1) {
            char *own = pages_take(&e->pages);
            pages_copy(&e->pages, own, *begun, c->length % PAGE_ROWS);
            pages_drop(&e->pages, *begun);
            *begun = own;
        }
        while (c->n_page < pages_for(c->length + w[i].take))
            c->page[c->n_page++] = pages_take(&e->pages);
    }
}

/* ---- the output ------------------------------------------------------------------------------- */

static session *session_of(const sequence *q)
{
    return (session *)(void *)((char *)q->cache - offsetof(session, cache));
}

static bool all_finite(const tensor *z, int64_t i)
{
    for (int64_t k = 0; k < cols(z); k++)
        if (!isfinite(row(z, i)[k]))
            return false;
    return true;
}

/* The logits of a part of the rows. */
typedef struct logits_part {
    engine *engine;
    const tensor *z;
} logits_part;

static void show_row(void *arg, int64_t i)
{
    const logits_part *p = arg;
    const batch *b = &p->engine->batch;
    const batch_row *of = &b->row[p->engine->part[i]];
    const session *s = session_of(&b->seq[of->seq]);
    if (s->read && !s->poisoned)
        s->read(s->read_ud, of->pos, row(p->z, i));
}

/* A session keeps the logits after its last row; the readers see those of all rows as long as they
 * are finite. */
void engine_take_logits(void *ud, const tensor *z, int64_t first)
{
    engine *e = ud;
    bool shown = false;
    for (int64_t i = 0; i < rows(z) && !e->run.hunt_nan; i++) {
        while (!e->batch.row[e->next_row].wanted)
            e->next_row++;
        e->part[i] = (int32_t)e->next_row;
        const sequence *q = &e->batch.seq[e->batch.row[e->next_row++].seq];
        session *s = session_of(q);
        const bool last = e->next_row == q->first + q->n && s->planned == q->n;
        if (!all_finite(z, i))
            s->poisoned = e->poisoned = true;
        shown = shown || s->read;
        for (int64_t k = 0; last && k < cols(z); k++)
            s->logits[k] = (float)row(z, i)[k];
    }
    if (shown)
        pool_run(e->pool, rows(z), show_row, &(logits_part){ e, z });
    if (e->read && !e->poisoned)
        e->read(e->read_ud, z, first);
}

/* Commits the computed rows. */
static void commit_rows(work *w, int n)
{
    for (int i = 0; i < n; i++) {
        session *s = w[i].session;
        if (w[i].take == 0 || s->poisoned)
            continue;
        for (int64_t k = 0; k < w[i].take; k++)
            s->ids[s->cache.length++] = w[i].ids[w[i].done++];
        s->has_logits = left(&w[i]) == 0;
    }
}

/* Runs the rows of one work again, alone, and checks every tensor, to name the first non-finite
 * one. */
static void name_poison(engine *e, work *w)
{
    weft_error why;
    fill_batch(e, w, 1, w->session);
    e->run.hunt_nan = true;
    run_begin(&e->run, &e->batch);
    model_forward(&e->run, e->model);
    e->run.hunt_nan = false;
    session_cut(w->session, w->session->cache.length);
    weft_fail(&why, WEFT_ENUMERIC, "%s: non-finite logits; first non-finite tensor: %s",
              e->model->file.path, e->run.at.first_nan);
    fail_work(w, &why);
}

/* A forward for each set of weights in place of the model's: mostly there is one. */
static void run_step(engine *e, work *w, int n)
{
    e->poisoned = false;
    for (int i = 0; i < n; i++) {
        bool done = w[i].take == 0;
        for (int k = 0; k < i && !done; k++)
            done = w[k].take > 0 && session_whole(w[k].session) == session_whole(w[i].session);
        if (done)
            continue;
        fill_batch(e, w, n, w[i].session);
        run_begin(&e->run, &e->batch);
        e->next_row = 0;
        model_forward(&e->run, e->model);
    }
    commit_rows(w, n);
    for (int i = 0; i < n && e->poisoned; i++)
        if (w[i].take > 0 && w[i].session->poisoned)
            name_poison(e, &w[i]);
}

/* ---- steps ----------------------------------------------------------------------------------- */

/* An error here concerns the whole call: no work has advanced. */
static weft_status step_once(engine *e, work *w, int n, bool chosen, weft_error *err)
{
    weft_status status = check_work(e, w, n, err);
    if (status == WEFT_OK)
        status = pool_ready(e->pool, err);
    if (status != WEFT_OK)
        return status;
    leave_cancelled(w, n);
    leave_too_long(e, w, n);
    if (!chosen)
        share_rows(e, w, n);
    reserve_pages(e, w, n);
    take_pages(e, w, n);
    run_step(e, w, n);
    return WEFT_OK;
}

weft_status engine_step(engine *e, work *w, int n, weft_error *err)
{
    const weft_status status = step_once(e, w, n, false, err);
    return status == WEFT_OK ? first_failure(w, n, false, err) : status;
}

weft_status engine_step_rows(engine *e, work *w, int n, weft_error *err)
{
    const weft_status status = step_once(e, w, n, true, err);
    return status == WEFT_OK ? first_failure(w, n, false, err) : status;
}

/* Rewinds the session to its tokens before the work. */
static void undo_work(work *w)
{
    if (w->done > 0)
        w->session->has_logits = false;
    session_cut(w->session, w->session->cache.length - w->done);
    w->done = 0;
}

/* Works that cannot fit fail before the first forward. */
static weft_status begin_works(engine *e, work *w, int n, weft_error *err)
{
    for (int i = 0; i < n; i++) {
        w[i].done = 0;
        w[i].status = WEFT_OK;
        w[i].take = w[i].n;
    }
    const weft_status status = check_work(e, w, n, err);
    if (status != WEFT_OK)
        return status;
    leave_too_long(e, w, n);
    reserve_pages(e, w, n);
    return WEFT_OK;
}

static int count_busy(const work *w, int n)
{
    int busy = 0;
    for (int i = 0; i < n; i++)
        busy += left(&w[i]) > 0;
    return busy;
}

weft_status engine_eval(engine *e, work *w, int n, weft_error *err)
{
    weft_status status = begin_works(e, w, n, err);
    while (status == WEFT_OK && count_busy(w, n) > 0)
        status = step_once(e, w, n, false, err);
    for (int i = 0; i < n; i++)
        if (status != WEFT_OK || w[i].status != WEFT_OK)
            undo_work(&w[i]);
    return status == WEFT_OK ? first_failure(w, n, true, err) : status;
}

weft_status session_sync(session *s, const int32_t *ids, int64_t n, int64_t *reused,
                         weft_error *err)
{
    *reused = session_match(s, ids, n);
    if (*reused == n)
        return WEFT_OK;
    work w = { .session = s, .ids = ids + *reused, .n = n - *reused };
    return engine_eval(s->engine, &w, 1, err);
}
