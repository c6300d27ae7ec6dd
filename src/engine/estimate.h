/* estimate.h - what a model asks of a machine, and how fast this one will run it.
 *
 * Costs are what the ops of a dry run say of themselves. Speed is those costs over rates that are
 * measured in a moment: products of one row and of many with synthetic weights of each format that
 * the model has, attention, and rows that are only passed through. The model's own weights are not
 * touched, so a file of any size is estimated in the same time. */
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

/* Of the token at the end of a context of n_ctx positions. */
weft_status model_cost(const model *m, int64_t n_ctx, part_cost to[N_PART], weft_error *err);

typedef struct speed {
    int64_t n_prompt;        /* tokens of the prompt; generation begins in an empty context */
    double prompt, generate; /* tokens a second */
    double read, products;   /* bytes of weights with one row, flops with many, a second */
    double seconds;          /* that measuring took */
} speed;

/* o as engine_resolve left it. */
weft_status engine_estimate(const model *m, const engine_options *o, speed *s, weft_error *err);

#endif
