/* avx512.c - the vector kernels, 16 numbers wide: Skylake-X (2017) and later, Zen 4 (2022) and
 * later. */
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

static const real *produce_f16(real *to, const void *row, int64_t k0, int64_t n)
{
    const uint16_t *h = (const uint16_t *)row + k0;
    int64_t k = 0;
    for (; k + WIDTH <= n; k += WIDTH)
        v_store(to + k, _mm512_cvtph_ps(_mm256_loadu_si256((const void *)(h + k))));
    for (; k < n; k++)
        to[k] = _cvtsh_ss(h[k]);
    return to;
}

static const real *produce_bf16(real *to, const void *row, int64_t k0, int64_t n)
{
    const uint16_t *h = (const uint16_t *)row + k0;
    int64_t k = 0;
    for (; k + WIDTH <= n; k += WIDTH) {
        const __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const void *)(h + k)));
        v_store(to + k, _mm512_castsi512_ps(_mm512_slli_epi32(wide, 16)));
    }
    for (; k < n; k++)
        to[k] = _mm_cvtss_f32(_mm_castsi128_ps(_mm_cvtsi32_si128((int)((uint32_t)h[k] << 16))));
    return to;
}

/* 34 bytes a block of 32: see tensor/q8_0.c. Tiles begin and end with whole blocks. */
static const real *produce_q8_0(real *to, const void *row, int64_t k0, int64_t n)
{
    const uint8_t *block = (const uint8_t *)row + k0 / 32 * 34;
    for (int64_t k = 0; k < n; k += 32, block += 34) {
        const vec d = v_set(_cvtsh_ss((unsigned short)(block[0] | block[1] << 8)));
        for (int half = 0; half < 32; half += 16) {
            const __m128i q = _mm_loadu_si128((const void *)(block + 2 + half));
            v_store(to + k + half, v_mul(d, _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(q))));
        }
    }
    return to;
}

#include "kernels/vector.h"
#endif
