/* q8_0.c - 32 numbers as 8-bit integers with one 16-bit scale: x = d q.
 *
 *      0    2                              34
 *     +----+-------------------------------+
 *     | d  | q[0] q[1] ...           q[31] |    d: f16 = max|x| / 127    q: round(x / d), half away
 *     +----+-------------------------------+
 *
 * 34 bytes a block, 8.5 bits a number; |x - d q| <= max|x| / 254 + max|x| 2^-11 + 127 2^-25. A
 * block with a NaN becomes all NaN. */
#include "tensor/blocks.h"

#define BYTES 34

static void q8_0_quants(block_i8 *to, const void *row, int64_t b)
{
    const uint8_t *block = (const uint8_t *)row + b * BYTES;
    memcpy(to->q, block + 2, GROUP);
    to->scale[0] = f16_at(block);
}

static void q8_0_put_block(uint8_t *block, const real *x)
{
    const float inverse = put_scale(block, fabsf(largest(x)) / 127);
    int8_t *q = (int8_t *)(block + 2);
    for (int k = 0; k < GROUP; k++)
        q[k] = inverse == 0 ? 0 : (int8_t)roundf((float)x[k] * inverse);
}

DECODES(q8_0, I8_SCALED)
ENCODES(q8_0, GROUP)

const dtype dtype_q8_0 = { "q8_0",      NULL,        8,           GROUP,       BYTES,    TILE_Q8_0,
                           q8_0_decode, q8_0_decode, q8_0_encode, q8_0_quants, I8_BYTES, NULL };
