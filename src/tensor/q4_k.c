/* q4_k.c - 256 numbers as 4-bit steps, eight groups of 32 with a 6-bit scale and a 6-bit minimum
 * each: x = d s q - e m.
 *
 *      0    2    4            16                          144
 *     +----+----+------------+----------------------------+
 *     | d  | e  | s, m       | q[0] | q[32] << 4   ...    |    d, e: f16
 *     |    |    | (blocks.h) | 64 numbers in 32 bytes     |
 *     +----+----+------------+----------------------------+
 *
 * 144 bytes a block, 4.5 bits a number. fit.c chooses codes, scales and minima. The root mean
 * square error of a group is at most (R + M / 62) 1.017 / 30 + 2^-24. R is the largest range of a
 * group including zero, M the largest magnitude of a value below zero. */
#include "tensor/fit.h"

#define BYTES 144

static void q4_k_quants(block_i8 *to, const void *row, int64_t b)
{
    const uint8_t *block = (const uint8_t *)row + b / GROUPS * BYTES;
    const int g = (int)(b % GROUPS);
    const uint8_t *q = block + 16 + g / 2 * GROUP;
    for (int k = 0; k < GROUP; k++)
        to->q[k] = (int8_t)(q[k] >> 4 * (g % 2) & 15);
    take_asymmetric_head(to, block, g);
}

static const fit_shape shape = { GROUP, 63, 15, 0.92f, 1.08f, false };

static void q4_k_put_block(uint8_t *block, const real *x, const float *importance)
{
    asymmetric_fit f;
    fit_asymmetric(&f, x, importance, &shape);
    put_asymmetric_head(block, &f);
    put_nibble_pairs(block + 16, f.q);
}

DECODES(q4_k, I8_ASYMMETRIC)
FITS(q4_k, LONG)

const dtype dtype_q4_k = { "q4_k",        NULL,        12,          LONG,        BYTES,
                           TILE_Q4_K,     q4_k_decode, q4_k_decode, q4_k_encode, q4_k_quants,
                           I8_ASYMMETRIC, q4_k_fit };
