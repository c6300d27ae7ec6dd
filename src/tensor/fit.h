/* fit.h - chooses the codes of the K formats for the least squared error, plain or weighted.
 *
 * 256 values share a 16-bit float; the scale of each group is a small integer multiple of it. So a
 * group has few possible steps, and all those near its range are tried. */
#ifndef WEFT_TENSOR_FIT_H
#define WEFT_TENSOR_FIT_H

#include "tensor/blocks.h"

/* A format. */
typedef struct fit_shape {
    int n;     /* values in a group: 16 or 32 */
    int steps; /* the largest s and m */
    int top;   /* the largest q */

    /* The range of steps to try, relative to the one whose codes just cover the group. The fewer
     * codes there are, the more clipping a group's largest values gains. */
    float min_step, max_step;

    bool few; /* few codes: large values weigh more, and products keep their size (fit.c) */
} fit_shape;

/* x = d s q - e m: s and m from 0 to steps, q from 0 to top. */
typedef struct asymmetric_fit {
    float d, e; /* 16-bit floats */
    uint8_t s[16], m[16];
    uint8_t q[LONG];
} asymmetric_fit;

/* x = d s q: s from -steps to steps, q from -(top + 1) to top. */
typedef struct signed_fit {
    float d; /* a 16-bit float */
    int8_t s[16];
    int8_t q[LONG];
} signed_fit;

/* `importance` says how much the squared error of each value matters, or is NULL if all are alike;
 * then these bounds hold. Let R be the largest range of a group including zero, M the largest magnitude of a value below
 * zero, and S the steps. The root mean square error of a group is at most (R + M / (S - 0.1)) (1 +
 * 1.001 / S) / (2 top) + 2^-24 ... */
void fit_asymmetric(asymmetric_fit *f, const real *x, const float *importance,
                    const fit_shape *shape);

/* ... and here, with A the largest magnitude of the block, at most A (1 + 1.001 / S) / (2 top) +
 * 2^-25. With `few`, the error of a block is at most 1.582 times this. In both, a block becomes all
 * NaN if a value is NaN, or if d or e would exceed 65504. */
void fit_signed(signed_fit *f, const real *x, const float *importance, const fit_shape *shape);

/* The first 16 bytes of a Q4_K or Q5_K block. */
static inline void put_asymmetric_head(uint8_t *block, const asymmetric_fit *f)
{
    put_f16(block, f->d);
    put_f16(block + 2, f->e);
    put_scales(block + 4, f->s, f->m);
}

/* The lower four bits of the codes: 64 values in 32 bytes, the first 32 in the lower halves. */
static inline void put_nibble_pairs(uint8_t *to, const uint8_t *q)
{
    for (int k = 0; k < LONG / 2; k++) {
        const uint8_t *two = q + k / GROUP * 2 * GROUP + k % GROUP;
        to[k] = (uint8_t)((two[0] & 15) | (two[GROUP] & 15) << 4);
    }
}

/* The lower two bits of the codes of Q2_K and Q3_K: 128 values in 32 bytes, the first 32 in the
 * lowest bits. */
static inline void put_bit_pairs(uint8_t *to, const uint8_t *q)
{
    for (int k = 0; k < LONG / 4; k++) {
        const uint8_t *four = q + k / GROUP * 4 * GROUP + k % GROUP;
        to[k] = (uint8_t)((four[0] & 3) | (four[GROUP] & 3) << 2 | (four[2 * GROUP] & 3) << 4 |
                          (four[3 * GROUP] & 3) << 6);
    }
}

#endif
