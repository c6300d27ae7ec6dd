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
    const real d = f16_at(block), m = f16_at(block + 2);
    for (int k = 0; k < GROUP; k++)
        to[k] = d * (real)q[k] + m;
}

static const real *decode(real *to, const void *row, int64_t k0, int64_t n)
{
    return decode_groups(group, GROUP, BYTES, to, row, k0, n);
}

static void encode(void *row, const real *from, int64_t n)
{
    uint8_t *block = row, q[GROUP];
    for (int64_t k = 0; k < n; k += GROUP, block += BYTES) {
        lifted_codes(q, block, from + k, 15);
        put_nibbles(block + 4, q);
    }
}

const dtype dtype_q4_1 = {
    "q4_1", NULL, 3, GROUP, BYTES, TILE_OTHER, decode, decode, encode, NULL
};
