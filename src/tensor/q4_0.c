/* q4_0.c - 32 numbers as 4-bit integers with one 16-bit scale: x = d (q - 8).
 *
 *      0    2                        18
 *     +----+-------------------------+
 *     | d  | q[0] | q[16] << 4   ... |    d: f16 = m / -8, m the number of largest size
 *     +----+-------------------------+    q: x / d + 8.5 cut off, at most 15
 *
 * 18 bytes a block, 4.5 bits a number. The scale takes the sign of m, so that m itself is -8 d,
 * exact but for d's rounding; a number of the opposite sign reaches only 7 d, so |x - d (q - 8)| <=
 * |m| / 8 + |m| 2^-11 + 8 2^-25. A block with something that is no number becomes all NaN. */
#include "tensor/dtype.h"

#include "kernels/half.h"

#define BLOCK 32
#define HALF  16
#define BYTES 18

static real quants(int8_t *to, const void *row, int64_t b)
{
    const uint8_t *block = (const uint8_t *)row + b * BYTES;
    uint16_t d;
    memcpy(&d, block, sizeof d);
    for (int k = 0; k < HALF; k++) {
        to[k] = (int8_t)((block[2 + k] & 15) - 8);
        to[k + HALF] = (int8_t)((block[2 + k] >> 4) - 8);
    }
    return f16_decode(d);
}

static void decode(real *to, const void *row, int64_t k0, int64_t n)
{
    for (int64_t k = k0; k < k0 + n;) {
        int8_t q[BLOCK];
        const real scale = quants(q, row, k / BLOCK);
        const int64_t end = k / BLOCK * BLOCK + BLOCK;
        for (; k < end && k < k0 + n; k++)
            to[k - k0] = scale * (real)q[k % BLOCK];
    }
}

static const real *tile(real *to, const void *row, int64_t k0, int64_t n)
{
    decode(to, row, k0, n);
    return to;
}

static int nibble(real x, float inverse)
{
    const int q = inverse == 0 ? 8 : (int)((float)x * inverse + 8.5f);
    return q < 15 ? q : 15;
}

static void encode_block(uint8_t *block, const real *x)
{
    float size = 0, most = 0;
    for (int k = 0; k < BLOCK; k++) {
        const float v = (float)x[k];
        if (fabsf(v) > size || isnan(v)) { /* NaN wins and stays: nothing is larger than it */
            size = fabsf(v);
            most = v;
        }
    }
    const float d = most / -8;
    const uint16_t scale = f16_encode(isfinite(most) ? d : NAN);
    float inverse = d != 0 ? 1 / d : 0;
    if (!isfinite(inverse) || !isfinite(most))
        inverse = 0; /* too small to be told from zero, or no number at all */

    memcpy(block, &scale, sizeof scale);
    for (int k = 0; k < HALF; k++)
        block[2 + k] = (uint8_t)(nibble(x[k], inverse) | nibble(x[k + HALF], inverse) << 4);
}

static void encode(void *row, const real *from, int64_t n)
{
    for (int64_t k = 0; k < n; k += BLOCK)
        encode_block((uint8_t *)row + k / BLOCK * BYTES, from + k);
}

const dtype dtype_q4_0 = { "q4_0", NULL, 2, BLOCK, BYTES, TILE_Q4_0, decode, tile, encode, quants };
