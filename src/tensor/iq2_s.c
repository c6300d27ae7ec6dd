/* iq2_s.c - 256 numbers, 16 groups of 16 with a 4-bit scale each: x = d (s + 1/2) / 4 times a signed
 * entry of a codebook of 1024, which holds eight magnitudes.
 *
 *      0    2              34             66               74         82
 *     +----+--------------+--------------+----------------+----------+
 *     | d  | bits 0 to 7  | signs of 8   | bits 8, 9 of   | s, two a |    d: f16
 *     |    | of an entry  | numbers      | entries, 4 each| byte     |
 *     +----+--------------+--------------+----------------+----------+
 *
 * 82 bytes a block, 2.5625 bits a number. Only read. */
#include "tensor/iq_grids.h"

#define BYTES 82

static void iq2_s_quants(block_i8 *to, const void *row, int64_t b)
{
    const uint8_t *block = (const uint8_t *)row + b / GROUPS * BYTES;
    const int g = (int)(b % GROUPS);
    const uint8_t *low = block + 2 + 4 * g, *signs = low + 32;
    for (int i = 0; i < 4; i++) {
        const unsigned high = block[66 + g] >> 2 * i & 3;
        take_eight(to->q + 8 * i, iq2_s_grid[low[i] | high << 8], signs[i]);
    }
    for (int half = 0; half < 2; half++) {
        const int s = block[74 + g] >> 4 * half & 15;
        to->scale[half] = f16_at(block) * ((real)0.5 + (real)s) * (real)0.25;
    }
}

DECODES(iq2_s, I8_HALVES)
READ_ONLY(iq2_s, 22);
