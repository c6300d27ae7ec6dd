/* engine.h - an engine evaluates sessions of a model: threads, the arenas of a step, the pool of
 * pages.
 *
 * Only one thread may use an engine at a time. It allocates all memory when it is created; a step
 * allocates none. */
#ifndef WEFT_ENGINE_ENGINE_H
#define WEFT_ENGINE_ENGINE_H

#include "engine/forward.h"
#include "engine/pages.h"

typedef struct engine_options {
    int n_thread, n_session, n_batch;
    int64_t n_ctx;
    const dtype *kv;
    bool all_rows;   /* callers may request the logits of every row, not only of each session's
                      * last */
    int64_t n_cache; /* positions in the pool; 0: n_session contexts */
    int64_t rank;    /* the largest of adapters that sessions may have; 0: they have none */
} engine_options;

typedef struct engine_plan {
    forward_plan step; /* the largest */
    size_t kv;         /* all pages */
    size_t position;   /* bytes of one position in all layers */
    size_t session;    /* bytes of one session except its pages */
    size_t panels;     /* bytes of the weights in panels, if wanted and if they fit */
    size_t total;      /* upper bound for an engine with n_session sessions, panels included */
    int64_t n_page;
} engine_plan;

#define MAX_WORK 1024 /* in one call */

/* Receives the logits [V] after the token at a position, during the forward, on any of the engine's
 * threads. */
typedef void row_fn(void *ud, int64_t position, const float *logits);

typedef struct engine {
    const model *model;
    engine_options opt;
    pool *pool;
    run run;
    pages pages;
    batch batch;           /* room for n_batch rows of n_session sequences */
    batch src;             /* with an encoder: room for n_ctx rows of n_session sources */
    struct session *first; /* list of live sessions */

    struct work *asked; /* [MAX_WORK]: internal copies of the caller's works */

    uint64_t fingerprint; /* fingerprint of the model, computed on first use; 0 before */

    logits_fn *read; /* receives the logits of a step in order and in parts ... */
    void *read_ud;
    int64_t n_read;   /* ... of the last N rows of every work, at least one */
    int64_t next_row; /* next batch row; logits of earlier rows are done */
    int32_t *part;    /* [n_batch]: the batch rows of those that the head has just computed */
    bool poisoned;    /* some logits of this step were non-finite */
} engine;

/* Tokens to append to a session, and the progress so far. */
typedef struct work {
    struct session *session;
    const int32_t *ids;
    int64_t n;
    int64_t done;       /* tokens done by earlier steps */
    weft_status status; /* OK; ESTOPPED: the session was cancelled; ECONTEXT: no room; ENUMERIC */
    int64_t take;       /* tokens in this step, at most those left */
    bool fails;         /* in this step */
} work;

/* A source to encode for a session. */
typedef struct source_text {
    struct session *session;
    const int32_t *ids;
    int64_t n;
} source_text;

/* Checks options against the model and fills defaults. */
weft_status engine_resolve(const model *m, engine_options *o, weft_error *err);

/* A dry run of the largest step: predicts its memory without allocating it. show may be NULL. */
weft_status engine_predict(const model *m, const engine_options *o, const trace_parts *show,
                           engine_plan *plan, weft_error *err);

/* Tallies a hypothetical batch of one sequence: n rows up to position `last`, of which the last
 * n_wanted are wanted. A source has as many positions, and is already encoded. tally sees every op
 * of the forward. */
weft_status engine_tally(const model *m, int n_row, int64_t last, int n_wanted,
                         void (*tally)(void *ud, const run *r, const node *n), void *ud,
                         weft_error *err);

engine *engine_new(const model *m, const engine_options *o, weft_error *err);
void engine_free(engine *e);

/* From now on w looks into every forward. Remakes the arenas if it wants to see other parts than
 * before; on error nothing changes. */
weft_status engine_trace(engine *e, const trace_spec *w, weft_error *err);

/* From now on fn receives the logits of the last n_row rows of every work, which needs an engine
 * with `all_rows`. NULL: no reader. */
void engine_read(engine *e, logits_fn *fn, void *ud, int64_t n_row);

/* One forward: at most n_batch rows of at most n_session works. Works with one token left come
 * first, so that none waits for another's long prompt; the others share the remaining rows. `done`
 * advances; works that are done or have a status are skipped. Cancelled sessions are left out and
 * keep their tokens.
 *
 * A work fails alone if it does not fit into the context, if no pages are free, or if its logits
 * are non-finite. It keeps the tokens of earlier steps; its session holds the error message, which
 * names the first non-finite tensor. The call returns the first failure of the step. An error while
 * no work has a status concerns the whole call: nothing has changed. */
weft_status engine_step(engine *e, work *w, int n, weft_error *err);

/* The same with the rows that the caller has chosen: w[i].take, in all at most n_batch of at most
 * n_session works. A work without a row is left out. */
weft_status engine_step_rows(engine *e, work *w, int n, weft_error *err);

/* Steps until every work is done or has failed. Sessions of failed or cancelled works are rewound
 * to their tokens before the call; returns the first failure. */
weft_status engine_eval(engine *e, work *w, int n, weft_error *err);

/* Clears the sessions' tokens and gives them new sources: keys and values of every layer's
 * cross-attention, computed once, in pages of the same pool. Encodes as many sources per forward as
 * fit. On error the sessions have no source. */
weft_status engine_encode(engine *e, const source_text *s, int n, weft_error *err);

/* Copies the logits of wanted rows to their readers; ud is the engine. */
void engine_take_logits(void *ud, const tensor *z, int64_t first);

#endif
