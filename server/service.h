/* service.h - the models that are served, each under a name.
 *
 * A service is a name that clients use; an instance is one load of its model, with an engine, a scheduler and a
 * thread of its own. A reload makes a new instance beside the old one. Requests that come then get the new one; the old
 * one ends with its last request.
 *
 *     service "chat" --now--> instance  <-- jobs
 *                             instance  <-- jobs from before the reload
 *
 * Whoever uses an instance holds it. All functions here are for any thread. */
#ifndef WEFT_SERVER_SERVICE_H
#define WEFT_SERVER_SERVICE_H

#include "server.h"

typedef enum instance_state { INSTANCE_LOADING, INSTANCE_READY, INSTANCE_FAILED } instance_state;

struct instance {
    service *service;
    server *server;
    instance *next; /* of all whose threads have not been joined */
    int refs;       /* under the server's lock: its thread, the service, each of its jobs */
    bool ended;     /* under the server's lock: its thread does nothing more */
    atomic_int state;
    pthread_t thread;

    /* from its loading to its end */
    uint64_t stamp; /* of the files that it was loaded from */
    serve_model model;
    adapters adapters;
    int64_t n_ctx;
    weft_scheduler *_Atomic scheduler; /* NULL: the model does not generate */
    ring ring;                         /* jobs for its thread */
    cores_share share;
    heart heart;       /* of its thread */
    grammars grammars; /* of the clerk, for jobs that hold this instance */
};

struct service {
    server *server;
    const serve_spec *spec;
    model_metrics metrics;
    atomic_int n_job;     /* of several models: the jobs for this one, at most max_of_model */
    atomic_int *n_job_of; /* for each key; [0] without keys */
    instance *now;        /* under the server's lock; NULL: not loaded yet */
};

/* Changes with the files of a model. */
uint64_t spec_stamp(const serve_spec *spec);

/* Makes an instance and its thread, which loads the model and then takes the place of the one of now. NULL where
 * memory, a descriptor or a thread is refused. worker: worker_main. */
instance *instance_start(service *of, void *(*worker)(void *));
void instance_release(instance *i); /* NULL is allowed */

/* Somebody besides its thread holds it. */
bool instance_is_used(instance *i);

/* Called by its thread once the model is loaded, or not; and at the end. */
void instance_loaded(instance *i, bool good);
void instance_ended(instance *i);

/* Frees those that have ended. For the thread that reloads. */
void instances_reap(server *s);

/* At the server's end, which the threads have been told: waits for all; frees them once no job is left. */
void instances_stop(server *s);
void instances_free(server *s);

/* Do their threads live? For the loop. */
bool instances_live(server *s);

/* Has every service an instance? Once true, for good. */
bool services_loaded(server *s);

/* The instance of service k now, held; NULL: it is not loaded yet. */
instance *service_hold(server *s, int k);

/* Whom a client means by "base", "poet" or "base:poet", held, with the adapter; NULL: nobody. */
instance *service_find(server *s, const char *name, served_adapter **adapter);

#endif
