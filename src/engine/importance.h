/* importance.h - how much the columns of each weight matter: the mean square of what they are
 * multiplied with, over a text.
 *
 * A product's error is sum_k (w_k - q_k) x_k. If the errors of a row's weights are independent, its
 * mean square is the sum of (w_k - q_k)^2 times the mean of x_k^2. So that mean, relative to the
 * other columns', is the weight that a column's error deserves when codes are chosen. */
#ifndef WEFT_ENGINE_IMPORTANCE_H
#define WEFT_ENGINE_IMPORTANCE_H

#include "engine/engine.h"

typedef struct importance {
    const model *model;
    float **of;    /* [n_param] the columns' importance, 1 on average; NULL: no product with known
                    * inputs, as for experts' last matrices */
    int64_t *seen; /* [n_param] rows so far */
    tensor **by_address; /* the parameters, sorted */
    int64_t n_known;
} importance;

/* Runs m over the text's tokens, in windows of the engine's context. */
weft_status importance_collect(importance *to, const model *m, const int32_t *ids, int64_t n,
                               const engine_options *o, weft_error *err);
void importance_free(importance *i);

#endif
