/* q3_k.c - 256 numbers as 3-bit integers, 16 groups of 16 with a 6-bit scale each: x = d (s - 32)
 * (q - 4).
 *
 *      0            32                     96            108  110
 *     +------------+----------------------+-------------+----+
 *     | bit 2 of q | bits 0, 1, 4 numbers | s           | d  |    d: f16
 *     | 8 a byte   | a byte               |             |    |
 *     +------------+----------------------+-------------+----+
 *
 * Byte k of the first part holds bit 2 of the numbers k + 32 i at its bit i. Byte 32 + 32 h + k
 * holds the numbers 128 h + k + { 0, 32, 64, 96 }, the first in its lowest bits. Byte 96 + i has
 * the lower four bits of the scale s[i] and, above them, of s[i + 8], i < 8. Byte 104 + i has the
 * upper two bits of s[i + { 0, 4, 8, 12 }], i < 4. 110 bytes a block, 3.4375 bits a number. fit.c
 * chooses codes and scales. The root mean square error of a block is at most A / 3.67 + 2^-24, with
 * A the largest magnitude of the block. */
#include "tensor/fit.h"

#define BYTES 110

static int q3_k_scale(const uint8_t *s, int i)
{
    const int low = s[i % 8] >> 4 * (i / 8) & 15, high = s[8 + i % 4] >> 2 * (i / 4) & 3;
    return (low | high << 4) - 32;
}

static void q3_k_quants(block_i8 *to, const void *row, int64_t b)
{
    const uint8_t *block = (const uint8_t *)row + b / GROUPS * BYTES;
    const int g = (int)(b % GROUPS);
    const uint8_t *low = block + 32 + g / 4 * 32;
    for (int k = 0; k < GROUP; k++) {
        const int q = (low[k] >> 2 * (g % 4) & 3) | (block[k] >> g & 1) << 2;
        to->q[k] = (int8_t)(q - 4);
    }
    for (int half = 0; half < 2; half++)
        to->scale[half] = f16_at(block + 108) * (real)q3_k_scale(block + 96, 2 * g + half);
}

static const fit_shape shape = { 16, 31, 3, 0.6f, 1.2f, true };

static void q3_k_put_block(uint8_t *block, const real *x, const float *importance)
{
    signed_fit f;
    uint8_t q[LONG];
    fit_signed(&f, x, importance, &shape);
    memset(block, 0, BYTES);
    for (int k = 0; k < LONG; k++) {
        q[k] = (uint8_t)(f.q[k] + 4);
        block[k % GROUP] |= (uint8_t)((q[k] >> 2) << k / GROUP);
    }
    put_bit_pairs(block + 32, q);
    for (int i = 0; i < 16; i++) {
        const int s = f.s[i] + 32;
        block[96 + i % 8] |= (uint8_t)((s & 15) << 4 * (i / 8));
        block[104 + i % 4] |= (uint8_t)((s >> 4) << 2 * (i / 4));
    }
    put_f16(block + 108, f.d);
}

DECODES(q3_k, I8_HALVES)
FITS(q3_k, LONG)

const dtype dtype_q3_k = {
    "q3_k",      NULL,        11,          LONG,        BYTES,     TILE_Q3_K,
    q3_k_decode, q3_k_decode, q3_k_encode, q3_k_quants, I8_HALVES, q3_k_fit
};
