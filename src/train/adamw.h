/* adamw.h - Adam with decoupled weight decay (Loshchilov and Hutter, 2019), one pass over the flat
 * blocks:
 *
 *     g <- g min(1, clip / (|g| + 1e-6))                       |g| over all parameters
 *     m <- b1 m + (1 - b1) g          v <- b2 v + (1 - b2) g^2
 *     w <- w (1 - lr decay) - lr / (1 - b1^t) m / (sqrt(v / (1 - b2^t)) + eps)
 *
 * Matrices decay, vectors (norms, biases) do not. decay = 0 is Adam. */
#ifndef WEFT_TRAIN_ADAMW_H
#define WEFT_TRAIN_ADAMW_H

#include "train/params.h"

typedef struct adamw_options {
    double beta1, beta2, eps, decay;
    double clip; /* largest global norm of the gradients; 0: no limit */
} adamw_options;

typedef struct adamw {
    adamw_options opt;
    params *p;
    real *m, *v;  /* of the chunks that this process updates, one after the other */
    int64_t step; /* steps taken */
} adamw;

weft_status adamw_init(adamw *a, params *p, const adamw_options *o, weft_error *err);
void adamw_free(adamw *a);

/* The factor of all gradients, given their norm. */
double adamw_clip(const adamw_options *o, double norm);

/* Takes one step with the current gradients, of this norm. If it is non-finite, changes nothing and
 * does not count a step. */
void adamw_step(adamw *a, double lr, double norm, pool *threads);

#endif
