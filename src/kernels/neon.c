/* neon.c - the vector kernels, 4 numbers wide, for every 64-bit Arm: NEON with fused multiply-add
 * and conversions of 16-bit floats is part of the base (ARMv8-A, 2011), so there is nothing to ask
 * the processor for. Where an operator of C says it, no intrinsic does. */
#include "kernels/half.h"
#include "kernels/kernels.h"

#if defined(__aarch64__) && !defined(WEFT_REAL_DOUBLE)
#include <arm_neon.h>

/* 24 sums, 4 vectors of weights and one of x fit the 32 registers. */
#define WIDTH 4
#define ROWS  6
#define VECS  4

typedef float32x4_t vec;

#define v_load(p)      vld1q_f32(p)
#define v_store(p, v)  vst1q_f32(p, v)
#define v_set(x)       vdupq_n_f32(x)
#define v_zero()       vdupq_n_f32(0)
#define v_add(a, b)    ((a) + (b))
#define v_sub(a, b)    ((a) - (b))
#define v_mul(a, b)    ((a) * (b))
#define v_div(a, b)    ((a) / (b))
#define v_fma(a, b, c) vfmaq_f32(c, a, b)
#define v_min(a, b)    vminq_f32(a, b) /* NaN on either side stays */
#define v_max(a, b)    vmaxq_f32(a, b)
#define v_round(v)     vrndnq_f32(v)
#define v_abs(v)       vabsq_f32(v)
#define v_sum(v)       vaddvq_f32(v) /* (v0 + v1) + (v2 + v3) */
#define v_top(v)       vmaxvq_f32(v)

/* The first n numbers, 0 <= n <= 4, and zeros; nothing beyond them is touched. */
static inline vec v_load_part(const float *p, int n)
{
    if (n == 4)
        return v_load(p);
    vec v = v_zero();
    if (n & 2)
        v = vcombine_f32(vld1_f32(p), vdup_n_f32(0));
    if (n == 3)
        v = vld1q_lane_f32(p + 2, v, 2);
    if (n == 1)
        v = vld1q_lane_f32(p, v, 0);
    return v;
}

static inline void v_store_part(float *p, vec v, int n)
{
    if (n == 4)
        v_store(p, v);
    else if (n & 2)
        vst1_f32(p, vget_low_f32(v));
    if (n == 3)
        vst1q_lane_f32(p + 2, v, 2);
    if (n == 1)
        vst1q_lane_f32(p, v, 0);
}

/* 2^n for whole n from -126 to 127, through the exponent's bits. */
static inline vec v_pow2(vec n)
{
    return vreinterpretq_f32_s32((vcvtnq_s32_f32(n) + 127) << 23);
}

/* v where x >= floor or x is NaN, else 0. */
static inline vec v_keep(vec v, vec x, vec floor)
{
    return vreinterpretq_f32_u32(vbicq_u32(vreinterpretq_u32_f32(v), vcltq_f32(x, floor)));
}

/* 4 x 4: pairs, then halves. */
static inline void v_transpose(vec v[4])
{
    float64x2_t p[4];
    for (int i = 0; i < 4; i += 2) {
        p[i] = vreinterpretq_f64_f32(vtrn1q_f32(v[i], v[i + 1]));
        p[i + 1] = vreinterpretq_f64_f32(vtrn2q_f32(v[i], v[i + 1]));
    }
    for (int i = 0; i < 2; i++) {
        v[i] = vreinterpretq_f32_f64(vtrn1q_f64(p[i], p[i + 2]));
        v[i + 2] = vreinterpretq_f32_f64(vtrn2q_f64(p[i], p[i + 2]));
    }
}

#define v_half(h)      vgetq_lane_f32(vcvt_f32_f16(vreinterpret_f16_u16(vdup_n_u16(h))), 0)
#define v_from_f16(p)  vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p)))
#define v_low_f16(u)   vcvt_f32_f16(vreinterpret_f16_u16(vmovn_u32((uint32x4_t)(u))))
#define v_from_bf16(p) vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(p), 16))

static inline vec v_from_i8(const void *p)
{
    int32_t four;
    memcpy(&four, p, sizeof four);
    const int8x8_t bytes = vreinterpret_s8_s32(vdup_n_s32(four));
    return vcvtq_f32_s32(vmovl_s16(vget_low_s16(vmovl_s8(bytes))));
}

static inline void v_to_i8(int8_t *to, vec v)
{
    const int16x4_t halves = vmovn_s32(vcvtnq_s32_f32(v));
    const int8x8_t bytes = vmovn_s16(vcombine_s16(halves, halves));
    const int32_t four = vget_lane_s32(vreinterpret_s32_s8(bytes), 0);
    memcpy(to, &four, sizeof four);
}

#define pack_full(to, from, step, n) 0 /* nothing is faster than turning whole vectors */

#include "kernels/vector.h"

#include "kernels/panels.h"

/* ---- whole numbers: two products fit 16 bits, 2 x 128 x 127 < 2^15, and so does no third ----- */

#define ROWS_I8 4
#define VECS_I8 2
#define BIAS    0
#define I8

typedef int32x4_t ivec;

#define i_load(p)            vreinterpretq_s32_u8(vld1q_u8(p))
#define i_store(p, t)        vst1q_s32(p, t)
#define i_set(n)             vdupq_n_s32(n)
#define i_add(a, b)          ((a) + (b))
#define i_real(t)            vcvtq_f32_s32(t)
#define i_scaled(t, d)       v_mul(i_real(t), d)
#define i_begin(sum, scaled) ((void)(scaled), sum)
#define i_top8(t)            vshrq_n_s32(t, 24)

static inline ivec i_four(const int8_t *p)
{
    int32_t four;
    memcpy(&four, p, sizeof four);
    return vdupq_n_s32(four);
}

static inline ivec i_dot(ivec t, ivec w, ivec x)
{
    const int8x16_t a = vreinterpretq_s8_s32(w), b = vreinterpretq_s8_s32(x);
    const int16x8_t low = vmull_s8(vget_low_s8(a), vget_low_s8(b)), high = vmull_high_s8(a, b);
    return vpadalq_s16(t, vpaddq_s16(low, high));
}

/* The sums of four vectors, in order. */
static inline ivec i_sums(const ivec t[4])
{
    return vpaddq_s32(vpaddq_s32(t[0], t[1]), vpaddq_s32(t[2], t[3]));
}

static inline ivec i_q8_0(const uint8_t *w, size_t step, const int8_t *q, int32_t sum_of)
{
    (void)sum_of;
    const int8x16_t x0 = vld1q_s8(q), x1 = vld1q_s8(q + 16);
    ivec t[4];
    for (size_t i = 0; i < 4; i++) {
        const int8x16_t w0 = vreinterpretq_s8_u8(vld1q_u8(w + i * step));
        const int8x16_t w1 = vreinterpretq_s8_u8(vld1q_u8(w + i * step + 16));
        int16x8_t low = vmull_s8(vget_low_s8(w0), vget_low_s8(x0)), high = vmull_high_s8(w0, x0);
        low = vmlal_s8(low, vget_low_s8(w1), vget_low_s8(x1));
        high = vmlal_high_s8(high, w1, x1);
        t[i] = vpadalq_s16(vpaddlq_s16(low), high);
    }
    return i_sums(t);
}

#define i_rows16(w, step) ((void)(step), i_load(w))
#define i_all16(x)        vreinterpretq_s32_s8(vld1q_s8(x))

/* Products of codes and x as 16-bit numbers, added to `to`; four of them fit. */
static inline int16x8_t add_codes(int16x8_t to, ivec u, ivec x)
{
    const int8x16_t a = vreinterpretq_s8_s32(u), b = vreinterpretq_s8_s32(x);
    return vmlal_high_s8(vmlal_s8(to, vget_low_s8(a), vget_low_s8(b)), a, b);
}

#define i_codes(u, x)          vpaddlq_s16(add_codes(vdupq_n_s16(0), u, x))
#define i_codes2(u, x, u2, x2) vpaddlq_s16(add_codes(add_codes(vdupq_n_s16(0), u, x), u2, x2))
#define i_quarters(t)          i_sums(t)

static inline ivec i_eights(ivec v, int at)
{
    const uint8x16_t from = vcombine_u8(vdup_n_u8((uint8_t)at), vdup_n_u8((uint8_t)(at + 1)));
    return vreinterpretq_s32_u8(vqtbl1q_u8(vreinterpretq_u8_s32(v), from));
}

static inline void i_turn(ivec t[4])
{
    vec v[4];
    for (int i = 0; i < 4; i++)
        v[i] = vreinterpretq_f32_s32(t[i]);
    v_transpose(v);
    for (int i = 0; i < 4; i++)
        t[i] = vreinterpretq_s32_f32(v[i]);
}

#define v_scales(w, step) row_halves(w, step)

#include "kernels/int8.h"

const kernels kernels_neon = {
    .name = "neon",
    VECTOR_KERNELS,
    .rows_i8 = ROWS_I8,
    .pack_i8 = pack_i8,
    .product_i8 = product_i8,
};
#endif
