/* heart.h - is a thread alive? One that works beats; one that waits says so. */
#ifndef WEFT_SERVER_HEART_H
#define WEFT_SERVER_HEART_H

#include "ring.h"

#include <stdatomic.h>

typedef struct heart {
    atomic_ullong beats;
    atomic_bool waits;
    unsigned long long seen; /* beats, of the thread that asks */
} heart;

/* Has it beaten since it was asked, or nothing to do? */
static inline bool heart_lives(heart *h)
{
    const unsigned long long now = atomic_load(&h->beats);
    const bool lives = now != h->seen || atomic_load(&h->waits);
    h->seen = now;
    return lives;
}

static inline void heart_beat(heart *h)
{
    atomic_fetch_add(&h->beats, 1);
}

/* Around waiting, which counts as alive. */
static inline void heart_rest(heart *h)
{
    atomic_store(&h->waits, true);
}

static inline void heart_wake(heart *h)
{
    atomic_store(&h->waits, false);
    heart_beat(h);
}

/* Waits until there is something to do. */
static inline void heart_wait(heart *h, ring *r)
{
    heart_rest(h);
    ring_wait(r, -1);
    heart_wake(h);
}

#endif
