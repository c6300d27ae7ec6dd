/* scheduler_moves.c - requests move between the lists of a scheduler: incoming, waiting, running,
 * done. */
#include "engine/scheduler.h"

#include <assert.h>
#include <string.h>

static void list_remove(request **list, int *n, const request *r)
{
    int i = 0;
    while (list[i] != r)
        i++;
    memmove(list + i, list + i + 1, (size_t)(*n - i - 1) * sizeof *list);
    --*n;
}

/* Counts what waits, for others to read. */
static void count_waiting(scheduler *s, const request *r, int by)
{
    pthread_mutex_lock(&s->lock);
    s->info.n_waiting += by;
    s->info.n_waiting_tokens += by * request_tokens(r);
    pthread_mutex_unlock(&s->lock);
}

/* ---- arrival --------------------------------------------------------------------------------- */

static void arrive(scheduler *s, request *r)
{
    assert(s->n_waiting < s->room);
    s->waiting[s->n_waiting++] = r;
    r->key = fair_keys_enter(&s->keys, r->key_name);
    if (r->spec.adapted.set && r->spec.adapted.strength != 0) {
        r->root.adapter = r->spec.adapted.set->serial;
        r->root.strength = r->spec.adapted.strength;
    }
    r->root.salt = s->opt.share_prefixes ? 0 : s->keys.key[r->key].salt;
    if (!r->spec.source)
        return;
    r->root.source = prefix_source_hold(&s->prefix, r->spec.source, r->spec.n_source, &r->err);
    if (!r->root.source) {
        const weft_error why = r->err;
        scheduler_end(s, r, &why);
    }
}

void scheduler_take_incoming(scheduler *s)
{
    pthread_mutex_lock(&s->lock);
    request *r = s->incoming;
    s->incoming = NULL;
    s->coming = &s->incoming;
    pthread_mutex_unlock(&s->lock);
    for (request *next; r; r = next) {
        next = r->queued;
        arrive(s, r);
    }
}

/* ---- running --------------------------------------------------------------------------------- */

void scheduler_share(scheduler *s, request *r)
{
    session *of = r->session;
    const int64_t before = of->cache.length;
    if (before != r->n_kept * PAGE_ROWS)
        return; /* in the middle of a page */
    prefix_share(&s->prefix, &r->root, of, r->ids, request_sharable(r), &r->n_kept);
    const int64_t n_prompt = r->spec.opt.n_prompt, length = of->cache.length;
    const int64_t n = (length < n_prompt ? length : n_prompt) - before;
    if (n <= 0 || r->text.to.n_preempted > 0)
        return; /* only the prompt counts, and not what it computed itself before */
    r->text.to.n_reused += n;
    pthread_mutex_lock(&s->lock);
    s->info.n_reused += n;
    pthread_mutex_unlock(&s->lock);
}

weft_status scheduler_start(scheduler *s, request *r)
{
    const bool first = !r->began;
    assert(s->n_spare > 0);
    const weft_status status = request_begin(r, s->spare[s->n_spare - 1]);
    if (status != WEFT_OK)
        return status;
    s->n_spare--;
    list_remove(s->waiting, &s->n_waiting, r);
    s->running[s->n_running++] = r;
    count_waiting(s, r, -1);
    scheduler_share(s, r);
    if (!first)
        return WEFT_OK;
    r->started = scheduler_now(s);
    pthread_mutex_lock(&s->lock);
    s->info.n_prompt += r->spec.opt.n_prompt;
    s->info.n_queried += r->told ? 0 : r->spec.opt.n_prompt;
    pthread_mutex_unlock(&s->lock);
    return WEFT_OK;
}

/* Takes its session, with all pages. */
static void stop_running(scheduler *s, request *r)
{
    list_remove(s->running, &s->n_running, r);
    s->spare[s->n_spare++] = request_pause(r);
}

void scheduler_preempt(scheduler *s, request *r)
{
    stop_running(s, r);
    s->waiting[s->n_waiting++] = r;
    r->text.to.n_preempted++;
    count_waiting(s, r, 1);
    pthread_mutex_lock(&s->lock);
    s->info.n_preempted++;
    pthread_mutex_unlock(&s->lock);
}

/* ---- the end --------------------------------------------------------------------------------- */

static void set_times(const scheduler *s, request *r)
{
    const double now = scheduler_now(s);
    const double started = r->started > 0 ? r->started : now;
    const double first = r->first > 0 ? r->first : now;
    r->text.to.queue_seconds = started - r->submitted;
    r->text.to.prompt_seconds = first - started;
    r->text.to.generate_seconds = now - first;
}

/* From the list of those that can be cancelled. */
static void unlist(scheduler *s, request *r)
{
    pthread_mutex_lock(&s->lock);
    *(r->before ? &r->before->next : &s->all) = r->next;
    if (r->next)
        r->next->before = r->before;
    s->info.n_done++;
    pthread_mutex_unlock(&s->lock);
}

void scheduler_end(scheduler *s, request *r, const weft_error *why)
{
    if (r->session) {
        stop_running(s, r);
    } else {
        list_remove(s->waiting, &s->n_waiting, r);
        count_waiting(s, r, -1);
    }
    set_times(s, r);
    prefix_source_drop(&s->prefix, r->root.source);
    fair_keys_leave(&s->keys, r->key);
    unlist(s, r);
    if (r->spec.done)
        r->spec.done(r->spec.ud, &r->text.to, why);
    request_free(r, s->mem);
}
