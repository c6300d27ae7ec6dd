/* q6_k.c - 256 numbers as 6-bit integers, 16 groups of 16 with an 8-bit scale each: x = d s (q -
 * 32).
 *
 *      0                           128                     192         208  210
 *     +---------------------------+-----------------------+-----------+----+
 *     | bits 0 to 3 of q,         | bits 4, 5,            | s[0] ...  | d  |    d: f16
 *     | q[0] | q[64] << 4    ...  | 4 numbers a byte      |     s[15] |    |    s: signed
 *     +---------------------------+-----------------------+-----------+----+
 *
 * Byte 64 h + k of the first part holds the numbers 128 h + k + { 0, 64 }, k < 64. Byte 32 h + k of
 * the second holds the numbers 128 h + k + { 0, 32, 64, 96 }, k < 32, the first in its lowest bits.
 * 210 bytes a block, 6.5625 bits a number. fit.c chooses codes and scales. The root mean square
 * error of a group is at most A / 61 + 2^-25, with A the largest magnitude of the block. */
#include "tensor/fit.h"

#define BYTES 210

static void q6_k_quants(block_i8 *to, const void *row, int64_t b)
{
    const uint8_t *block = (const uint8_t *)row + b / GROUPS * BYTES;
    const int g = (int)(b % GROUPS), h = g / 4, part = g % 4;
    const uint8_t *low = block + 64 * h + 32 * (part % 2), *high = block + 128 + 32 * h;
    const int8_t *s = (const int8_t *)(block + 192);
    for (int k = 0; k < GROUP; k++) {
        const int q = (low[k] >> 4 * (part / 2) & 15) | (high[k] >> 2 * part & 3) << 4;
        to->q[k] = (int8_t)(q - 32);
    }
    for (int half = 0; half < 2; half++)
        to->scale[half] = f16_at(block + 208) * (real)s[2 * g + half];
}

static const fit_shape shape = { 16, 127, 31, 0.88f, 1.12f, false };

static void q6_k_put_block(uint8_t *block, const real *x, const float *importance)
{
    signed_fit f;
    fit_signed(&f, x, importance, &shape);
    memset(block, 0, 192);
    for (int k = 0; k < LONG; k++) {
        const int h = k / 128, part = k % 128 / 32, q = f.q[k] + 32;
        block[64 * h + k % 64] |= (uint8_t)((q & 15) << 4 * (part / 2));
        block[128 + 32 * h + k % 32] |= (uint8_t)((q >> 4) << 2 * part);
    }
    memcpy(block + 192, f.s, sizeof f.s);
    put_f16(block + 208, f.d);
}

DECODES(q6_k, I8_HALVES)
FITS(q6_k, LONG)

const dtype dtype_q6_k = {
    "q6_k",      NULL,        14,          LONG,        BYTES,     TILE_Q6_K,
    q6_k_decode, q6_k_decode, q6_k_encode, q6_k_quants, I8_HALVES, q6_k_fit
};
