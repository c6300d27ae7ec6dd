/* q8_0.c - 32 numbers as 8-bit integers with one 16-bit scale: x = d q.
 *
 *      0    2                              34
 *     +----+-------------------------------+
 *     | d  | q[0] q[1] ...           q[31] |    d: f16 = max|x| / 127    q: round(x / d), half away
 *     +----+-------------------------------+
 *
 * 34 bytes a block, 8.5 bits a number; |x - d q| <= max|x| / 254 + max|x| 2^-11 + 127 2^-25; a
 * block with something that is no number becomes all NaN. */
#include "tensor/dtype.h"

#include "kernels/half.h"

#define BLOCK 32
#define BYTES 34

static void decode(real *to, const void *row, int64_t k0, int64_t n)
{
    for (int64_t k = k0; k < k0 + n;) {
        const uint8_t *block = (const uint8_t *)row + k / BLOCK * BYTES;
        uint16_t d;
        memcpy(&d, block, sizeof d);
        const real scale = f16_decode(d);
        const int8_t *q = (const int8_t *)(block + sizeof d);
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

static real quants(int8_t *to, const void *row, int64_t b)
{
    const uint8_t *block = (const uint8_t *)row + b * BYTES;
    uint16_t d;
    memcpy(&d, block, sizeof d);
    memcpy(to, block + sizeof d, BLOCK);
    return f16_decode(d);
}

static void encode_block(uint8_t *block, const real *x)
{
    float max = 0;
    for (int k = 0; k < BLOCK; k++) {
        const float size = fabsf((float)x[k]);
        max = size > max || isnan(size) ? size : max; /* NaN wins and stays */
    }
    const float d = max / 127;
    const uint16_t scale = f16_encode(isfinite(max) ? d : NAN);
    float inverse = d != 0 ? 1 / d : 0;
    if (!isfinite(inverse) || !isfinite(max))
        inverse = 0; /* too small to be told from zero, or no number at all */

    memcpy(block, &scale, sizeof scale);
    int8_t *q = (int8_t *)(block + sizeof scale);
    for (int k = 0; k < BLOCK; k++)
        q[k] = inverse == 0 ? 0 : (int8_t)roundf((float)x[k] * inverse);
}

static void encode(void *row, const real *from, int64_t n)
{
    for (int64_t k = 0; k < n; k += BLOCK)
        encode_block((uint8_t *)row + k / BLOCK * BYTES, from + k);
}

const dtype dtype_q8_0 = { "q8_0", NULL, 8, BLOCK, BYTES, TILE_Q8_0, decode, tile, encode, quants };
