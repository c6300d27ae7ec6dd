/* avx512.h - vectors of 16 numbers, for the files that are compiled for AVX-512. */
#ifndef WEFT_KERNELS_AVX512_H
#define WEFT_KERNELS_AVX512_H

#include "kernels/half.h"
#include "kernels/kernels.h"

#include <immintrin.h>

#define WIDTH   16
#define ROWS    6
#define VECS    4
#define ROWS_I8 6

typedef __m512 vec;

static inline __mmask16 part_mask(int n)
{
    return (__mmask16)((1u << n) - 1);
}

#define v_load(p)             _mm512_loadu_ps(p)
#define v_store(p, v)         _mm512_storeu_ps(p, v)
#define v_load_part(p, n)     _mm512_maskz_loadu_ps(part_mask(n), p)
#define v_store_part(p, v, n) _mm512_mask_storeu_ps(p, part_mask(n), v)
#define v_set(x)              _mm512_set1_ps(x)
#define v_zero()              _mm512_setzero_ps()
#define v_add(a, b)           _mm512_add_ps(a, b)
#define v_sub(a, b)           _mm512_sub_ps(a, b)
#define v_mul(a, b)           _mm512_mul_ps(a, b)
#define v_div(a, b)           _mm512_div_ps(a, b)
#define v_fma(a, b, c)        _mm512_fmadd_ps(a, b, c)
#define v_min(a, b)           _mm512_min_ps(a, b)
#define v_max(a, b)           _mm512_max_ps(a, b)
#define v_top(v)              _mm512_reduce_max_ps(v)
#define v_round(v)            _mm512_roundscale_ps(v, 0)

/* Adds halves until one lane is left. */
static inline float v_sum(vec v)
{
    const __m256 h = _mm256_add_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
    __m128 s = _mm_add_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
}

#define v_tree(s) v_sum((s)[0])

/* 2^n for integers n from -126 to 127, through the exponent bits. */
static inline vec v_pow2(vec n)
{
    const __m512i e = _mm512_add_epi32(_mm512_cvtps_epi32(n), _mm512_set1_epi32(127));
    return _mm512_castsi512_ps(_mm512_slli_epi32(e, 23));
}

/* v where x >= floor or x is NaN, else 0. */
static inline vec v_keep(vec v, vec x, vec floor)
{
    return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(x, floor, _CMP_NLT_UQ), v);
}

#define v_half(h)     _cvtsh_ss(h)
#define v_from_f16(p) _mm512_cvtph_ps(_mm256_loadu_si256((const void *)(p)))
#define v_low_f16(u)  _mm512_cvtph_ps(_mm512_cvtepi32_epi16((__m512i)(u)))
#define v_from_i8(p)  _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const void *)(p))))

static inline vec v_from_bf16(const uint16_t *p)
{
    const __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const void *)p));
    return _mm512_castsi512_ps(_mm512_slli_epi32(wide, 16));
}

#define v_abs(v)       _mm512_abs_ps(v)
#define v_to_i8(to, v) _mm_storeu_si128((void *)(to), _mm512_cvtepi32_epi8(_mm512_cvtps_epi32(v)))

/* 4 x 4 in every quarter of a vector: pairs, then fours. */
static inline void v_transpose4(vec t[4])
{
    const vec a = _mm512_unpacklo_ps(t[0], t[1]), b = _mm512_unpackhi_ps(t[0], t[1]);
    const vec c = _mm512_unpacklo_ps(t[2], t[3]), d = _mm512_unpackhi_ps(t[2], t[3]);
    t[0] = _mm512_shuffle_ps(a, c, 0x44);
    t[1] = _mm512_shuffle_ps(a, c, 0xEE);
    t[2] = _mm512_shuffle_ps(b, d, 0x44);
    t[3] = _mm512_shuffle_ps(b, d, 0xEE);
}

/* 16 x 16: within quarters, then quarters, halves. */
static inline void v_transpose(vec v[16])
{
    vec p[16];
    for (int i = 0; i < 16; i += 4)
        v_transpose4(v + i);
    for (int i = 0; i < 4; i++) {
        p[i] = _mm512_shuffle_f32x4(v[i], v[i + 4], 0x88);
        p[i + 4] = _mm512_shuffle_f32x4(v[i], v[i + 4], 0xDD);
        p[i + 8] = _mm512_shuffle_f32x4(v[i + 8], v[i + 12], 0x88);
        p[i + 12] = _mm512_shuffle_f32x4(v[i + 8], v[i + 12], 0xDD);
    }
    for (int i = 0; i < 8; i++) {
        v[i] = _mm512_shuffle_f32x4(p[i], p[i + 8], 0x88);
        v[i + 8] = _mm512_shuffle_f32x4(p[i], p[i + 8], 0xDD);
    }
}

/* Blocks of ROWS = 6 rows, 16 columns at a time: rows are paired, then the pairs
 *
 *     a0 b0 c0 a1 b1 c1 a2 b2 | c2 a3 b3 c3 a4 b4 c4 a5 | b5 c5 a6 b6 c6 a7 b7 c7
 *
 * permuted. Returns how many columns were transposed. */
static int64_t pack_full(real *to, const real *from, int64_t step, int64_t n)
{
    const __m512i low = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    const __m512i high = _mm512_add_epi32(low, _mm512_set1_epi32(8));
    const __m512i ab[3] = { _mm512_setr_epi64(0, 8, 0, 1, 9, 0, 2, 10),
                            _mm512_setr_epi64(0, 3, 11, 0, 4, 12, 0, 5),
                            _mm512_setr_epi64(13, 0, 6, 14, 0, 7, 15, 0) };
    const __m512i c[3] = { _mm512_setr_epi64(0, 0, 0, 0, 0, 1, 0, 0),
                           _mm512_setr_epi64(2, 0, 0, 3, 0, 0, 4, 0),
                           _mm512_setr_epi64(0, 5, 0, 0, 6, 0, 0, 7) };
    const __mmask8 from_c[3] = { 0x24, 0x49, 0x92 };
    int64_t j = 0;
    for (; j + 16 <= n; j += 16)
        for (int half = 0; half < 2; half++) {
            __m512d pair[3];
            for (int i = 0; i < 3; i++)
                pair[i] = _mm512_castps_pd(
                    _mm512_permutex2var_ps(v_load(from + 2 * i * step + j), half ? high : low,
                                           v_load(from + (2 * i + 1) * step + j)));
            for (int t = 0; t < 3; t++) {
                const __m512d two = _mm512_permutex2var_pd(pair[0], ab[t], pair[1]);
                const __m512d all = _mm512_mask_permutexvar_pd(two, from_c[t], c[t], pair[2]);
                v_store(to + (j + 8 * half) * ROWS + 16 * t, _mm512_castpd_ps(all));
            }
        }
    return j;
}

/* 16 bytes of rows i, i + 4, i + 8 and i + 12. */
static inline vec v_rows16(const uint8_t *const row[16], int i, size_t at)
{
    __m512i b = _mm512_castsi128_si512(_mm_loadu_si128((const void *)(row[i] + at)));
    b = _mm512_inserti32x4(b, _mm_loadu_si128((const void *)(row[i + 4] + at)), 1);
    b = _mm512_inserti32x4(b, _mm_loadu_si128((const void *)(row[i + 8] + at)), 2);
    return _mm512_castsi512_ps(
        _mm512_inserti32x4(b, _mm_loadu_si128((const void *)(row[i + 12] + at)), 3));
}

/* ---- whole numbers, of int8.h ---- */

#define VECS_I8   2
#define PANELS_I8 2

typedef __m512i ivec;

#define i_load(p)     _mm512_load_si512((const void *)(p))
#define i_any(p)      _mm512_loadu_si512((const void *)(p))
#define i_store(p, t) _mm512_store_si512(p, t)
#define i_set(n)      _mm512_set1_epi32(n)
#define i_real(t)     _mm512_cvtepi32_ps(t)
#define i_top8(t)     _mm512_srai_epi32(t, 24)
#define i_max(a, b)   _mm512_max_epi32(a, b)
#define i_widen(p)    _mm512_cvtepu8_epi32(_mm_loadu_si128((const void *)(p)))
#define i_look(t, u)                                                                               \
    _mm512_shuffle_epi8(_mm512_broadcast_i32x4(_mm_loadu_si128((const void *)(t))), u)

#endif
