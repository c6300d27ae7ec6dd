/* service.c - instances of models: how they come, are found, and go; see service.h. */
#include "service.h"

#include <stdio.h>
#include <string.h>

uint64_t spec_stamp(const serve_spec *spec)
{
    return stamp_path(spec->path) + 3 * stamp_path(spec->tokenizer) +
           5 * stamp_path(spec->template);
}

/* ---- life ------------------------------------------------------------------------------------ */

static void free_instance(instance *i)
{
    if (i->ring.room)
        ring_free(&i->ring);
    cores_share_free(&i->share);
    memory_give(i);
}

static instance *make_instance(service *of)
{
    instance *i = memory_take(sizeof *i);
    if (!i)
        return NULL;
    i->service = of;
    i->server = of->server;
    i->refs = 1;
    if (cores_share_init(&i->share, of->spec->weight) &&
        ring_init(&i->ring, (size_t)of->server->max_of_model + 16) &&
        adapters_init(&i->adapters, &of->server->options.lora))
        return i;
    free_instance(i);
    return NULL;
}

instance *instance_start(service *of, void *(*worker)(void *))
{
    server *s = of->server;
    instance *i = make_instance(of);
    if (!i)
        return NULL;
    pthread_mutex_lock(&s->lock);
    const bool good = pthread_create(&i->thread, NULL, worker, i) == 0;
    if (good) {
        i->next = s->instances;
        s->instances = i;
    }
    pthread_mutex_unlock(&s->lock);
    if (good)
        return i;
    adapters_free(&i->adapters);
    free_instance(i);
    return NULL;
}

/* Wakes the thread under the lock: it cannot end and be joined in between. */
void instance_release(instance *i)
{
    if (!i)
        return;
    server *s = i->server;
    pthread_mutex_lock(&s->lock);
    if (--i->refs == 1 && !i->ended)
        ring_wake(&i->ring);
    pthread_mutex_unlock(&s->lock);
}

bool instance_is_used(instance *i)
{
    pthread_mutex_lock(&i->server->lock);
    const bool used = i->refs > 1;
    pthread_mutex_unlock(&i->server->lock);
    return used;
}

/* The server is ready with its last model. */
static bool all_loaded(const server *s)
{
    for (int k = 0; k < s->n_service; k++)
        if (!s->services[k].now)
            return false;
    return true;
}

void instance_loaded(instance *i, bool good)
{
    server *s = i->server;
    instance *old = NULL;
    pthread_mutex_lock(&s->lock);
    if (good) {
        old = i->service->now;
        i->service->now = i;
        i->refs++;
    }
    const bool none = !i->service->now, all = all_loaded(s);
    pthread_mutex_unlock(&s->lock);
    instance_release(old);
    if (none)
        atomic_store(&s->load_code, 1);
    int loading = PHASE_LOADING; /* it may be draining already */
    if (good && all)
        atomic_compare_exchange_strong(&s->phase, &loading, PHASE_READY);
    atomic_store(&i->state, good ? INSTANCE_READY : INSTANCE_FAILED);
    model_metrics *m = &i->service->metrics;
    atomic_fetch_add(good ? &m->n_load : &m->n_failed_load, 1);
    ring_wake(&s->ready);
    ring_wake(&s->reload);
}

void instance_ended(instance *i)
{
    server *s = i->server;
    pthread_mutex_lock(&s->lock);
    i->ended = true;
    pthread_mutex_unlock(&s->lock);
    ring_wake(&s->reload);
}

/* Takes one that has ended out of the list. */
static instance *take_ended(server *s)
{
    pthread_mutex_lock(&s->lock);
    instance **link = &s->instances;
    while (*link && !(*link)->ended)
        link = &(*link)->next;
    instance *found = *link;
    if (found)
        *link = found->next;
    pthread_mutex_unlock(&s->lock);
    return found;
}

void instances_reap(server *s)
{
    for (instance *i; (i = take_ended(s));) {
        pthread_join(i->thread, NULL);
        free_instance(i);
    }
}

void instances_stop(server *s)
{
    pthread_mutex_lock(&s->lock);
    for (instance *i = s->instances; i; i = i->next)
        ring_wake(&i->ring);
    pthread_mutex_unlock(&s->lock);
    for (instance *i = s->instances; i; i = i->next)
        pthread_join(i->thread, NULL);
}

void instances_free(server *s)
{
    for (instance *i; (i = s->instances);) {
        s->instances = i->next;
        free_instance(i);
    }
}

/* One that loads may be slow. */
bool instances_live(server *s)
{
    bool live = true;
    pthread_mutex_lock(&s->lock);
    for (instance *i = s->instances; i; i = i->next)
        if (atomic_load(&i->state) == INSTANCE_READY && !i->ended)
            live = heart_lives(&i->heart) && live;
    pthread_mutex_unlock(&s->lock);
    return live;
}

bool services_loaded(server *s)
{
    pthread_mutex_lock(&s->lock);
    const bool all = all_loaded(s);
    pthread_mutex_unlock(&s->lock);
    return all;
}

/* ---- names ----------------------------------------------------------------------------------- */

instance *service_hold(server *s, int k)
{
    pthread_mutex_lock(&s->lock);
    instance *i = s->services[k].now;
    if (i)
        i->refs++;
    pthread_mutex_unlock(&s->lock);
    return i;
}

/* Names of models come before names of adapters. */
instance *service_find(server *s, const char *name, served_adapter **adapter)
{
    *adapter = NULL;
    for (int k = 0; k < s->n_service; k++)
        if (strcmp(s->services[k].spec->name, name) == 0)
            return service_hold(s, k);
    for (int k = 0; k < s->n_service; k++) {
        instance *i = service_hold(s, k);
        *adapter = i ? adapters_find(&i->adapters, i->model.name, name) : NULL;
        if (*adapter)
            return i;
        instance_release(i);
    }
    return NULL;
}
