/* iq3_xxs.c - 256 numbers, eight groups of 32 with a 4-bit scale each: x = d (s + 1/2) / 2 times a
 * signed entry of a codebook of 256, which holds four magnitudes.
 *
 *      0    2                      66                             98
 *     +----+----------------------+------------------------------+
 *     | d  | an entry a byte, for | a word for each 32: four     |    d: f16
 *     |    | 4 numbers            | times seven signs, then s    |
 *     +----+----------------------+------------------------------+
 *
 * 98 bytes a block, 3.0625 bits a number. Only read. */
#include "tensor/iq_grids.h"

#define BYTES 98

static void iq3_xxs_quants(block_i8 *to, const void *row, int64_t b)
{
    static const int8_t magnitude[8] = { 4, 12, 20, 28, 36, 44, 52, 62 };
    const uint8_t *block = (const uint8_t *)row + b / GROUPS * BYTES;
    const int g = (int)(b % GROUPS);
    const uint8_t *entry = block + 2 + 8 * g;
    const uint32_t word = u32_at(block + 66 + 4 * g);
    for (int i = 0; i < 4; i++)
        take_two_fours(to->q + 8 * i, magnitude, iq3_xxs_grid[entry[2 * i]],
                       iq3_xxs_grid[entry[2 * i + 1]], even_signs(word >> 7 * i & 127));
    to->scale[0] = f16_at(block) * ((real)0.5 + (real)(word >> 28)) * (real)0.5;
}

DECODES(iq3_xxs, I8_SCALED)
READ_ONLY(iq3_xxs, 18);
