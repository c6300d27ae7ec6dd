/* additive.h - additive attention of one query to one source. The op `additive` uses it for every
 * row, a recurrence for one row after another. */
#ifndef WEFT_OPS_ADDITIVE_H
#define WEFT_OPS_ADDITIVE_H

#include "ops/ops.h"

/* Keys and values of one source, in cache or batch. */
typedef struct source_view {
    view k, v;
    int64_t n;              /* positions */
    int64_t d_key, d_value; /* width of a key and of a value */
} source_view;

/* Row i of a source's values or keys, columns [c0, c0 + n): in place, or decoded into `room`. */
static inline const real *view_part(const view *v, int64_t pos, int64_t c0, int64_t n, real *room)
{
    const void *at = view_row(v, pos);
    if (v->type == &dtype_real)
        return (const real *)at + c0;
    v->type->decode(room, at, c0, n);
    return room;
}

/* The rows of a source in this call. */
source_view source_rows(const sequence *s, const tensor *k, const tensor *v);

/* score . tanh(q + k_j) */
real additive_score(const run *r, const real *q, const real *score, const source_view *s,
                    int64_t j);

/* y = sum_j p_j v_j; returns log sum exp of the scores. Without keys y is 0. */
real additive_pool(const run *r, const real *q, const real *score, const source_view *s, real *y);

/* Backward of one query: its forward values, and where its gradients go. */
typedef struct additive_grad {
    const real *q, *score, *y, *dy;
    real lse;
    real *dq, *dscore;   /* stored */
    const tensor *k, *v; /* inputs whose gradients are added to, if they need one, ... */
    int64_t first, n;    /* ... in these rows */
} additive_grad;

void additive_back(const run *r, const additive_grad *g);

#endif
