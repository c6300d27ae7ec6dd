/* blocks.h - shared by the block formats.
 *
 * A format's file defines BYTES of a block and quants(), which splits 32 values into integers,
 * scales and minima. A format that weft also writes defines put_block(). DECODES and ENCODES derive
 * decode() and encode() of whole rows; FITS derives encode() and fit() where put_block() takes an
 * importance for each value, or NULL. The 4-bit and 5-bit formats of 32 values share the layout of
 * their codes:
 *
 *     bytes of codes    | q[0] | q[16] << 4 | q[1] | q[17] << 4 | ... q[15] | q[31] << 4 |
 *     fifth bits        bit k of a 32-bit number is bit 4 of q[k] */
#ifndef WEFT_TENSOR_BLOCKS_H
#define WEFT_TENSOR_BLOCKS_H

#include "kernels/half.h"
#include "tensor/dtype.h"

#define GROUP  32             /* values decoded at a time, and in a small block */
#define LONG   256            /* values in a block of the K formats */
#define GROUPS (LONG / GROUP) /* groups of it */

/* ---- reading --------------------------------------------------------------------------------- */

static inline float f16_at(const uint8_t *at)
{
    return f16_decode((uint16_t)(at[0] | at[1] << 8));
}

/* Decodes 32 values, block b of a row. */
static inline __attribute__((always_inline)) void decode_block(quants_fn *quants, i8_form form,
                                                               real *to, const void *row, int64_t b)
{
    block_i8 w;
    quants(&w, row, b);
    const int n = GROUP / groups_i8(form);
    for (int g = 0; g < groups_i8(form); g++)
        for (int k = g * n; k < (g + 1) * n; k++)
            to[k] = form & I8_ASYMMETRIC ? w.scale[g] * (real)w.q[k] + w.offset[g]
                                         : w.scale[g] * (real)w.q[k];
}

/* Columns [k0, k0 + n) of a row, at any offset; a partial block is decoded to a buffer first. */
static inline __attribute__((always_inline)) const real *
decode_blocks(quants_fn *quants, i8_form form, real *to, const void *row, int64_t k0, int64_t n)
{
    for (int64_t k = k0; k < k0 + n;) {
        const int64_t first = k % GROUP, left = k0 + n - k;
        if (first == 0 && left >= GROUP) {
            decode_block(quants, form, to + (k - k0), row, k / GROUP);
            k += GROUP;
            continue;
        }
        const int64_t wanted = left < GROUP - first ? left : GROUP - first;
        real whole[GROUP];
        decode_block(quants, form, whole, row, k / GROUP);
        memcpy(to + (k - k0), whole + first, (size_t)wanted * sizeof *to);
        k += wanted;
    }
    return to;
}

#define DECODES(name, form)                                                                        \
    static const real *name##_decode(real *to, const void *row, int64_t k0, int64_t n)             \
    {                                                                                              \
        return decode_blocks(name##_quants, form, to, row, k0, n);                                 \
    }

#define ENCODES(name, block)                                                                       \
    static void name##_encode(void *row, const real *from, int64_t n)                              \
    {                                                                                              \
        for (int64_t b = 0; b < n / (block); b++)                                                  \
            name##_put_block((uint8_t *)row + b * BYTES, from + b * (block));                      \
    }

#define FITS(name, block)                                                                          \
    static void name##_fit(void *row, const real *from, const float *importance, int64_t n)        \
    {                                                                                              \
        for (int64_t b = 0; b < n / (block); b++)                                                  \
            name##_put_block((uint8_t *)row + b * BYTES, from + b * (block),                       \
                             importance ? importance + b * (block) : NULL);                        \
    }                                                                                              \
    static void name##_encode(void *row, const real *from, int64_t n)                              \
    {                                                                                              \
        name##_fit(row, from, NULL, n);                                                            \
    }

static inline void take_nibbles(uint8_t *q, const uint8_t *from)
{
    for (int k = 0; k < GROUP / 2; k++) {
        q[k] = from[k] & 15;
        q[k + GROUP / 2] = from[k] >> 4;
    }
}

/* Codes around `half` as integers around zero. */
static inline void center(int8_t *to, const uint8_t *q, int half)
{
    for (int k = 0; k < GROUP; k++)
        to[k] = (int8_t)(q[k] - half);
}

/* Moves eight bits to bit 4 of eight bytes at once: copies the byte to every byte of a word, masks
 * one bit in each, and shifts it by a carry. */
static inline void take_fifth_bits(uint8_t *q, const uint8_t *from)
{
    for (int i = 0; i < GROUP / 8; i++) {
        uint64_t word, eight = from[i] * 0x0101010101010101u & 0x8040201008040201u;
        eight = (eight + 0x00406070787C7E7Fu) & 0x8080808080808080u;
        memcpy(&word, q + 8 * i, sizeof word);
        word |= eight >> 3;
        memcpy(q + 8 * i, &word, sizeof word);
    }
}

/* ---- writing --------------------------------------------------------------------------------- */

static inline void put_f16(uint8_t *at, float x)
{
    const uint16_t h = f16_encode(x);
    at[0] = (uint8_t)h;
    at[1] = (uint8_t)(h >> 8);
}

/* The value of largest magnitude among 32; a NaN wins and stays. */
static inline float largest(const real *x)
{
    float size = 0, most = 0;
    for (int k = 0; k < GROUP; k++) {
        const float v = (float)x[k];
        if (fabsf(v) > size || isnan(v)) {
            size = fabsf(v);
            most = v;
        }
    }
    return most;
}

/* Writes a scale, NaN if it is non-finite, and returns 1 / d; returns 0 if d is zero, too small or
 * NaN. */
static inline float put_scale(uint8_t *at, float d)
{
    put_f16(at, isfinite(d) ? d : NAN);
    const float inverse = d != 0 ? 1 / d : 0;
    return isfinite(inverse) ? inverse : 0;
}

static inline void put_nibbles(uint8_t *to, const uint8_t *q)
{
    for (int k = 0; k < GROUP / 2; k++)
        to[k] = (uint8_t)((q[k] & 15) | (q[k + GROUP / 2] & 15) << 4);
}

static inline void put_fifth_bits(uint8_t *to, const uint8_t *q)
{
    for (int i = 0; i < GROUP / 8; i++) {
        to[i] = 0;
        for (int k = 0; k < 8; k++)
            to[i] |= (uint8_t)((q[8 * i + k] >> 4 & 1) << k);
    }
}

/* Codes from 0 to 2 half - 1 of x = d (q - half), as the 4-bit and 5-bit formats choose them. The
 * scale takes the sign of the value of largest magnitude, which thus becomes -half d. Writes d. */
static inline void find_signed(uint8_t *q, uint8_t *d, const real *x, int half)
{
    const float inverse = put_scale(d, largest(x) / (float)-half);
    for (int k = 0; k < GROUP; k++) {
        const int code = inverse == 0 ? half : (int)((float)x[k] * inverse + (float)half + 0.5f);
        q[k] = (uint8_t)(code < 2 * half ? code : 2 * half - 1);
    }
}

/* Codes from 0 to `top` of x = d q + m: m is the minimum, m + top d the maximum. Writes d and m,
 * both NaN if a value is NaN. */
static inline void find_asymmetric(uint8_t *q, uint8_t *d_and_m, const real *x, int top)
{
    float min = (float)x[0], max = (float)x[0], poison = 0;
    for (int k = 0; k < GROUP; k++) {
        const float v = (float)x[k];
        min = v < min ? v : min;
        max = v > max ? v : max;
        poison += v * 0;
    }
    const float inverse = put_scale(d_and_m, (max - min) / (float)top + poison);
    put_f16(d_and_m + 2, min + poison);
    for (int k = 0; k < GROUP; k++) {
        const int code = inverse == 0 ? 0 : (int)(((float)x[k] - min) * inverse + 0.5f);
        q[k] = (uint8_t)(code < top ? code : top);
    }
}

/* ---- 6-bit scales of the K formats ----------------------------------------------------------- */

/* Eight scales and eight minima in twelve bytes, as Q4_K and Q5_K hold them; bits 7..0 of a byte:
 *
 *      0   s4 s4 s0 s0 s0 s0 s0 s0        4   m4 m4 m0 m0 m0 m0 m0 m0       8   m4 m4 m4 m4 s4 s4 s4 s4
 *      1   s5 s5 s1 ...                   5   m5 m5 m1 ...                  9   m5 ...      s5 ...
 *      2   s6 s6 s2 ...                   6   m6 m6 m2 ...                 10   m6 ...      s6 ...
 *      3   s7 s7 s3 ...                   7   m7 m7 m3 ...                 11   m7 ...      s7 ...
 *
 * Bytes 0 to 7 hold the upper two bits of the later ones, bytes 8 to 11 their lower four. */
static inline int scale_at(const uint8_t *from, int g)
{
    return g < 4 ? from[g] & 63 : (from[g + 4] & 15) | (from[g - 4] >> 6) << 4;
}

static inline int minimum_at(const uint8_t *from, int g)
{
    return g < 4 ? from[g + 4] & 63 : from[g + 4] >> 4 | (from[g] >> 6) << 4;
}

/* The scale and the minimum of group g of a Q4_K or Q5_K block. */
static inline void take_asymmetric_head(block_i8 *to, const uint8_t *block, int g)
{
    to->scale[0] = f16_at(block) * (real)scale_at(block + 4, g);
    to->offset[0] = -(f16_at(block + 2) * (real)minimum_at(block + 4, g));
}

static inline void put_scales(uint8_t *to, const uint8_t *scale, const uint8_t *minimum)
{
    for (int g = 0; g < 4; g++) {
        to[g] = (uint8_t)(scale[g] | (scale[g + 4] >> 4) << 6);
        to[g + 4] = (uint8_t)(minimum[g] | (minimum[g + 4] >> 4) << 6);
        to[g + 8] = (uint8_t)((scale[g + 4] & 15) | (minimum[g + 4] & 15) << 4);
    }
}

#endif
