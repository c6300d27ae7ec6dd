/* iq2_xs.c - 256 numbers, 16 groups of 16 with a 4-bit scale each: x = d (s + 1/2) / 4 times a
 * signed entry of a codebook of 512, which holds eight magnitudes.
 *
 *      0    2                              66           74
 *     +----+------------------------------+------------+
 *     | d  | 16 bits for each 8 numbers:  | s, two a   |    d: f16
 *     |    | nine of an entry, seven signs| byte       |
 *     +----+------------------------------+------------+
 *
 * 74 bytes a block, 2.3125 bits a number. Only read. */
#include "tensor/iq_grids.h"

#define BYTES 74

static void iq2_xs_quants(block_i8 *to, const void *row, int64_t b)
{
    const uint8_t *block = (const uint8_t *)row + b / GROUPS * BYTES;
    const int g = (int)(b % GROUPS);
    for (int i = 0; i < 4; i++) {
        const uint8_t *at = block + 2 + g * 8 + 2 * i;
        const unsigned code = (unsigned)at[0] | (unsigned)at[1] << 8;
        take_eight(to->q + 8 * i, iq2_xs_grid[code & 511], even_signs(code >> 9));
    }
    for (int half = 0; half < 2; half++) {
        const int s = block[66 + g] >> 4 * half & 15;
        to->scale[half] = f16_at(block) * ((real)0.5 + (real)s) * (real)0.25;
    }
}

DECODES(iq2_xs, I8_HALVES)
READ_ONLY(iq2_xs, 17);
