/* q2_k.c - 256 numbers as 2-bit steps, 16 groups of 16 with a 4-bit scale and a 4-bit minimum each:
 * x = d s q - e m.
 *
 *      0                   16                     80   82   84
 *     +-------------------+----------------------+----+----+
 *     | s[0] | m[0] << 4  | q, 4 numbers a byte  | d  | e  |    d, e: f16
 *     | ... s[15], m[15]  |                      |    |    |
 *     +-------------------+----------------------+----+----+
 *
 * Byte 16 + 32 h + k holds the numbers 128 h + k + { 0, 32, 64, 96 }, the first in its lowest bits.
 * 84 bytes a block, 2.625 bits a number. fit.c chooses codes, scales and minima. The root mean
 * square error of a block is at most (R + M / 14.9) / 3.55 + 2^-23. R is the largest range of a
 * group including zero, M the largest magnitude of a value below zero. */
#include "tensor/fit.h"

#define BYTES 84

static void q2_k_quants(block_i8 *to, const void *row, int64_t b)
{
    const uint8_t *block = (const uint8_t *)row + b / GROUPS * BYTES;
    const int g = (int)(b % GROUPS);
    const uint8_t *q = block + 16 + g / 4 * 32;
    for (int k = 0; k < GROUP; k++)
        to->q[k] = (int8_t)(q[k] >> 2 * (g % 4) & 3);
    for (int half = 0; half < 2; half++) {
        const uint8_t both = block[2 * g + half];
        to->scale[half] = f16_at(block + 80) * (real)(both & 15);
        to->offset[half] = -(f16_at(block + 82) * (real)(both >> 4));
    }
}

static const fit_shape shape = { 16, 15, 3, 0.6f, 1.1f, true };

static void q2_k_put_block(uint8_t *block, const real *x, const float *importance)
{
    asymmetric_fit f;
    fit_asymmetric(&f, x, importance, &shape);
    for (int i = 0; i < 16; i++)
        block[i] = (uint8_t)(f.s[i] | f.m[i] << 4);
    put_bit_pairs(block + 16, f.q);
    put_f16(block + 80, f.d);
    put_f16(block + 82, f.e);
}

DECODES(q2_k, I8_ASYMMETRIC | I8_HALVES)
FITS(q2_k, LONG)

const dtype dtype_q2_k = { "q2_k",
                           NULL,
                           10,
                           LONG,
                           BYTES,
                           TILE_Q2_K,
                           q2_k_decode,
                           q2_k_decode,
                           q2_k_encode,
                           q2_k_quants,
                           I8_ASYMMETRIC | I8_HALVES,
                           q2_k_fit };
