/* avx512.c - the vector kernels, 16 numbers wide: Skylake-X (2017) and later, Zen 4 (2022) and
 * later. */
#include "kernels/half.h"
#include "kernels/kernels.h"

#if defined(__AVX512F__) && !defined(WEFT_REAL_DOUBLE)
#include <immintrin.h>

#define WIDTH 16
#define ROWS  6
#define VECS  4

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
#define v_low_f16(u)  _mm512_cvtph_ps(_mm512_cvtepi32_epi16((__m512i)(u)))
#define v_from_i8(p)  _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const void *)(p))))

static inline vec v_from_bf16(const uint16_t *p)
{
    const __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const void *)p));
    return _mm512_castsi512_ps(_mm512_slli_epi32(wide, 16));
}

#define v_abs(v)       _mm512_abs_ps(v)
#define v_to_i8(to, v) _mm_storeu_si128((void *)(to), _mm512_cvtepi32_epi8(_mm512_cvtps_epi32(v)))

/* 16 x 16: pairs, fours, quarters, halves. */
static inline void v_transpose(vec v[16])
{
    vec p[16], q[16];
    for (int i = 0; i < 16; i += 2) {
        p[i] = _mm512_unpacklo_ps(v[i], v[i + 1]);
        p[i + 1] = _mm512_unpackhi_ps(v[i], v[i + 1]);
    }
    for (int i = 0; i < 16; i += 4)
        for (int k = 0; k < 2; k++) {
            q[i + 2 * k] = _mm512_shuffle_ps(p[i + k], p[i + k + 2], 0x44);
            q[i + 2 * k + 1] = _mm512_shuffle_ps(p[i + k], p[i + k + 2], 0xEE);
        }
    for (int i = 0; i < 4; i++) {
        p[i] = _mm512_shuffle_f32x4(q[i], q[i + 4], 0x88);
        p[i + 4] = _mm512_shuffle_f32x4(q[i], q[i + 4], 0xDD);
        p[i + 8] = _mm512_shuffle_f32x4(q[i + 8], q[i + 12], 0x88);
        p[i + 12] = _mm512_shuffle_f32x4(q[i + 8], q[i + 12], 0xDD);
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
 * put in order. Returns how many columns were turned. */
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

#include "kernels/vector.h"

#include "kernels/panels.h"

/* ---- whole numbers: biased to be positive, as VNNI wants its left side ----------------------- */

#define ROWS_I8 6
#define VECS_I8 2
#define BIAS    0x80
#define I8      __attribute__((target("avx512vnni")))

typedef __m512i ivec;

#define i_load(p)      _mm512_load_si512((const void *)(p))
#define i_store(p, t)  _mm512_store_si512(p, t)
#define i_dot(t, w, x) _mm512_dpbusd_epi32(t, w, x)
#define i_set(n)       _mm512_set1_epi32(n)
#define i_add(a, b)    _mm512_add_epi32(a, b)
#define i_real(t)      _mm512_cvtepi32_ps(t)
#define i_top8(t)      _mm512_srai_epi32(t, 24)
#define i_lows(a, b)   _mm512_unpacklo_epi32(a, b)
#define i_highs(a, b)  _mm512_unpackhi_epi32(a, b)

static inline ivec i_four(const int8_t *p)
{
    int32_t four;
    memcpy(&four, p, sizeof four);
    return _mm512_set1_epi32(four);
}

/* A sum a that began with the bits of FAR_REAL is, read as a real number, FAR_REAL + a: |a| < 2^20.
 * So one multiply-add makes it real and scales it, and is exact where d FAR_REAL is, to the one
 * rounding of a d: scales have at most 20 bits. (A scale that is infinite makes no number of every
 * sum here; of single rows it leaves infinities. Neither is an answer.) */
#define FAR_BITS       0x4B400000
#define FAR_REAL       12582912.0f /* 3 2^22 */
#define i_scaled(t, d) v_fma(_mm512_castsi512_ps(t), d, v_mul(d, v_set(-FAR_REAL)))

static inline ivec i_begin(ivec sum, bool scaled)
{
    return _mm512_sub_epi32(i_set(scaled ? FAR_BITS : 0), _mm512_slli_epi32(sum, 7));
}

static inline ivec i_rows16(const uint8_t *w, size_t step)
{
    ivec b = _mm512_castsi128_si512(_mm_loadu_si128((const void *)w));
    b = _mm512_inserti32x4(b, _mm_loadu_si128((const void *)(w + 4 * step)), 1);
    b = _mm512_inserti32x4(b, _mm_loadu_si128((const void *)(w + 8 * step)), 2);
    return _mm512_inserti32x4(b, _mm_loadu_si128((const void *)(w + 12 * step)), 3);
}

#define i_all16(x)             _mm512_broadcast_i32x4(_mm_loadu_si128((const void *)(x)))
#define i_codes(u, x)          i_dot(_mm512_setzero_si512(), u, x)
#define i_codes2(u, x, u2, x2) i_dot(i_codes(u, x), u2, x2)

static inline ivec i_eights(ivec v, int at)
{
    const __m128i from = _mm_set_epi64x(0x0101010101010101 * (at + 1), 0x0101010101010101 * at);
    return _mm512_shuffle_epi8(v, _mm512_broadcast_i32x4(from));
}

static inline ivec i_quarters(const ivec t[4])
{
    const ivec a = _mm512_add_epi32(i_lows(t[0], t[1]), i_highs(t[0], t[1]));
    const ivec b = _mm512_add_epi32(i_lows(t[2], t[3]), i_highs(t[2], t[3]));
    return _mm512_add_epi32(_mm512_unpacklo_epi64(a, b), _mm512_unpackhi_epi64(a, b));
}

static inline void i_turn(ivec t[4])
{
    const ivec a = i_lows(t[0], t[1]), b = i_highs(t[0], t[1]);
    const ivec c = i_lows(t[2], t[3]), d = i_highs(t[2], t[3]);
    t[0] = _mm512_unpacklo_epi64(a, c);
    t[1] = _mm512_unpackhi_epi64(a, c);
    t[2] = _mm512_unpacklo_epi64(b, d);
    t[3] = _mm512_unpackhi_epi64(b, d);
}

/* Two rows of weights share a vector: 4 apart, so that the sums come out in order. */
static inline I8 ivec i_q8_0(const uint8_t *w, size_t step, const int8_t *q, int32_t sum_of)
{
    const ivec x = _mm512_broadcast_i64x4(_mm256_loadu_si256((const void *)q));
    const ivec bias = _mm512_set1_epi8((char)BIAS);
    ivec half[2];
    for (size_t h = 0; h < 2; h++) {
        ivec t[4];
        for (size_t i = 0; i < 4; i++) {
            const uint8_t *at = w + (8 * h + i) * step;
            const ivec two = _mm512_inserti64x4(
                _mm512_castsi256_si512(_mm256_loadu_si256((const void *)at)),
                _mm256_loadu_si256((const void *)(at + 4 * step)), 1);
            t[i] = i_dot(_mm512_setzero_si512(), _mm512_xor_si512(two, bias), x);
        }
        half[h] = i_quarters(t);
    }
    const ivec all = _mm512_add_epi32(_mm512_shuffle_i32x4(half[0], half[1], 0x88),
                                      _mm512_shuffle_i32x4(half[0], half[1], 0xDD));
    return _mm512_add_epi32(all, i_begin(i_set(sum_of), false));
}

static inline vec v_scales(const uint8_t *w, size_t step)
{
    const ivec order = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    const ivec at = _mm512_mullo_epi32(order, _mm512_set1_epi32((int)step));
    return _mm512_cvtph_ps(_mm512_cvtepi32_epi16(_mm512_i32gather_epi32(at, (const void *)w, 1)));
}

#include "kernels/int8.h"

const kernels kernels_avx512_vnni = {
    .name = "avx512_vnni",
    VECTOR_KERNELS,
    .rows_i8 = ROWS_I8,
    .pack_i8 = pack_i8,
    .product_i8 = product_i8,
};

/* Without VNNI (2017 to 2019), whole numbers are multiplied as AVX2 does it. */
const kernels kernels_avx512 = {
    .name = "avx512",
    VECTOR_KERNELS,
    .rows_i8 = 4,
    .pack_i8 = avx2_pack_i8,
    .product_i8 = avx2_product_i8,
};
#endif
