/* iq_grids.h - shared by the IQ2 and IQ3 formats, which weft only reads.
 *
 * A code is an entry of a codebook: the magnitudes of eight or four numbers at once, each one of
 * three or eight. Their signs are separate bits. Formats with seven sign bits for eight numbers
 * omit the last: the number of minus signs is even. Products decode to floats (class f32). */
#ifndef WEFT_TENSOR_IQ_GRIDS_H
#define WEFT_TENSOR_IQ_GRIDS_H

#include "tensor/blocks.h"

/* Eight magnitudes of two bits ... */
extern const uint16_t iq2_xxs_grid[256], iq2_xs_grid[512], iq2_s_grid[1024];

/* ... or four of three bits, the first in the lowest bits. */
extern const uint16_t iq3_xxs_grid[256], iq3_s_grid[512];

/* Eight sign bits from seven, with even parity. */
static inline unsigned even_signs(unsigned seven)
{
    unsigned odd = seven ^ seven >> 4;
    odd ^= odd >> 2;
    odd ^= odd >> 1;
    return seven | (odd & 1) << 7;
}

static inline int8_t with_sign(int magnitude, unsigned signs, int k)
{
    return (int8_t)(signs >> k & 1 ? -magnitude : magnitude);
}

/* Eight numbers of an IQ2 format. */
static inline void take_eight(int8_t *q, unsigned entry, unsigned signs)
{
    static const int8_t magnitude[4] = { 8, 25, 43, 0 }; /* no entry has the last */
    for (int k = 0; k < 8; k++)
        q[k] = with_sign(magnitude[entry >> 2 * k & 3], signs, k);
}

/* Eight numbers of an IQ3 format, from two entries. */
static inline void take_two_fours(int8_t *q, const int8_t magnitude[8], unsigned first,
                                  unsigned second, unsigned signs)
{
    for (int k = 0; k < 4; k++) {
        q[k] = with_sign(magnitude[first >> 3 * k & 7], signs, k);
        q[k + 4] = with_sign(magnitude[second >> 3 * k & 7], signs, k + 4);
    }
}

static inline uint32_t u32_at(const uint8_t *at)
{
    return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

/* A format of 256 numbers that is only read, and multiplied as floats. */
#define READ_ONLY(type, number)                                                                    \
    const dtype dtype_##type = { .name = #type,                                                    \
                                 .gguf = number,                                                   \
                                 .block = LONG,                                                    \
                                 .bytes = BYTES,                                                   \
                                 .kind = TILE_OTHER,                                               \
                                 .decode = type##_decode,                                          \
                                 .tile = type##_decode }

#endif
