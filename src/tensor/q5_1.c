/* q5_1.c - 32 numbers as 5-bit steps above the least of them: x = d q + m.
 *
 *      0    2    4        8                        24
 *     +----+----+--------+-------------------------+    d: f16 = (max - min) / 31    m: f16 = min
 *     | d  | m  | bit 4  | q[0] | q[16] << 4   ... |    q: (x - min) / d + 0.5 cut off
 *     +----+----+--------+-------------------------+
 *
 * 24 bytes a block, 6 bits a number. As in q4_1.c, with R = max - min, |x - (d q + m)| <= R / 62 +
 * (R + |min|) 2^-11 + 32 2^-25, and a block with something that is no number becomes all NaN. */
#include "tensor/blocks.h"

#define BYTES 24

static void group(real *to, const uint8_t *block, int g)
{
    (void)g;
    uint8_t q[GROUP];
    take_nibbles(q, block + 8);
    take_fifth_bits(q, block + 4);
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
        lifted_codes(q, block, from + k, 31);
        put_fifth_bits(block + 4, q);
        put_nibbles(block + 8, q);
    }
}

const dtype dtype_q5_1 = {
    "q5_1", NULL, 7, GROUP, BYTES, TILE_OTHER, decode, decode, encode, NULL
};
