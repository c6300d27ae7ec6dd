/* ring.h - a bounded queue of pointers between threads. An eventfd says that something is in it:
 * a loop can wait for it beside sockets, and a thread by reading it. */
#ifndef WEFT_SERVER_RING_H
#define WEFT_SERVER_RING_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

typedef struct ring {
    pthread_mutex_t lock;
    void **at;
    size_t room, first, n;
    int event; /* readable while something may be in the ring */
} ring;

/* False where memory or a descriptor is refused. */
bool ring_init(ring *r, size_t room);
void ring_free(ring *r);

/* False if it is full. */
bool ring_push(ring *r, void *item);

/* NULL if it is empty. */
void *ring_pop(ring *r);

/* Wakes whoever waits, without an item. */
void ring_wake(ring *r);

/* Waits until an item was pushed or somebody woke the ring, at most so long; -1: for ever. */
void ring_wait(ring *r, int milliseconds);

/* After the descriptor was readable: forgets it, before the items are popped. */
void ring_clear(ring *r);

#endif
