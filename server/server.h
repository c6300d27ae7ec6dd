/* server.h - the parts of the server and what they share.
 *
 *     client --HTTP--> http.c --ring--> clerk.c --ring--> worker.c, of each model
 *                        ^                |                  |
 *                        '----- ring -----'------------------'
 *
 * The HTTP loop has sockets, limits and deadlines (http.c, client.c). The clerk reads JSON, and runs template and
 * tokenizer: a body of 4 MiB must not stop the loop (clerk.c). Each model that is served (service.h) has a worker,
 * which owns its engine and scheduler (worker.c). A fourth thread loads models and adapters again (reload.c). A
 * request is a job (job.h) that goes from one to the next; text goes back through the job, and the ring `ready` tells
 * the loop which jobs have some. */
#ifndef WEFT_SERVER_SERVER_H
#define WEFT_SERVER_SERVER_H

#include "adapters.h"
#include "admin.h"
#include "cores.h"
#include "grammars.h"
#include "heart.h"
#include "keys.h"
#include "metrics.h"
#include "ring.h"
#include "sandbox.h"
#include "serve_options.h"
#include "systemd.h"

#include <stdatomic.h>

/* LEAVING: only /ready says 503, so that a proxy sends requests elsewhere. */
typedef enum phase {
    PHASE_LOADING,
    PHASE_READY,
    PHASE_LEAVING,
    PHASE_DRAINING,
    PHASE_STOPPED
} phase;

static inline const char *phase_name(int of)
{
    static const char *const names[] = { "loading", "ready", "draining", "draining", "stopped" };
    return names[of];
}

typedef struct service service;
typedef struct instance instance;

typedef struct server {
    serve_options options;
    keys keys;
    sandbox sandbox;
    systemd systemd;
    admin admin;
    heart clerk_heart;
    int64_t started; /* Unix time */
    int max_job;     /* requests that there may be, and those for one model */
    int max_of_model;

    service *services; /* [n_service] one for each name */
    int n_service;
    pthread_mutex_t lock;    /* of the holders of instances */
    instance *instances;     /* all, also those that are going */
    pthread_mutex_t loading; /* one model is loaded at a time */
    cores cores;

    atomic_int phase;
    atomic_int load_code; /* of a failed load */
    atomic_bool held;     /* "ready off" of the admin socket */
    atomic_bool stopping; /* the clerk, the workers and the thread that reloads end */
    ring clerk, ready;
    ring reload; /* empty: it is only woken */
    atomic_bool reload_asked;
    atomic_int n_asked, n_reloaded; /* reloads: asked for; those up to which all are done */
    metrics metrics;

    atomic_int n_job;     /* until both sides have released them */
    atomic_int *n_job_of; /* for each key; [0] without keys */
    _Atomic double rate;  /* jobs that end in a second, on average */
} server;

/* Seconds on a clock that only goes forward. */
double server_now(void);

/* The threads' main functions; ud: the server, or the instance of the model. */
void *clerk_main(void *ud);
void *worker_main(void *ud);
void *reload_main(void *ud);

static inline bool has_adapters(const server *s)
{
    return s->options.lora.n_given > 0 || s->options.lora.list;
}

/* Does it want requests? */
static inline bool server_takes(server *s)
{
    return atomic_load(&s->phase) == PHASE_READY && !atomic_load(&s->held);
}

/* Loads models and adapters whose files have changed, later and in another thread. */
void reload_ask(server *s);

/* The loop. Returns the exit code. */
int http_run(server *s, int listener, bool local);

#endif
