/* ring.c - a bounded queue between threads; see ring.h. */
#include "ring.h"

#include "memory.h"

#include <poll.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <unistd.h>

bool ring_init(ring *r, size_t room)
{
    *r = (ring){ .room = room };
    r->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    r->at = memory_take(room * sizeof *r->at);
    return pthread_mutex_init(&r->lock, NULL) == 0 && r->event >= 0 && r->at;
}

void ring_free(ring *r)
{
    if (r->room == 0)
        return;
    if (r->event >= 0)
        close(r->event);
    memory_give(r->at);
    pthread_mutex_destroy(&r->lock);
    *r = (ring){ 0 };
}

void ring_wake(ring *r)
{
    const uint64_t one = 1;
    const ssize_t written = write(r->event, &one, sizeof one);
    (void)written; /* full means that it is readable already */
}

bool ring_push(ring *r, void *item)
{
    pthread_mutex_lock(&r->lock);
    const bool fits = r->n < r->room;
    if (fits)
        r->at[(r->first + r->n++) % r->room] = item;
    pthread_mutex_unlock(&r->lock);
    if (fits)
        ring_wake(r);
    return fits;
}

void *ring_pop(ring *r)
{
    void *item = NULL;
    pthread_mutex_lock(&r->lock);
    if (r->n > 0) {
        item = r->at[r->first];
        r->first = (r->first + 1) % r->room;
        r->n--;
    }
    pthread_mutex_unlock(&r->lock);
    return item;
}

void ring_clear(ring *r)
{
    uint64_t count;
    const ssize_t n = read(r->event, &count, sizeof count);
    (void)n; /* nothing to read: somebody else did */
}

void ring_wait(ring *r, int milliseconds)
{
    struct pollfd p = { .fd = r->event, .events = POLLIN };
    poll(&p, 1, milliseconds);
    ring_clear(r);
}
