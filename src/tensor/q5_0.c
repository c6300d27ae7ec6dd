/* q5_0.c - 32 numbers as 5-bit integers with one 16-bit scale: x = d (q - 16).
 *
 *      0    2        6                        22
 *     +----+--------+-------------------------+
 *     | d  | bit 4  | q[0] | q[16] << 4   ... |    d: f16 = m / -16, m the number of largest size
 *     +----+--------+-------------------------+    q: x / d + 16.5 cut off, at most 31
 *
 * 22 bytes a block, 5.5 bits a number. As in q4_0.c, |x - d (q - 16)| <= |m| / 16 + |m| 2^-11 + 16
 * 2^-25, and a block with a NaN becomes all NaN. */
#include "tensor/fit_small.h"

#define BYTES 22

static void q5_0_quants(block_i8 *to, const void *row, int64_t b)
{
    const uint8_t *block = (const uint8_t *)row + b * BYTES;
    uint8_t q[GROUP];
    take_nibbles(q, block + 6);
    take_fifth_bits(q, block + 2);
    center(to->q, q, 16);
    to->scale[0] = f16_at(block);
}

static void q5_0_put_block(uint8_t *block, const real *x, const float *importance)
{
    uint8_t q[GROUP];
    if (importance)
        fit_small(q, block, x, importance, 16);
    else
        find_signed(q, block, x, 16);
    put_fifth_bits(block + 2, q);
    put_nibbles(block + 6, q);
}

DECODES(q5_0, I8_SCALED)
FITS(q5_0, GROUP)

const dtype dtype_q5_0 = {
    "q5_0",      NULL,        6,           GROUP,       BYTES,     TILE_Q5_0,
    q5_0_decode, q5_0_decode, q5_0_encode, q5_0_quants, I8_SCALED, q5_0_fit
};
