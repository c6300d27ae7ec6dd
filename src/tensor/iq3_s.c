/* iq3_s.c - 256 numbers, eight groups of 32 with a 4-bit scale each: x = d (2 s + 1) times a signed
 * entry of a codebook of 512, which holds four magnitudes.
 *
 *      0    2                 66              74           106         110
 *     +----+-----------------+---------------+------------+-----------+
 *     | d  | bits 0 to 7 of  | bit 8 of      | signs of 8 | s, two a  |    d: f16
 *     |    | an entry        | 8 entries     | numbers    | byte      |
 *     +----+-----------------+---------------+------------+-----------+
 *
 * 110 bytes a block, 3.4375 bits a number. Only read. */
#include "tensor/iq_grids.h"

#define BYTES 110

static void iq3_s_quants(block_i8 *to, const void *row, int64_t b)
{
    static const int8_t magnitude[8] = { 1, 3, 5, 7, 9, 11, 13, 15 };
    const uint8_t *block = (const uint8_t *)row + b / GROUPS * BYTES;
    const int g = (int)(b % GROUPS);
    const uint8_t *low = block + 2 + 8 * g, *signs = block + 74 + 4 * g;
    for (int i = 0; i < 4; i++) {
        unsigned entry[2];
        for (int k = 0; k < 2; k++)
            entry[k] = low[2 * i + k] | (block[66 + g] >> (2 * i + k) & 1u) << 8;
        take_two_fours(to->q + 8 * i, magnitude, iq3_s_grid[entry[0]], iq3_s_grid[entry[1]],
                       signs[i]);
    }
    const int s = block[106 + g / 2] >> g % 2 * 4 & 15;
    to->scale[0] = f16_at(block) * (real)(2 * s + 1);
}

DECODES(iq3_s, I8_SCALED)
READ_ONLY(iq3_s, 21);
