/* avx2.c - the vector kernels, 8 numbers wide, with FMA and F16C: Haswell (2013), Zen (2017) and
 * later. */
#include "kernels/half.h"
#include "kernels/kernels.h"

#if defined(__AVX2__) && !defined(WEFT_REAL_DOUBLE)
#include <immintrin.h>

#define WIDTH 8
#define ROWS  6
#define VECS  2

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

/* 8 x 8: pairs, then fours, then halves. */
static inline void v_transpose(vec v[8])
{
    vec p[8], q[8];
    for (int i = 0; i < 8; i += 2) {
        p[i] = _mm256_unpacklo_ps(v[i], v[i + 1]);
        p[i + 1] = _mm256_unpackhi_ps(v[i], v[i + 1]);
    }
    for (int i = 0; i < 8; i += 4)
        for (int k = 0; k < 2; k++) {
            q[i + 2 * k] = _mm256_shuffle_ps(p[i + k], p[i + k + 2], 0x44);
            q[i + 2 * k + 1] = _mm256_shuffle_ps(p[i + k], p[i + k + 2], 0xEE);
        }
    for (int i = 0; i < 4; i++) {
        v[i] = _mm256_permute2f128_ps(q[i], q[i + 4], 0x20);
        v[i + 4] = _mm256_permute2f128_ps(q[i], q[i + 4], 0x31);
    }
}

static inline void v_to_i8(int8_t *to, vec v)
{
    const __m256i i = _mm256_cvtps_epi32(v);
    const __m128i h = _mm_packs_epi32(_mm256_castsi256_si128(i), _mm256_extracti128_si256(i, 1));
    _mm_storel_epi64((void *)to, _mm_packs_epi16(h, h));
}

#define pack_full(to, from, step, n) 0 /* nothing is faster than turning whole vectors */

#include "kernels/vector.h"

#include "kernels/panels.h"

/* ---- whole numbers: |w| times x with w's sign, so that no sum of two overflows 16 bits ------- */

#define ROWS_I8 4
#define VECS_I8 1
#define BIAS    0
#define I8

typedef __m256i ivec;

#define i_load(p)            _mm256_load_si256((const void *)(p))
#define i_store(p, t)        _mm256_store_si256((void *)(p), t)
#define i_set(n)             _mm256_set1_epi32(n)
#define i_add(a, b)          _mm256_add_epi32(a, b)
#define i_real(t)            _mm256_cvtepi32_ps(t)
#define i_scaled(t, d)       v_mul(i_real(t), d)
#define i_begin(sum, scaled) ((void)(scaled), sum)
#define i_top8(t)            _mm256_srai_epi32(t, 24)
#define i_pairs(sixes)       _mm256_madd_epi16(sixes, _mm256_set1_epi16(1))

static inline ivec i_four(const int8_t *p)
{
    int32_t four;
    memcpy(&four, p, sizeof four);
    return _mm256_set1_epi32(four);
}

static inline ivec i_products(ivec w, ivec x)
{
    return i_pairs(_mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(x, w)));
}

static inline ivec i_dot(ivec t, ivec w, ivec x)
{
    return _mm256_add_epi32(t, i_products(w, x));
}

static inline ivec i_rows16(const uint8_t *w, size_t step)
{
    return _mm256_set_m128i(_mm_loadu_si128((const void *)(w + 4 * step)),
                            _mm_loadu_si128((const void *)w));
}

#define i_all16(x)    _mm256_broadcastsi128_si256(_mm_loadu_si128((const void *)(x)))
#define i_codes(u, x) i_pairs(_mm256_maddubs_epi16(u, x))

/* Four products of them fit 16 bits. */
static inline ivec i_codes2(ivec u, ivec x, ivec u2, ivec x2)
{
    return i_pairs(_mm256_add_epi16(_mm256_maddubs_epi16(u, x), _mm256_maddubs_epi16(u2, x2)));
}

static inline ivec i_eights(ivec v, int at)
{
    const __m128i from = _mm_set_epi64x(0x0101010101010101 * (at + 1), 0x0101010101010101 * at);
    return _mm256_shuffle_epi8(v, _mm256_broadcastsi128_si256(from));
}

static inline ivec i_quarters(const ivec t[4])
{
    return _mm256_hadd_epi32(_mm256_hadd_epi32(t[0], t[1]), _mm256_hadd_epi32(t[2], t[3]));
}

static inline void i_turn(ivec t[4])
{
    const ivec a = _mm256_unpacklo_epi32(t[0], t[1]), b = _mm256_unpackhi_epi32(t[0], t[1]);
    const ivec c = _mm256_unpacklo_epi32(t[2], t[3]), d = _mm256_unpackhi_epi32(t[2], t[3]);
    t[0] = _mm256_unpacklo_epi64(a, c);
    t[1] = _mm256_unpackhi_epi64(a, c);
    t[2] = _mm256_unpacklo_epi64(b, d);
    t[3] = _mm256_unpackhi_epi64(b, d);
}

/* The sums of eight vectors, in order. */
static inline ivec i_sums(const ivec t[8])
{
    const ivec a = i_quarters(t), b = i_quarters(t + 4);
    return _mm256_add_epi32(_mm256_permute2x128_si256(a, b, 0x20),
                            _mm256_permute2x128_si256(a, b, 0x31));
}

static inline ivec i_q8_0(const uint8_t *w, size_t step, const int8_t *q, int32_t sum_of)
{
    (void)sum_of;
    const ivec x = _mm256_loadu_si256((const void *)q);
    ivec t[8];
    for (size_t i = 0; i < 8; i++)
        t[i] = i_products(_mm256_loadu_si256((const void *)(w + i * step)), x);
    return i_sums(t);
}

#define v_scales(w, step) row_halves(w, step)

#include "kernels/int8.h"

const kernels kernels_avx2 = {
    .name = "avx2",
    VECTOR_KERNELS,
    .rows_i8 = ROWS_I8,
    .pack_i8 = pack_i8,
    .product_i8 = product_i8,
};

void avx2_pack_i8(void *to, const real *x, int64_t x_stride, int64_t N, int64_t K, int64_t block0,
                  int64_t block1)
{
    pack_i8(to, x, x_stride, N, K, block0, block1);
}

void avx2_product_i8(real *y, int64_t y_stride, const void *x, int64_t N, int64_t K,
                     const row_set *w, int64_t o0, int64_t o1)
{
    product_i8(y, y_stride, x, N, K, w, o0, o1);
}
#endif
