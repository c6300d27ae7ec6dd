/* cross_entropy.h - what the loss has on its way, to be shown: its logits and their gradients never
 * exist all at once (cross_entropy.c). */
#ifndef WEFT_OPS_CROSS_ENTROPY_H
#define WEFT_OPS_CROSS_ENTROPY_H

#include "tensor/run.h"

extern const op linear_cross_entropy_op;

/* Row k is the k-th wanted row of the batch. */
typedef struct loss_open_to {
    real *loss;         /* [n_wanted] w_i l_i of each row */
    const int64_t *row; /* [n] rows whose gradients are shown */
    int64_t n;
    real *dz; /* [n, V] of their logits */
} loss_open_to;

/* Computes them once more for a node of linear_cross_entropy, after its backward, by the same code. */
void loss_open(run *r, const node *n, const loss_open_to *to);

#endif
