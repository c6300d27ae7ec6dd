/* attention_backward.h - the gradient of attention (ops.h). */
#ifndef WEFT_OPS_ATTENTION_BACKWARD_H
#define WEFT_OPS_ATTENTION_BACKWARD_H

#include "tensor/run.h"

void attention_backward(run *r, const node *n);

/* What backward has on its way, of one query and head: a number for each key position, 0 for those
 * it does not see. */
typedef struct attention_slopes {
    real *p;  /* probabilities, again from the scores and log sum exp */
    real *dp; /* dy . v */
    real *ds; /* p (dp - dy . y) */
    real *dq; /* [d_key] scale sum_j ds_j k_j */
} attention_slopes;

/* Computes them once more for row i and head h, after attention_backward, by the same code; `to` has
 * room for as many keys as the row's sequence has. Of queries whose keys are in the batch. */
void attention_open(run *r, const node *n, int64_t i, int64_t h, attention_slopes to);

#endif
