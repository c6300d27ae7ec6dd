/* server.h - the parts of the server and what they share.
 *
 *     client --HTTP--> http.c --ring--> clerk.c --ring--> worker.c
 *                        ^                |                  |
 *                        '----- ring -----'------------------'
 *
 * Three threads, and one that loads adapters (reload.c): the HTTP loop (sockets, limits, deadlines: http.c, client.c), the clerk (JSON,
 * template and tokenizer of a body that may be 4 MiB must not stop the loop: clerk.c), and the
 * worker (engine and scheduler: worker.c). A request is a job (job.h) that goes from one to the
 * next; text goes back through the job, and the ring `ready` tells the loop which jobs have
 * some. */
#ifndef WEFT_SERVER_SERVER_H
#define WEFT_SERVER_SERVER_H

#include "adapters.h"
#include "grammars.h"
#include "keys.h"
#include "metrics.h"
#include "ring.h"
#include "serve.h"

#include <stdatomic.h>

typedef enum phase { PHASE_LOADING, PHASE_READY, PHASE_DRAINING, PHASE_STOPPED } phase;

typedef struct server {
    serve_options options;
    keys keys;
    serve_model model;
    adapters adapters;
    int64_t n_ctx;
    int64_t started; /* Unix time */
    int max_job;     /* requests that there may be */

    atomic_int phase;
    atomic_int load_code; /* of a failed load */
    atomic_bool stopping; /* the clerk, the worker and the loader of adapters end */
    ring clerk, worker, ready;
    ring reload; /* empty: it is only woken */
    atomic_bool reload_asked;
    weft_scheduler *_Atomic scheduler; /* once it is loaded */
    metrics metrics;
    grammars grammars; /* of the clerk */

    atomic_int n_job;     /* until both sides have released them */
    atomic_int *n_job_of; /* for each key; [0] without keys */
    _Atomic double rate;  /* jobs that end in a second, on average */
} server;

/* Seconds on a clock that only goes forward. */
double server_now(void);

/* The threads' main functions; ud: the server. */
void *clerk_main(void *ud);
void *worker_main(void *ud);
void *reload_main(void *ud);

/* Is there anything that a SIGHUP may change? */
static inline bool has_adapters(const server *s)
{
    return s->options.lora.n_given > 0 || s->options.lora.list;
}

/* Loads the adapters that are listed now, later and elsewhere. */
void reload_ask(server *s);

/* The loop. Returns the exit code. */
int http_run(server *s, int listener, bool local);

#endif
