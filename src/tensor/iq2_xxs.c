/* iq2_xxs.c - 256 numbers, eight groups of 32 with a 4-bit scale each: x = d (s + 1/2) / 4 times a
 * signed entry of a codebook of 256, which holds eight magnitudes.
 *
 *      0    2                    66
 *     +----+---------------------+
 *     | d  | 8 bytes for each 32 |    d: f16
 *     +----+---------------------+
 *
 *     8 bytes    four entries, a byte each; then a word: four times seven signs, above them s
 *
 * 66 bytes a block, 2.0625 bits a number. Only read. */
#include "tensor/iq_grids.h"

#define BYTES 66

static void iq2_xxs_quants(block_i8 *to, const void *row, int64_t b)
{
    const uint8_t *block = (const uint8_t *)row + b / GROUPS * BYTES;
    const uint8_t *entry = block + 2 + b % GROUPS * 8;
    const uint32_t word = u32_at(entry + 4);
    for (int i = 0; i < 4; i++)
        take_eight(to->q + 8 * i, iq2_xxs_grid[entry[i]], even_signs(word >> 7 * i & 127));
    to->scale[0] = f16_at(block) * ((real)0.5 + (real)(word >> 28)) * (real)0.25;
}

DECODES(iq2_xxs, I8_SCALED)
READ_ONLY(iq2_xxs, 16);
