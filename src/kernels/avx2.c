/* avx2.c - the vector kernels, 8 numbers wide, with FMA and F16C: Haswell (2013), Zen (2017) and
 * later. */
#include "kernels/half.h"
#include "kernels/kernels.h"

#if defined(__AVX2__) && !defined(WEFT_REAL_DOUBLE)
#include <immintrin.h>

#define WIDTH 8
#define ROWS  3
#define OUTS  4
#define TABLE kernels_avx2
#define NAME  "avx2"

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

static inline float v_top(vec v)
{
    __m128 s = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    s = _mm_max_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_max_ss(s, _mm_movehdup_ps(s)));
}

/* 2^n for whole n from -126 to 127, through the exponent's bits. */
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
#define v_from_i8(p)  _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const void *)(p))))

static inline vec v_from_bf16(const uint16_t *p)
{
    const __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128((const void *)p));
    return _mm256_castsi256_ps(_mm256_slli_epi32(wide, 16));
}

#include "kernels/vector.h"
#endif
