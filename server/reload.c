/* reload.c - the thread that loads adapters after a SIGHUP. Files may be slow, and gains are divided
 * by norms of whole matrices: streams and new requests do not wait for that. */
#include "server.h"

#include <stdio.h>

void reload_ask(server *s)
{
    atomic_store(&s->reload_asked, true);
    ring_wake(&s->reload);
}

/* The old set stays on failure. */
static void reload(server *s)
{
    char why[1024];
    if (!adapters_load(&s->adapters, &s->model, why, sizeof why))
        fprintf(stderr, "weft: adapters: %s; those of before are served\n", why);
}

/* A signal that comes while the model loads waits for it; one that comes while adapters load is
 * followed by another round. */
void *reload_main(void *ud)
{
    server *s = ud;
    while (!atomic_load(&s->stopping)) {
        ring_wait(&s->reload, -1);
        const bool ready = atomic_load(&s->phase) == PHASE_READY;
        if (ready && !atomic_load(&s->stopping) && atomic_exchange(&s->reload_asked, false))
            reload(s);
    }
    return NULL;
}
