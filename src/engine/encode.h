/* encode.h - whole sequences through a model that keeps no cache: every row sees all others of its
 * sequence, and what is asked for comes out at once.
 *
 * Sequences are put behind each other until a forward is full; none is filled up or cut. What comes
 * out of one depends on it alone, so that many together and one by one give the same bits. */
#ifndef WEFT_ENGINE_ENCODE_H
#define WEFT_ENGINE_ENCODE_H

#include "engine/forward.h"

typedef struct encode_engine_options {
    int n_thread, n_batch;
    int64_t n_ctx; /* most rows of one sequence */
    weft_encoder_output output;
    weft_pooling pooling; /* of WEFT_OUTPUT_POOLED, where not the model's */
    bool normalize;       /* whatever the model says */
} encode_engine_options;

typedef struct encode_engine_plan {
    forward_plan forward; /* the largest */
    size_t panels;        /* the model's weights, as in engine_plan */
    size_t total;         /* an encoder takes no more, panels included */
} encode_engine_plan;

typedef struct encode_engine {
    const model *model;
    encode_engine_options opt;
    pool *pool;
    run run;
    batch batch;              /* room for n_batch rows, and as many sequences */
    float *features;          /* [n_batch, d_feature], where the model takes vectors */
    const weft_input *input;  /* the first of this forward */
    int64_t at_input, at_row; /* where the next row of output goes: of this input, its so-manieth */
    bool finite;              /* so was all that came out so far */
} encode_engine;

/* Checks options against the model and fills defaults. */
weft_status encode_engine_resolve(const model *m, encode_engine_options *o, weft_error *err);

/* A dry run of the largest forward: what it will take, without taking it. */
weft_status encode_engine_predict(const model *m, const encode_engine_options *o, bool maps,
                                  encode_engine_plan *plan, weft_error *err);

encode_engine *encode_engine_new(const model *m, const encode_engine_options *o, weft_error *err);
void encode_engine_free(encode_engine *e);

/* Numbers of a row of output, and rows that an input gives. */
int64_t encode_engine_width(const encode_engine *e);
int64_t encode_engine_rows(const encode_engine *e, const weft_input *in);

/* Fills the outputs of n inputs, which are checked before anything is computed. */
weft_status encode_engine_eval(encode_engine *e, const weft_input *in, int64_t n, weft_error *err);

/* Tells every named tensor from now on; with maps the arenas are made anew for them. */
weft_status encode_engine_trace(encode_engine *e, trace_fn *fn, void *ud, bool maps,
                                weft_error *err);

#endif
