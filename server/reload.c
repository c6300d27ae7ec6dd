/* reload.c - the thread that loads models and adapters again after a SIGHUP. Files may be slow, and gains are divided by
 * norms of whole matrices: streams and new requests do not wait for that. */
#include "service.h"

#include <stdio.h>

void reload_ask(server *s)
{
    atomic_fetch_add(&s->n_asked, 1);
    atomic_store(&s->reload_asked, true);
    ring_wake(&s->reload);
}

/* What a sandbox may have to do with a failure. */
static const char *hint(const server *s)
{
    return s->sandbox.landlock ? "; if it may not open a file, start with --allow-read" : "";
}

/* The new instance takes the place of the old one itself. */
static void load_again(service *v)
{
    server *s = v->server;
    instance *i = instance_start(v, worker_main);
    while (i && atomic_load(&i->state) == INSTANCE_LOADING && !atomic_load(&s->stopping))
        ring_wait(&s->reload, -1);
    if (i && atomic_load(&i->state) == INSTANCE_READY)
        fprintf(stderr, "weft: %s: reloaded\n", v->spec->name);
    else if (!atomic_load(&s->stopping))
        fprintf(stderr, "weft: %s: reload failed%s; still serving the old model%s\n", v->spec->name,
                i ? "" : ": no memory or thread", hint(s));
}

/* The old set stays on failure. */
static void load_adapters(instance *i)
{
    char why[1024];
    if (!adapters_load(&i->adapters, &i->model, why, sizeof why))
        fprintf(stderr, "weft: adapters: %s; still serving the old adapters%s\n", why,
                hint(i->server));
}

static void reload(server *s)
{
    for (int k = 0; k < s->n_service && !atomic_load(&s->stopping); k++) {
        service *v = &s->services[k];
        instance *now = service_hold(s, k);
        const bool changed = spec_stamp(v->spec) != now->stamp;
        if (!changed && has_adapters(s))
            load_adapters(now);
        else if (!changed)
            fprintf(stderr, "weft: %s: its files have not changed\n", v->spec->name);
        instance_release(now);
        if (changed)
            load_again(v);
    }
}

/* A signal that comes while models load is followed by another round. */
void *reload_main(void *ud)
{
    server *s = ud;
    while (!atomic_load(&s->stopping)) {
        instances_reap(s);
        if (atomic_load(&s->phase) == PHASE_READY && atomic_exchange(&s->reload_asked, false)) {
            const int n = atomic_load(&s->n_asked);
            reload(s);
            atomic_store(&s->n_reloaded, n);
            ring_wake(&s->ready); /* the loop says so */
        } else {
            ring_wait(&s->reload, -1);
        }
    }
    return NULL;
}
