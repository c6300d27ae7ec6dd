/* scheduler.h - many requests on one engine, a forward at a time.
 *
 *     submit -> incoming -> waiting -> running -> done
 *                              ^          |
 *                              +----------+  preempted: keeps its tokens, not its pages
 *
 * schedule.h decides, prefix.h finds and keeps pages, request.h has the tokens and the text. The
 * thread that steps owns everything but what `lock` guards: the list of all requests, those
 * incoming, and the figures that others read. */
#ifndef WEFT_ENGINE_SCHEDULER_H
#define WEFT_ENGINE_SCHEDULER_H

#include "engine/request.h"
#include "engine/schedule.h"

#include <pthread.h>

typedef struct scheduler {
    engine *engine;
    mem *mem;
    weft_scheduler_options opt; /* defaults filled in */
    prefix prefix;
    fair_keys keys;
    step_cost cost;

    double (*now)(void *ud); /* seconds; a simulator has a clock of its own */
    void *now_ud;
    double ended; /* when the last forward did, if requests remained then; otherwise below 0 */

    session **spare; /* [n_running] sessions without a request */
    int n_spare;
    request **running, **waiting; /* [n_running], [room] */
    int n_running, n_waiting, room;
    schedule_entry *entry; /* [n_running + room], the running ones first */
    work *works;           /* [n_running] */
    request **busy;        /* [n_running]: the requests of the works, then those that draw */

    pthread_mutex_t lock;
    request *all;                /* requests that are not done */
    request *incoming, **coming; /* those that no step has seen, and where the next goes */
    uint64_t last_number;
    weft_scheduler_info info;
} scheduler;

/* options: read, defaults not yet filled in. */
scheduler *scheduler_new(engine *e, const weft_scheduler_options *options, weft_error *err);

/* Ends all requests with WEFT_ESTOPPED. */
void scheduler_free(scheduler *s);

/* The number of the new request, or 0. Any thread. */
uint64_t scheduler_submit(scheduler *s, const request_spec *spec, weft_error *err);

/* False if there is no such request. Any thread. */
bool scheduler_cancel(scheduler *s, uint64_t number);

weft_status scheduler_step(scheduler *s, bool *more, weft_error *err);

/* Any thread. */
weft_scheduler_info scheduler_info(scheduler *s);

static inline double scheduler_now(const scheduler *s)
{
    return s->now(s->now_ud);
}

/* ---- moves between the lists, for the thread that steps (scheduler_moves.c) ------------------- */

/* Makes incoming requests wait. */
void scheduler_take_incoming(scheduler *s);

/* A waiting request gets a session and the pages of its prefix. On failure it still waits, and its
 * err says why. */
weft_status scheduler_start(scheduler *s, request *r);

/* A running request gives its pages back and waits. */
void scheduler_preempt(scheduler *s, request *r);

/* Extends a session by cached pages. */
void scheduler_share(scheduler *s, request *r);

/* The last call of a request; frees it. */
void scheduler_end(scheduler *s, request *r, const weft_error *why);

#endif
