/* serve_options.h - what the program tells the server: models, limits, and how to load. */
#ifndef WEFT_SERVER_SERVE_OPTIONS_H
#define WEFT_SERVER_SERVE_OPTIONS_H

#include <weft.h>

#include <stdio.h>

/* What the command line says of a model. */
typedef struct serve_spec {
    const char *name;                        /* what clients call it */
    const char *path, *tokenizer, *template; /* of the files; the last two may be NULL */
    double weight; /* of its share of the cores while others compute, too */
} serve_spec;

/* A model that is served. The server frees its parts. */
typedef struct serve_model {
    const char *name;
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
typedef int serve_load_fn(void *ud, const serve_spec *spec, serve_model *model);

/* Makes the engine of a model that generates, once its adapters are known: for ranks up to `rank`. */
typedef int serve_engine_fn(void *ud, serve_model *model, int64_t rank);

/* The adapters that are served beside the models. One of "MODEL:NAME=DIR" is of that model, another of the
 * first one. */
typedef struct serve_lora {
    const char *const *given; /* [n_given] "NAME=DIR" or "NAME=DIR:STRENGTH" */
    int n_given;
    const char *list;  /* a file with one such line each, which SIGHUP reads again; or NULL */
    int64_t rank;      /* the largest that one may have; 0: the largest at the start, with a list at
                          least 64 */
    bool any_template; /* also those that were trained with another chat template */
    const serve_spec *models; /* [n_model] */
    int n_model;
} serve_lora;

/* What the process may still do once it listens. */
typedef enum serve_sandbox_mode {
    SERVE_SANDBOX_AUTO, /* what the system has; it says what is missing */
    SERVE_SANDBOX_REQUIRED,
    SERVE_SANDBOX_OFF
} serve_sandbox_mode;

typedef struct serve_sandbox {
    serve_sandbox_mode mode;
    const char *const *allowed; /* [n_allowed] what reloads may read besides */
    int n_allowed;
} serve_sandbox;

/* A request is ready for the scheduler's queue, after so many seconds of the clerk's. */
typedef void serve_taken_fn(void *ud, int64_t n_prompt, double seconds);

/* Opens the record once the server has its socket. Returns 0, or an exit code after printing an error. */
typedef int serve_record_fn(void *ud);

/* Who records: forwards in the worker's thread, requests in the clerk's. Nobody: { 0 }. With one model only. */
typedef struct serve_record {
    serve_record_fn *begin;
    weft_step_fn *step;
    serve_taken_fn *taken;
    void *ud;
} serve_record;

typedef struct serve_options {
    const serve_spec *models; /* [n_model] the first one answers where no model is named */
    int n_model;
    const char *host; /* a numeric address or a name */
    int port;         /* 0: the system chooses */
    const char *key_file;
    const char *const *hosts; /* further names of the server that clients may use */
    int n_host;
    const char *cors; /* origin of web pages that may call the server, or NULL */
    bool insecure;    /* listen on other than loopback addresses without keys */
    bool lenient;
    bool share_prefixes;
    bool no_page;
    int n_connection, n_per_address; /* the latter not for loopback; 0: any number */
    int n_running, n_waiting;        /* requests of a model that run, and that wait */
    double step_ms;                  /* 0: the scheduler's default */
    double drain;                    /* seconds */
    double drain_delay;              /* seconds before that in which only /ready has changed */
    double header_seconds, idle_seconds, stall_seconds; /* 0: 10, 15, 30 */
    double ping_seconds;                                /* 0: 15 */
    double request_seconds;                             /* for the whole of a request */
    weft_budget *budget;
    FILE *log;         /* access log, or NULL */
    const char *admin; /* path of the socket for whoever runs the server, or NULL */
    serve_record record;
    serve_lora lora;
    serve_sandbox sandbox;
    serve_load_fn *load;
    serve_engine_fn *make_engine;
    void *load_ud;
} serve_options;

#endif
