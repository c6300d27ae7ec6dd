/* q4_0.c - 32 numbers as 4-bit integers with one 16-bit scale: x = d (q - 8).
 *
 *      0    2                        18
 *     +----+-------------------------+
 *     | d  | q[0] | q[16] << 4   ... |    d: f16 = m / -8, m the number of largest size
 *     +----+-------------------------+    q: x / d + 8.5 cut off, at most 15
 *
 * 18 bytes a block, 4.5 bits a number. The scale takes the sign of m, so that m itself is -8 d,
 * exact except for d's rounding. A value of the opposite sign reaches only 7 d, so |x - d (q - 8)|
 * <= |m| / 8 + |m| 2^-11 + 8 2^-25. A block with a NaN becomes all NaN. */
#include "tensor/fit_small.h"

#define BYTES 18

static void q4_0_quants(block_i8 *to, const void *row, int64_t b)
{
    const uint8_t *block = (const uint8_t *)row + b * BYTES;
    uint8_t q[GROUP];
    take_nibbles(q, block + 2);
    center(to->q, q, 8);
    to->scale[0] = f16_at(block);
}

static void q4_0_put_block(uint8_t *block, const real *x, const float *importance)
{
    uint8_t q[GROUP];
    if (importance)
        fit_small(q, block, x, importance, 8);
    else
        find_signed(q, block, x, 8);
    put_nibbles(block + 2, q);
}

DECODES(q4_0, I8_SCALED)
FITS(q4_0, GROUP)

const dtype dtype_q4_0 = {
    "q4_0",      NULL,        2,           GROUP,       BYTES,     TILE_Q4_0,
    q4_0_decode, q4_0_decode, q4_0_encode, q4_0_quants, I8_SCALED, q4_0_fit
};
