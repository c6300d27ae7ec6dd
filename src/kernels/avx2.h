/* avx2.h - vectors of 8 numbers, for the files that are compiled for AVX2 with FMA and F16C. */
#ifndef WEFT_KERNELS_AVX2_H
#define WEFT_KERNELS_AVX2_H

#include "kernels/half.h"
#include "kernels/kernels.h"

#include <immintrin.h>

#define WIDTH   8
#define ROWS    6
#define VECS    2
#define ROWS_I8 4

typedef __m256 vec;

static inline __m256i part_mask(int n)
{
    static const int32_t ones[16] = { -1, -1, -1, -1, -1, -1, -1, -1 };
    return _mm256_loadu_si256((const void *)(ones + 8 - n));
}

#define v_load(p)             _mm256_loadu_ps(p)
#define v_store(p, v)         _mm256_storeu_ps(p, v)
#define v_load_part(p, n)     _mm256_maskload_ps(p, part_mask(n))
#define v_store_part(p, v, n) _mm256_maskstore_ps(p, part_mask(n), v)
#define v_set(x)              _mm256_set1_ps(x)
#define v_zero()              _mm256_setzero_ps()
#define v_add(a, b)           _mm256_add_ps(a, b)
#define v_sub(a, b)           _mm256_sub_ps(a, b)
#define v_mul(a, b)           _mm256_mul_ps(a, b)
#define v_div(a, b)           _mm256_div_ps(a, b)
#define v_fma(a, b, c)        _mm256_fmadd_ps(a, b, c)
#define v_min(a, b)           _mm256_min_ps(a, b)
#define v_max(a, b)           _mm256_max_ps(a, b)
#define v_round(v)            _mm256_round_ps(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)

static inline float v_sum(vec v)
{
    __m128 s = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
}

#define v_tree(s) v_sum(_mm256_add_ps((s)[0], (s)[1]))

static inline float v_top(vec v)
{
    __m128 s = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    s = _mm_max_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_max_ss(s, _mm_movehdup_ps(s)));
}

/* 2^n for integers n from -126 to 127, through the exponent bits. */
static inline vec v_pow2(vec n)
{
    const __m256i e = _mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127));
    return _mm256_castsi256_ps(_mm256_slli_epi32(e, 23));
}

/* v where x >= floor or x is NaN, else 0. */
static inline vec v_keep(vec v, vec x, vec floor)
{
    return _mm256_and_ps(v, _mm256_cmp_ps(x, floor, _CMP_NLT_UQ));
}

#define v_half(h)     _cvtsh_ss(h)
#define v_from_f16(p) _mm256_cvtph_ps(_mm_loadu_si128((const void *)(p)))
/* The lower halves of 32-bit lanes. */
static inline __m256 low_f16(__m256i u)
{
    const __m256i low = _mm256_and_si256(u, _mm256_set1_epi32(0xFFFF));
    return _mm256_cvtph_ps(
        _mm_packus_epi32(_mm256_castsi256_si128(low), _mm256_extracti128_si256(low, 1)));
}

#define v_low_f16(u) low_f16((__m256i)(u))
#define v_from_i8(p) _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const void *)(p))))

static inline vec v_from_bf16(const uint16_t *p)
{
    const __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128((const void *)p));
    return _mm256_castsi256_ps(_mm256_slli_epi32(wide, 16));
}

#define v_abs(v) _mm256_andnot_ps(_mm256_set1_ps(-0.0f), v)

/* 4 x 4 in every half of a vector: pairs, then fours. */
static inline void v_transpose4(vec t[4])
{
    const vec a = _mm256_unpacklo_ps(t[0], t[1]), b = _mm256_unpackhi_ps(t[0], t[1]);
    const vec c = _mm256_unpacklo_ps(t[2], t[3]), d = _mm256_unpackhi_ps(t[2], t[3]);
    t[0] = _mm256_shuffle_ps(a, c, 0x44);
    t[1] = _mm256_shuffle_ps(a, c, 0xEE);
    t[2] = _mm256_shuffle_ps(b, d, 0x44);
    t[3] = _mm256_shuffle_ps(b, d, 0xEE);
}

/* 8 x 8: within halves, then halves. */
static inline void v_transpose(vec v[8])
{
    for (int i = 0; i < 8; i += 4)
        v_transpose4(v + i);
    for (int i = 0; i < 4; i++) {
        const vec low = v[i], high = v[i + 4];
        v[i] = _mm256_permute2f128_ps(low, high, 0x20);
        v[i + 4] = _mm256_permute2f128_ps(low, high, 0x31);
    }
}

static inline void v_to_i8(int8_t *to, vec v)
{
    const __m256i i = _mm256_cvtps_epi32(v);
    const __m128i h = _mm_packs_epi32(_mm256_castsi256_si128(i), _mm256_extracti128_si256(i, 1));
    _mm_storel_epi64((void *)to, _mm_packs_epi16(h, h));
}

#define pack_full(to, from, step, n) 0 /* nothing is faster than transposing whole vectors */

/* 16 bytes of rows i and i + 4. */
static inline vec v_rows16(const uint8_t *const row[8], int i, size_t at)
{
    return _mm256_loadu2_m128((const void *)(row[i + 4] + at), (const void *)(row[i] + at));
}

/* ---- whole numbers, of int8.h ---- */

#define VECS_I8   1
#define PANELS_I8 1

typedef __m256i ivec;

#define i_load(p)     _mm256_load_si256((const void *)(p))
#define i_any(p)      _mm256_loadu_si256((const void *)(p))
#define i_store(p, t) _mm256_store_si256((void *)(p), t)
#define i_set(n)      _mm256_set1_epi32(n)
#define i_real(t)     _mm256_cvtepi32_ps(t)
#define i_top8(t)     _mm256_srai_epi32(t, 24)
#define i_max(a, b)   _mm256_max_epi32(a, b)
#define i_widen(p)    _mm256_cvtepu8_epi32(_mm_loadl_epi64((const void *)(p)))
#define i_look(t, u)                                                                               \
    _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(_mm_loadu_si128((const void *)(t))), u)

#endif
