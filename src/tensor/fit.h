/* fit.h - the codes of the K formats, chosen for the least squared error.
 *
 * 256 numbers share a 16-bit float; each group of them has a scale that is a small whole number of
 * it. So the steps a group may have are a short list, and all that are near its range are tried. */
#ifndef WEFT_TENSOR_FIT_H
#define WEFT_TENSOR_FIT_H

#include "tensor/blocks.h"

/* x = d s q - e m: eight groups of 32, s and m from 0 to 63, q from 0 to top. */
typedef struct lifted_fit {
    float d, e; /* 16-bit floats */
    uint8_t s[8], m[8];
    uint8_t q[LONG];
} lifted_fit;

/* x = d s q: sixteen groups of 16, s from -128 to 127, q from -32 to 31. */
typedef struct signed_fit {
    float d; /* a 16-bit float */
    int8_t s[16];
    int8_t q[LONG];
} signed_fit;

/* With R the largest range of a group, zero included, and M the largest distance of a number below
 * zero, the root mean square error of a group is at most (R + M / 62) 1.017 / (2 top) + 2^-24 ... */
void fit_lifted(lifted_fit *f, const real *x, int top);

/* ... and here, with A the largest size of the block, at most A / 61 + 2^-25. In both, a block with
 * something that is no number, or whose d or e would pass 65504, becomes all NaN. */
void fit_signed(signed_fit *f, const real *x);

/* The first 16 bytes of a Q4_K or Q5_K block. */
static inline void put_lifted_head(uint8_t *block, const lifted_fit *f)
{
    put_f16(block, f->d);
    put_f16(block + 2, f->e);
    put_scales(block + 4, f->s, f->m);
}

/* Their lower four bits: 64 numbers in 32 bytes, the first 32 in the lower halves. */
static inline void put_nibble_pairs(uint8_t *to, const uint8_t *q)
{
    for (int k = 0; k < LONG / 2; k++) {
        const uint8_t *two = q + k / GROUP * 2 * GROUP + k % GROUP;
        to[k] = (uint8_t)((two[0] & 15) | (two[GROUP] & 15) << 4);
    }
}

#endif
