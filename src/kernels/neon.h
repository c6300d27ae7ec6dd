/* neon.h - vectors of 4 floats, for 64-bit Arm. Uses C operators instead of intrinsics where they
 * exist. */
#ifndef WEFT_KERNELS_NEON_H
#define WEFT_KERNELS_NEON_H

#include "kernels/half.h"
#include "kernels/kernels.h"

#include <arm_neon.h>

/* 24 sums, 4 vectors of weights and one of x fit the 32 registers. */
#define WIDTH   4
#define ROWS    6
#define VECS    4
#define ROWS_I8 4

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
#define v_min(a, b)    vminq_f32(a, b) /* NaN on either side propagates */
#define v_max(a, b)    vmaxq_f32(a, b)
#define v_round(v)     vrndnq_f32(v)
#define v_abs(v)       vabsq_f32(v)
#define v_top(v)       vmaxvq_f32(v)

/* Adds halves until one lane is left. */
static inline float v_sum(vec v)
{
    const float32x2_t half = vadd_f32(vget_low_f32(v), vget_high_f32(v));
    return vget_lane_f32(half, 0) + vget_lane_f32(half, 1);
}

#define v_tree(s) v_sum(((s)[0] + (s)[2]) + ((s)[1] + (s)[3]))

/* Loads the first n floats, 0 <= n <= 4, and zeros; reads nothing beyond them. */
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

/* 2^n for integers n from -126 to 127, through the exponent bits. */
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

#define pack_full(to, from, step, n) 0 /* nothing is faster than transposing whole vectors */

#define v_rows16(row, i, at) vreinterpretq_f32_u8(vld1q_u8((row)[i] + (at)))
#define v_transpose4(t)      v_transpose(t)

/* ---- whole numbers, of int8.h ---- */

#define VECS_I8   2
#define PANELS_I8 1

typedef int32x4_t ivec;

#define i_load(p)     vreinterpretq_s32_u8(vld1q_u8((const uint8_t *)(p)))
#define i_any(p)      i_load(p)
#define i_store(p, t) vst1q_s32((int32_t *)(void *)(p), t)
#define i_set(n)      vdupq_n_s32(n)
#define i_real(t)     vcvtq_f32_s32(t)
#define i_top8(t)     vshrq_n_s32(t, 24)
#define i_max(a, b)   vmaxq_s32(a, b)
#define i_look(t, u)  vreinterpretq_s32_u8(vqtbl1q_u8(vld1q_u8(t), vreinterpretq_u8_s32(u)))

static inline ivec i_widen(const uint8_t *p)
{
    uint32_t four;
    memcpy(&four, p, sizeof four);
    const uint16x8_t wide = vmovl_u8(vreinterpret_u8_u32(vdup_n_u32(four)));
    return vreinterpretq_s32_u32(vmovl_u16(vget_low_u16(wide)));
}

#endif
