/* ranks.c - waiting, sharing and telling, over the messages of a comm. */
#include "dist/ranks.h"

#include "base/clock.h"

#include <sched.h>

#define LEAST_LIMIT 60

void ranks_stepped(ranks *r, double seconds)
{
    const double ten = 10 * seconds;
    if (r->follows)
        r->limit = ten > LEAST_LIMIT ? ten : LEAST_LIMIT;
}

static weft_status lost(const ranks *r, int peer, weft_error *err)
{
    return weft_fail(err, WEFT_EIO,
                     "no message from or to rank %d for %.0f s; its process was stopped, or its "
                     "machine is lost; restart the run with --resume",
                     peer, r->limit);
}

/* Others may need the processor on which this rank would spin. */
weft_status ranks_wait(ranks *r, int ticket, int peer, weft_error *err)
{
    const double began = clock_seconds();
    weft_status status;
    bool done = false;
    for (;;) {
        status = r->comm->poll(r->comm, ticket, &done, err);
        if (status != WEFT_OK || done)
            break;
        if (r->limit > 0 && clock_seconds() - began > r->limit) {
            status = lost(r, peer, err);
            break;
        }
        sched_yield();
    }
    return status;
}

/* A transfer with each other rank. */
typedef struct tickets {
    int with[MAX_RANK];
} tickets;

static weft_status wait_all(ranks *r, const tickets *t, weft_error *err)
{
    weft_status status = WEFT_OK;
    for (int i = 0; i < n_rank(r) && status == WEFT_OK; i++)
        if (i != rank_of(r))
            status = ranks_wait(r, t->with[i], i, err);
    return status;
}

weft_status ranks_share(ranks *r, void *all, size_t each, weft_error *err)
{
    tickets in, out;
    comm *c = r->comm;
    weft_status status = WEFT_OK;
    if (!c)
        return WEFT_OK;
    const char *own = (char *)all + (size_t)c->rank * each; /* bounded: all[size][each] */
    for (int i = 0; i < c->size && status == WEFT_OK; i++) {
        char *to = (char *)all + (size_t)i * each; /* bounded: likewise */
        if (i == c->rank)
            continue;
        status = c->receive(c, to, each, i, TAG_SHARE, &in.with[i], err);
        if (status == WEFT_OK)
            status = c->send(c, own, each, i, TAG_SHARE, &out.with[i], err);
    }
    if (status == WEFT_OK)
        status = wait_all(r, &in, err);
    return status == WEFT_OK ? wait_all(r, &out, err) : status;
}

static weft_status tell_others(ranks *r, void *at, size_t n, weft_error *err)
{
    tickets out;
    comm *c = r->comm;
    weft_status status = WEFT_OK;
    for (int i = 1; i < c->size && status == WEFT_OK; i++)
        status = c->send(c, at, n, i, TAG_TELL, &out.with[i], err);
    return status == WEFT_OK ? wait_all(r, &out, err) : status;
}

weft_status ranks_tell(ranks *r, void *at, size_t n, bool slow, weft_error *err)
{
    int ticket;
    if (!r->comm)
        return WEFT_OK;
    if (rank_of(r) == 0)
        return tell_others(r, at, n, err);
    const double limit = r->limit;
    weft_status status = r->comm->receive(r->comm, at, n, 0, TAG_TELL, &ticket, err);
    r->limit = slow ? 10 * limit : limit;
    if (status == WEFT_OK)
        status = ranks_wait(r, ticket, 0, err);
    r->limit = limit;
    return status;
}
