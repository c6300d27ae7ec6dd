/* q2_k.c - 256 numbers as 2-bit steps, 16 groups of 16 with a 4-bit scale and a 4-bit minimum each:
 * x = d s q - e m.
 *
 *      0                   16                     80   82   84
 *     +-------------------+----------------------+----+----+
 *     | s[0] | m[0] << 4  | q, 4 numbers a byte  | d  | e  |    d, e: f16
 *     | ... s[15], m[15]  |                      |    |    |
 *     +-------------------+----------------------+----+----+
 *
 * Byte 16 + 32 h + k holds the numbers 128 h + k + { 0, 32, 64, 96 }, the first in its lowest bits.
 * 84 bytes a block, 2.625 bits a number. Read, not written. */
#include "tensor/blocks.h"

#define BYTES 84

static void group(real *to, const uint8_t *block, int g)
{
    const uint8_t *q = block + 16 + g / 4 * 32;
    const real d = f16_at(block + 80), e = f16_at(block + 82);
    for (int half = 0; half < 2; half++) {
        const uint8_t both = block[2 * g + half];
        const real scale = d * (real)(both & 15), minimum = e * (real)(both >> 4);
        for (int k = 16 * half; k < 16 * half + 16; k++)
            to[k] = scale * (real)(q[k] >> 2 * (g % 4) & 3) - minimum;
    }
}

DECODES(LONG)

const dtype dtype_q2_k = { "q2_k", NULL, 10, LONG, BYTES, TILE_OTHER, decode, decode, NULL, NULL };
