/* q4_1.c - 32 numbers as 4-bit steps above the least of them: x = d q + m.
 *
 *      0    2    4                        20
 *     +----+----+-------------------------+    d: f16 = (max - min) / 15    m: f16 = min
 *     | d  | m  | q[0] | q[16] << 4   ... |    q: (x - min) / d + 0.5 cut off
 *     +----+----+-------------------------+
 *
 * 20 bytes a block, 5 bits a number. Half a step, and what rounding d and m to f16 moves: with R =
 * max - min, |x - (d q + m)| <= R / 30 + (R + |min|) 2^-11 + 16 2^-25. A block with something that
 * is no number becomes all NaN; one whose m is beyond 65504, infinite. */
#include "tensor/blocks.h"

#define BYTES 20

static void group(real *to, const uint8_t *block, int g)
{
    (void)g;
    uint8_t q[GROUP];
    take_nibbles(q, block + 4);
    lift_codes(to, q, block);
}

static void put_block(uint8_t *block, const real *x)
{
    uint8_t q[GROUP];
    find_lifted(q, block, x, 15);
    put_nibbles(block + 4, q);
}

DECODES(GROUP)
ENCODES(GROUP)

const dtype dtype_q4_1 = {
    "q4_1", NULL, 3, GROUP, BYTES, TILE_OTHER, decode, decode, encode, NULL
};
