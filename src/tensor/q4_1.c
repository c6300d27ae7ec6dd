/* q4_1.c - 32 numbers as 4-bit steps above the least of them: x = d q + m.
 *
 *      0    2    4                        20
 *     +----+----+-------------------------+    d: f16 = (max - min) / 15    m: f16 = min
 *     | d  | m  | q[0] | q[16] << 4   ... |    q: (x - min) / d + 0.5 cut off
 *     +----+----+-------------------------+
 *
 * 20 bytes a block, 5 bits a number. The error is half a step plus the rounding of d and m to f16:
 * with R = max - min, |x - (d q + m)| <= R / 30 + (R + |min|) 2^-11 + 16 2^-25. A block with a NaN
 * becomes all NaN; one whose m exceeds 65504 becomes infinite. */
#include "tensor/blocks.h"

#define BYTES 20

static void q4_1_quants(block_i8 *to, const void *row, int64_t b)
{
    const uint8_t *block = (const uint8_t *)row + b * BYTES;
    take_nibbles((uint8_t *)to->q, block + 4);
    to->scale[0] = f16_at(block);
    to->offset[0] = f16_at(block + 2);
}

static void q4_1_put_block(uint8_t *block, const real *x)
{
    uint8_t q[GROUP];
    find_asymmetric(q, block, x, 15);
    put_nibbles(block + 4, q);
}

DECODES(q4_1, I8_ASYMMETRIC)
ENCODES(q4_1, GROUP)

const dtype dtype_q4_1 = { "q4_1",        NULL,        3,           GROUP,       BYTES,
                           TILE_Q4_1,     q4_1_decode, q4_1_decode, q4_1_encode, q4_1_quants,
                           I8_ASYMMETRIC, NULL };
