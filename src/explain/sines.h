/* sines.h - is a table of positions made of sines?
 *
 * In a table of sines, position i + k is a rotation of position i: each pair of columns (sin, cos)
 * of frequency f rotates by the angle k f, whatever i is. So a product with one matrix R_k moves
 * every position by k, which a learned table does not promise. */
#ifndef WEFT_EXPLAIN_SINES_H
#define WEFT_EXPLAIN_SINES_H

#include "ops/ops.h"

/* Where the sine and the cosine of a pair are, and the exponent of its frequency 10000^-e. */
typedef enum sine_layout {
    SINES_INTERLEAVED, /* (0,1) (2,3) ...,       e = 2 j / D */
    SINES_HALVES,      /* (0,D/2) (1,D/2+1) ..., e = 2 j / D */
    SINES_FAIRSEQ,     /* the same columns,      e = j / (D/2 - 1) */
    N_SINES
} sine_layout;

/* |PE(i + k) - R_k PE(i)| / |PE(i + k)|, as roots of sums over all i and pairs of a table [T, D]. 0
 * for sines, about sqrt 2 for noise. */
double sine_residual(const real *table, int64_t T, int64_t D, sine_layout layout, int64_t k);

#endif
