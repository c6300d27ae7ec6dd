/* q5_k.c - 256 numbers as 5-bit steps, eight groups of 32 with a 6-bit scale and a 6-bit minimum
 * each: x = d s q - e m.
 *
 *      0    2    4            16          48                          176
 *     +----+----+------------+-----------+----------------------------+
 *     | d  | e  | s, m       | bit 4,    | q[0] | q[32] << 4   ...    |    d, e: f16
 *     |    |    | (blocks.h) | 8 a byte  | 64 numbers in 32 bytes     |
 *     +----+----+------------+-----------+----------------------------+
 *
 * Byte 16 + k holds bit 4 of the numbers k + 32 i at its bit i. 176 bytes a block, 5.5 bits a
 * number. fit.c chooses codes, scales and minima. The root mean square error of a group is at most
 * (R + M / 62) 1.017 / 62 + 2^-24, with R and M as in q4_k.c. */
#include "tensor/fit.h"

#define BYTES 176

static void q5_k_quants(block_i8 *to, const void *row, int64_t b)
{
    const uint8_t *block = (const uint8_t *)row + b / GROUPS * BYTES;
    const int g = (int)(b % GROUPS);
    const uint8_t *high = block + 16, *low = block + 48 + g / 2 * GROUP;
    for (int k = 0; k < GROUP; k++)
        to->q[k] = (int8_t)((low[k] >> 4 * (g % 2) & 15) | (high[k] >> g & 1) << 4);
    take_asymmetric_head(to, block, g);
}

static const fit_shape shape = { GROUP, 63, 31, 0.92f, 1.08f, false };

static void q5_k_put_block(uint8_t *block, const real *x, const float *importance)
{
    asymmetric_fit f;
    fit_asymmetric(&f, x, importance, &shape);
    put_asymmetric_head(block, &f);
    memset(block + 16, 0, GROUP);
    for (int k = 0; k < LONG; k++)
        block[16 + k % GROUP] |= (uint8_t)((f.q[k] >> 4) << k / GROUP);
    put_nibble_pairs(block + 48, f.q);
}

DECODES(q5_k, I8_ASYMMETRIC)
FITS(q5_k, LONG)

const dtype dtype_q5_k = { "q5_k",        NULL,        13,          LONG,        BYTES,
                           TILE_Q5_K,     q5_k_decode, q5_k_decode, q5_k_encode, q5_k_quants,
                           I8_ASYMMETRIC, q5_k_fit };
