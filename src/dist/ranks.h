/* ranks.h - what the processes of one run do together besides computing: wait for messages with a
 * limit, share small blocks, and agree.
 *
 * A run that was started alone has no comm; then all of this does nothing, and rank is 0 of 1. Every
 * rank makes the same calls in the same order. */
#ifndef WEFT_DIST_RANKS_H
#define WEFT_DIST_RANKS_H

#include "base/comm.h"

#define MAX_RANK 1024

typedef enum rank_tag { TAG_SHARE, TAG_TELL, TAG_GRADIENT, TAG_VALUE, TAG_MOMENT } rank_tag;

typedef struct ranks {
    comm *comm;   /* NULL: alone */
    double limit; /* seconds to wait for a message before its sender counts as lost; 0: no limit */
    bool follows; /* the limit is set anew after each step, by its duration */
} ranks;

#define FIRST_LIMIT 600 /* seconds, where the limit follows: there is no step yet to compare with */

static inline int rank_of(const ranks *r)
{
    return r->comm ? r->comm->rank : 0;
}

static inline int n_rank(const ranks *r)
{
    return r->comm ? r->comm->size : 1;
}

/* After a step of so many seconds: a limit that follows is ten times that, and at least a minute. */
void ranks_stepped(ranks *r, double seconds);

/* Waits for a transfer with rank `peer`. After the limit it fails and names the peer. */
weft_status ranks_wait(ranks *r, int ticket, int peer, weft_error *err);

/* all[size][each]: each rank has filled in its own block, and gets those of the others. */
weft_status ranks_share(ranks *r, void *all, size_t each, weft_error *err);

/* Rank 0's n bytes, to all others. `slow`: it writes a file or calls back before that, and they wait
 * ten times as long. */
weft_status ranks_tell(ranks *r, void *at, size_t n, bool slow, weft_error *err);

#endif
