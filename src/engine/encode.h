/* encode.h - runs whole sequences through a model without a cache: every row attends to all rows of
 * its sequence, and one forward computes the requested output.
 *
 * Sequences are concatenated until a forward is full, without padding or truncation. The output of
 * a sequence does not depend on the others in the batch, so batched and single runs give the same
 * bits. */
#ifndef WEFT_ENGINE_ENCODE_H
#define WEFT_ENGINE_ENCODE_H

#include "engine/forward.h"

typedef struct encode_engine_options {
    int n_thread, n_batch;
    int64_t n_ctx; /* most rows of one sequence */
    weft_encoder_output output;
    weft_pooling pooling; /* for WEFT_OUTPUT_POOLED; overrides the model's if set */
    bool normalize;       /* even if the model does not */
    int64_t rank;         /* the largest of adapters that it may have; 0: it has none */
} encode_engine_options;

typedef struct encode_engine_plan {
    forward_plan forward; /* the largest */
    size_t panels;        /* the model's weights, as in engine_plan */
    size_t total;         /* upper bound of an encoder's memory, panels included */
} encode_engine_plan;

typedef struct encode_engine {
    const model *model;
    encode_engine_options opt;
    pool *pool;
    run run;
    batch batch;              /* room for n_batch rows, and as many sequences */
    adaption adapted;         /* its set is held */
    float *features;          /* [n_batch, d_feature], if the model takes vectors */
    const weft_input *input;  /* the first of this forward */
    int64_t at_input, at_row; /* the next row of output: which input, and which of its rows */
    bool finite;              /* all output so far was finite */
} encode_engine;

/* Checks options against the model and fills defaults. */
weft_status encode_engine_resolve(const model *m, encode_engine_options *o, weft_error *err);

/* A dry run of the largest forward: predicts its memory without allocating it. show may be NULL. */
weft_status encode_engine_predict(const model *m, const encode_engine_options *o,
                                  const trace_parts *show, encode_engine_plan *plan,
                                  weft_error *err);

encode_engine *encode_engine_new(const model *m, const encode_engine_options *o, weft_error *err);
void encode_engine_free(encode_engine *e);

/* Width of an output row, and output rows of an input. */
int64_t encode_engine_width(const encode_engine *e);
int64_t encode_engine_rows(const encode_engine *e, const weft_input *in);

/* Fills the outputs of n inputs; checks all inputs before it computes. */
weft_status encode_engine_eval(encode_engine *e, const weft_input *in, int64_t n, weft_error *err);

/* From now on it computes with this adapter, or with none: set NULL. */
weft_status encode_engine_adapt(encode_engine *e, adaption a, weft_error *err);

/* As engine_trace. */
weft_status encode_engine_trace(encode_engine *e, const trace_spec *w, weft_error *err);

#endif
