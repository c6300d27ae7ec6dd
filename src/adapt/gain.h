/* gain.h - DoRA's gains: g = m / |W + s B A|, where |...| is the norm of each output.
 *
 * The magnitudes m of a new adapter are these norms too, made by the same code in the same order,
 * so that its first gains are exactly 1. */
#ifndef WEFT_ADAPT_GAIN_H
#define WEFT_ADAPT_GAIN_H

#include "tensor/tensor.h"

/* W + s B A, of which no more than some columns exist at a time. */
typedef struct adapted_weight {
    const tensor *w;   /* [O, I] in any format; ... */
    bool table;        /* ... or [I, O] */
    const real *a, *b; /* [r, I], [O, r] */
    int64_t I, rank;   /* rank 0: W alone */
    real scale;
    const kernels *kern;
} adapted_weight;

/* The norms of outputs [o0, o1), from to[o0] on. Other outputs may be made at the same time. */
void adapted_norms(const adapted_weight *p, real *to, int64_t o0, int64_t o1);

/* The same of m / norm. An output whose norm is 0 stays 0. */
void adapted_gains(const adapted_weight *p, real *to, const real *m, int64_t o0, int64_t o1);

#endif
