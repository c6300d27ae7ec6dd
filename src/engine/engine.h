/* engine.h - where a model evaluates sessions: threads, the arenas of a step, the pool of pages.
 *
 * One engine, one thread at a time. All memory is taken when it is made; a step takes none. */
#ifndef WEFT_ENGINE_ENGINE_H
#define WEFT_ENGINE_ENGINE_H

#include "engine/forward.h"
#include "engine/pages.h"

typedef struct engine_options {
    int n_thread, n_session, n_batch;
    int64_t n_ctx;
    const dtype *kv;
    bool all_rows;   /* logits of every row may be asked for, not of each session's last only */
    int64_t n_cache; /* positions of the pool; 0: n_session contexts */
} engine_options;

typedef struct engine_plan {
    forward_plan step; /* the largest */
    size_t kv;         /* all pages */
    size_t position;   /* one position of them, in all layers */
    size_t session;    /* one session beside its pages */
    size_t panels;     /* the model's weights in panels, if they are to be made and there is room */
    size_t total;      /* an engine with n_session sessions takes no more, panels included */
    int64_t n_page;
} engine_plan;

#define MAX_WORK 1024 /* in one call */

typedef struct engine {
    const model *model;
    engine_options opt;
    pool *pool;
    run run;
    pages pages;
    batch batch;           /* room for n_batch rows of n_session sequences */
    batch src;             /* with an encoder: room for n_ctx rows of n_session sources */
    struct session *first; /* of the sessions alive */

    struct work *asked; /* [MAX_WORK]: room for what callers ask for, in its own form */

    uint64_t fingerprint; /* of the model, once it was asked for; 0 before */

    logits_fn *read; /* sees the logits of a step while they exist, in order and in parts ... */
    void *read_ud;
    int64_t n_read;   /* ... of the last so many rows of every work, one at least */
    int64_t next_row; /* of the batch: those before have given their logits */
    bool poisoned;    /* some logits of this step were not finite */
} engine;

/* Tokens to append to a session, and how far that has come. */
typedef struct work {
    struct session *session;
    const int32_t *ids;
    int64_t n;
    int64_t done;       /* of them, by steps so far */
    weft_status status; /* OK; ESTOPPED: the session was cancelled; ECONTEXT: no room; ENUMERIC */
    int64_t take;       /* of them, in this step */
    bool fails;         /* in this step */
} work;

/* A source for a session to read. */
typedef struct source_text {
    struct session *session;
    const int32_t *ids;
    int64_t n;
} source_text;

/* Checks options against the model and fills defaults. */
weft_status engine_resolve(const model *m, engine_options *o, weft_error *err);

/* A dry run of the largest step: what it will take, without taking it. */
weft_status engine_predict(const model *m, const engine_options *o, bool maps, engine_plan *plan,
                           weft_error *err);

/* A batch of one sequence that does not exist: n rows up to position `last`, of which the last
 * n_wanted are wanted; a source has as many positions, and was encoded before. tally sees every op
 * of its forward. */
weft_status engine_tally(const model *m, int n_row, int64_t last, int n_wanted,
                         void (*tally)(void *ud, const run *r, const node *n), void *ud,
                         weft_error *err);

engine *engine_new(const model *m, const engine_options *o, weft_error *err);
void engine_free(engine *e);

/* Tells every named tensor from now on; with maps the arenas are made anew for them. */
weft_status engine_trace(engine *e, trace_fn *fn, void *ud, bool maps, weft_error *err);

/* From now on fn sees the logits of the last n_row rows of every work, which an engine for
 * `all_rows` can give. NULL: nobody does. */
void engine_read(engine *e, logits_fn *fn, void *ud, int64_t n_row);

/* One forward: at most n_batch rows of at most n_session works. Works of which one token is left come
 * first, so that none waits for another's long prompt; the others share what room there is. `done`
 * counts on; works that are done or have a status are passed over. Cancelled sessions take no part
 * and keep what they have.
 *
 * A work that does not fit into the context, for which there are no pages, or whose logits are not
 * finite fails alone and keeps what earlier steps did; the session has the sentence, which names the
 * first tensor that was not finite. The first failure of the step is returned. An error while no
 * work has a status is the call's: nothing has happened. */
weft_status engine_step(engine *e, work *w, int n, weft_error *err);

/* Steps until every work is done or has failed. Sessions of those that failed or were cancelled have
 * the tokens they had before; the first of them is returned. */
weft_status engine_eval(engine *e, work *w, int n, weft_error *err);

/* The sessions forget their tokens and have these sources from now on: keys and values of every
 * layer's cross-attention, made once, in pages of the same pool. As many sources in one forward as
 * there is room for. On error the sessions have no source. */
weft_status engine_encode(engine *e, const source_text *s, int n, weft_error *err);

/* The logits of wanted rows go where they are waited for; ud is the engine. */
void engine_take_logits(void *ud, const tensor *z, int64_t first);

#endif
