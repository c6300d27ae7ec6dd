/* serve.h - the server, as the program sees it. */
#ifndef WEFT_SERVER_SERVE_H
#define WEFT_SERVER_SERVE_H

#include <weft.h>

#include <stdio.h>

/* A model that is served. The server frees its parts. */
typedef struct serve_model {
    const char *name; /* what clients call it */
    weft_model *model;
    weft_tokenizer *tokenizer;
    weft_tokenizer *source;  /* of what an encoder-decoder reads; NULL: it is none */
    weft_template *template; /* NULL: it has none, and no chat */
    weft_engine *engine;     /* NULL: it does not generate, or is not made yet */
    bool generates;
    weft_model_info info;
    int threads; /* of encoders */
} serve_model;

/* Does it read two texts together, and say in one number how they fit (a cross-encoder)? */
static inline bool serve_scores_pairs(const serve_model *m)
{
    return m->info.task == WEFT_TASK_CLASSIFY && m->info.n_out == 1;
}

/* Loads it all but its engine, in the engine's thread, while the server already says that it is
 * loading. Returns 0, or an exit code after printing an error. */
typedef int serve_load_fn(void *ud, serve_model *model);

/* Makes the engine of a model that generates, once its adapters are known: for ranks up to `rank`. */
typedef int serve_engine_fn(void *ud, serve_model *model, int64_t rank);

/* The adapters that are served beside the model. */
typedef struct serve_lora {
    const char *const *given; /* [n_given] "NAME=DIR" or "NAME=DIR:STRENGTH" */
    int n_given;
    const char *list;  /* a file with one such line each, which SIGHUP reads again; or NULL */
    int64_t rank;      /* the largest that one may have; 0: the largest at the start, with a list at
                          least 64 */
    bool any_template; /* also those that were trained with another chat template */
} serve_lora;

typedef struct serve_options {
    const char *host; /* a numeric address or a name */
    int port;         /* 0: the system chooses */
    const char *key_file;
    const char *const *hosts; /* further names of the server that clients may use */
    int n_host;
    const char *cors; /* origin of web pages that may call the server, or NULL */
    bool insecure;    /* listen on other than loopback addresses without keys */
    bool lenient;
    bool share_prefixes;
    int n_connection, n_per_address; /* the latter not for loopback; 0: defaults */
    int n_running, n_waiting;        /* requests that run, and that wait; 0: 32, 128 */
    double step_ms;                  /* 0: the scheduler's default */
    double drain;                    /* seconds */
    double header_seconds, idle_seconds, stall_seconds; /* 0: 10, 15, 30 */
    double ping_seconds;                                /* 0: 15 */
    double request_seconds;                             /* for the whole of a request */
    weft_budget *budget;
    FILE *log; /* access log, or NULL */
    serve_lora lora;
    serve_load_fn *load;
    serve_engine_fn *make_engine;
    void *load_ud;
} serve_options;

/* Serves until SIGTERM or SIGINT, which must be blocked in all threads, as must SIGHUP if there are
 * adapters. Returns an exit code, after
 * printing an error. Prints "listening on http://127.0.0.1:8080" on standard error. */
int serve_run(const serve_options *options);

#endif
