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
#include "tensor/blocks.h"

#define BYTES 18

static real quants(int8_t *to, const void *row, int64_t b)
{
    const uint8_t *block = (const uint8_t *)row + b * BYTES;
    uint8_t q[GROUP];
    take_nibbles(q, block + 2);
    center(to, q, 8);
    return f16_at(block);
}

static void group(real *to, const uint8_t *block, int g)
{
    int8_t q[GROUP];
    const real d = quants(q, block, g);
    scale_codes(to, q, d);
}

static void put_block(uint8_t *block, const real *x)
{
    uint8_t q[GROUP];
    find_signed(q, block, x, 8);
    put_nibbles(block + 2, q);
}

DECODES(GROUP)
ENCODES(GROUP)

const dtype dtype_q4_0 = {
    "q4_0", NULL, 2, GROUP, BYTES, TILE_Q4_0, decode, decode, encode, quants
};
