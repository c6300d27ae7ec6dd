/* q5_1.c - 32 numbers as 5-bit steps above the least of them: x = d q + m.
 *
 *      0    2    4        8                        24
 *     +----+----+--------+-------------------------+    d: f16 = (max - min) / 31    m: f16 = min
 *     | d  | m  | bit 4  | q[0] | q[16] << 4   ... |    q: (x - min) / d + 0.5 cut off
 *     +----+----+--------+-------------------------+
 *
 * 24 bytes a block, 6 bits a number. As in q4_1.c, with R = max - min, |x - (d q + m)| <= R / 62 +
 * (R + |min|) 2^-11 + 32 2^-25, and a block with a NaN becomes all NaN. */
#include "tensor/blocks.h"

#define BYTES 24

static void q5_1_quants(block_i8 *to, const void *row, int64_t b)
{
    const uint8_t *block = (const uint8_t *)row + b * BYTES;
    take_nibbles((uint8_t *)to->q, block + 8);
    take_fifth_bits((uint8_t *)to->q, block + 4);
    to->scale[0] = f16_at(block);
    to->offset[0] = f16_at(block + 2);
}

static void q5_1_put_block(uint8_t *block, const real *x)
{
    uint8_t q[GROUP];
    find_asymmetric(q, block, x, 31);
    put_fifth_bits(block + 4, q);
    put_nibbles(block + 8, q);
}

DECODES(q5_1, I8_ASYMMETRIC)
ENCODES(q5_1, GROUP)

const dtype dtype_q5_1 = { "q5_1",        NULL,        7,           GROUP,       BYTES,
                           TILE_Q5_1,     q5_1_decode, q5_1_decode, q5_1_encode, q5_1_quants,
                           I8_ASYMMETRIC, NULL };
