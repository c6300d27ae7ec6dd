/* tile.h - the tile registers of AMX: as instructions, and in portable C.
 *
 * There are eight registers of 16 rows of 64 bytes. Products use
 *
 *     NAME_begin(), NAME_end()        around all uses on a thread
 *     NAME_zero(t)                    t = 0
 *     NAME_load(t, from, stride)      16 rows of 64 bytes, `stride` bytes apart
 *     NAME_store(t, to, stride)
 *     NAME_multiply(c, a, b)          c += a b in bf16
 *
 * where NAME is `amx` or `emulated`, and register numbers are literals. The emulation gives the same
 * bits (tests/unit/test_tiles.c compares them where the instructions exist), so that what is
 * written over tiles can be tested on every CPU.
 *
 * TDPBF16PS, for a of 16 rows of 32 terms and b of 16 rows of 16 pairs of terms:
 *
 *     even = odd = 0
 *     for k = 0 ... 15:   even = fma(a[m, 2k],     b[k, 2n],     even)
 *                         odd  = fma(a[m, 2k + 1], b[k, 2n + 1], odd)
 *     c[m, n] += even + odd
 *
 * Every step rounds to nearest even. Subnormal operands and results are zeros of their sign,
 * whatever MXCSR says; a result is tiny if it is after rounding. So FMAs under FTZ and DAZ give the
 * same bits, except for the payload of a NaN. */
#ifndef WEFT_KERNELS_TILE_H
#define WEFT_KERNELS_TILE_H

#include "base/side_stack.h"
#include "kernels/half.h"

#include <math.h>
#include <stdbool.h>

#define TILE_ROWS  16
#define TILE_TERMS 32 /* of a product of two tiles */
#define TILE_BYTES 64 /* of a row */

/* ---- instructions ---------------------------------------------------------------------------- */

#if defined(__x86_64__)

/* As assembly: to gcc 12, ldtilecfg reads 8 of its 64 bytes and a tile load reads no memory at all,
 * so with its intrinsics stores may come too late or never. The clobber orders what was written
 * before against the loads that follow. */
static inline void amx_begin(void)
{
    static const struct {
        uint8_t palette, start_row, reserved[14];
        uint16_t row_bytes[16];
        uint8_t rows[16];
    } shape = {
        1, 0, { 0 }, { 64, 64, 64, 64, 64, 64, 64, 64 }, { 16, 16, 16, 16, 16, 16, 16, 16 }
    };
    __asm__ volatile("ldtilecfg %0" ::"m"(shape) : "memory");
}

static inline void amx_end(void)
{
    __asm__ volatile("tilerelease" ::: "memory");
}

#define amx_zero(t) __asm__ volatile("tilezero %%tmm" #t ::)
#define amx_load(t, from, stride)                                                                  \
    __asm__ volatile("tileloadd (%0,%1,1), %%tmm" #t ::"r"((const void *)(from)),                  \
                     "r"((int64_t)(stride)))
#define amx_store(t, to, stride)                                                                   \
    __asm__ volatile("tilestored %%tmm" #t ", (%0,%1,1)" ::"r"((void *)(to)),                      \
                     "r"((int64_t)(stride))                                                        \
                     : "memory")
#define amx_multiply(c, a, b) __asm__ volatile("tdpbf16ps %%tmm" #b ", %%tmm" #a ", %%tmm" #c ::)

/* Between writing memory and loading tiles from it. */
#define amx_written() __asm__ volatile("" ::: "memory")

#endif

/* ---- the same in C --------------------------------------------------------------------------- */

typedef union emulated_tile {
    float value[TILE_ROWS][TILE_BYTES / 4];
    uint16_t half[TILE_ROWS][TILE_BYTES / 2];
} emulated_tile;

/* The registers, on the thread's side stack between begin and end. */
static _Thread_local emulated_tile *emulated_tiles;

static inline emulated_tile *emulated_at(int t)
{
    return &emulated_tiles[t];
}

static inline void emulated_zero(int t)
{
    memset(emulated_at(t), 0, sizeof(emulated_tile));
}

static inline void emulated_begin(void)
{
    emulated_tiles = side_take(8 * sizeof *emulated_tiles);
    for (int t = 0; t < 8; t++)
        emulated_zero(t);
}

static inline void emulated_end(void)
{
    side_give(emulated_tiles);
}

#define emulated_written() ((void)0)

static inline void emulated_load(int t, const void *from, int64_t stride)
{
    for (int m = 0; m < TILE_ROWS; m++)
        memcpy(emulated_at(t)->value[m], (const char *)from + m * stride, TILE_BYTES);
}

static inline void emulated_store(int t, void *to, int64_t stride)
{
    for (int m = 0; m < TILE_ROWS; m++)
        memcpy((char *)to + m * stride, emulated_at(t)->value[m], TILE_BYTES);
}

/* A zero of the same sign instead of a subnormal. */
static inline float flush(float x)
{
    const uint32_t u = float_bits(x);
    return (u & 0x7F800000u) == 0 ? bits_float(u & 0x80000000u) : x;
}

static inline float quiet(float x)
{
    return bits_float(float_bits(x) | 0x400000u);
}

/* a b + c */
static inline float flushed_fma(float a, float b, float c)
{
    a = flush(a), b = flush(b), c = flush(c);
    if (isnan(a) || isnan(b) || isnan(c))
        return quiet(isnan(a) ? a : isnan(b) ? b : c);
    const float r = fmaf(a, b, c);
    if (isnan(r)) /* of infinities */
        return bits_float(0xFFC00000u);
    if (fabsf(r) > 0x1p-125f)
        return r;
    /* Times 2^64, the result is rounded to 24 bits as if exponents had no end. */
    const float up = fabsf(a) < fabsf(b) ? fmaf(a * 0x1p64f, b, c * 0x1p64f)
                                         : fmaf(a, b * 0x1p64f, c * 0x1p64f);
    return fabsf(up) < 0x1p-62f ? bits_float(float_bits(up) & 0x80000000u) : r;
}

static inline void emulated_multiply(int c, int a, int b)
{
    const emulated_tile *A = emulated_at(a), *B = emulated_at(b);
    for (int m = 0; m < TILE_ROWS; m++)
        for (int n = 0; n < TILE_ROWS; n++) {
            float sum[2] = { 0, 0 }, *to = &emulated_at(c)->value[m][n];
            for (int k = 0; k < TILE_TERMS; k++)
                sum[k % 2] = flushed_fma(bf16_decode(A->half[m][k]),
                                         bf16_decode(B->half[k / 2][2 * n + k % 2]), sum[k % 2]);
            *to = flushed_fma(1, *to, flushed_fma(1, sum[0], sum[1]));
        }
}

#endif
