/* avx512.c - the vector kernels, 16 numbers wide: Skylake-X (2017) and later, Zen 4 (2022) and
 * later. */
#include "kernels/half.h"
#include "kernels/kernels.h"

#if defined(__AVX512F__) && !defined(WEFT_REAL_DOUBLE)
#include <immintrin.h>

#define WIDTH 16
#define ROWS  4
#define OUTS  4
#define TABLE kernels_avx512
#define NAME  "avx512"

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
#define v_sum(v)              _mm512_reduce_add_ps(v)
#define v_top(v)              _mm512_reduce_max_ps(v)
#define v_round(v)            _mm512_roundscale_ps(v, 0)

/* 2^n for whole n from -126 to 127, through the exponent's bits. */
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
#define v_from_i8(p)  _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const void *)(p))))

static inline vec v_from_bf16(const uint16_t *p)
{
    const __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const void *)p));
    return _mm512_castsi512_ps(_mm512_slli_epi32(wide, 16));
}

#include "kernels/vector.h"
#endif
