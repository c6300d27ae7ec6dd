/* estimate.h - the cost of a model, and its predicted speed on this machine.
 *
 * The ops of a dry run report their costs. Speed is those costs divided by rates measured on the
 * spot: products of one row and of many rows with synthetic weights in each of the model's formats,
 * attention, and elementwise passes. The model's own weights are not touched, so the estimate takes
 * the same time for a file of any size. */
#ifndef WEFT_ENGINE_ESTIMATE_H
#define WEFT_ENGINE_ESTIMATE_H

#include "engine/engine.h"

typedef enum model_part {
    PART_EMBEDDING,
    PART_ATTENTION,
    PART_FEED_FORWARD,
    PART_HEAD,
    N_PART
} model_part;

typedef struct part_cost {
    int64_t n_parameter;
    size_t bytes;
    double flops; /* of one token */
} part_cost;

/* Cost of the token at the end of a context of n_ctx positions. */
weft_status model_cost(const model *m, int64_t n_ctx, part_cost to[N_PART], weft_error *err);

typedef struct speed {
    int64_t n_prompt;        /* tokens of the prompt; generation begins in an empty context */
    double prompt, generate; /* tokens per second */
    double read, products;   /* bytes of weights per second with one row, flops per second with
                              * many */
    double seconds;          /* time spent measuring */
} speed;

/* o must come from engine_resolve. */
weft_status engine_estimate(const model *m, const engine_options *o, speed *s, weft_error *err);

#endif
