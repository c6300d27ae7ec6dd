/* pace.h - how fast this machine trains a model, measured without data or weights. */
#ifndef WEFT_TRAIN_PACE_H
#define WEFT_TRAIN_PACE_H

#include "train/learner.h"

typedef struct pace {
    double sequence; /* seconds of forward and backward of a sequence, in a batch like this one */
    double update;   /* seconds a float of the norm and AdamW */
} pace;

/* Trains m, which has no weights (model_design, model_plan), a few times on tokens of no meaning. After
 * that m can only be closed. Polls `waiting` (or NULL) between parts; if it returns false, *to is 0. */
weft_status pace_measure(pace *to, model *m, const learner_options *o, batch *b,
                         weft_wait_fn *waiting, void *ud, weft_error *err);

/* Weights of no meaning: small values of both signs, since zeros would send every row to the same expert
 * and through one side of every branch. */
void pace_make_up(params *p);

#endif
