/* int8_neon_i8mm.c - class i8 with SMMLA, of ARMv8.6 and some before: eight columns of two rows
 * of x times those of two outputs at once. Few rows, which read codes directly from panels, use
 * SDOT. */
#include "kernels/kernels.h"

#if defined(__ARM_FEATURE_MATMUL_INT8) && !defined(WEFT_REAL_DOUBLE)
#include "kernels/neon.h"

#define I8_NAME(name)   name##_neon_i8mm
#define MIDDLE_8        0
#define i_dot(t, w, x)  vdotq_s32(t, vreinterpretq_s8_s32(w), vreinterpretq_s8_s32(x))
#define i_dot8(t, w, x) i_dot(t, w, x) /* codes below 64 are signed bytes too */

/* Words j and j + 1 of four outputs become eight columns of the first two and of the others. */
#define I8_PAIRS
static inline void i_pair(ivec w[2])
{
    const ivec first = vzip1q_s32(w[0], w[1]);
    w[1] = vzip2q_s32(w[0], w[1]);
    w[0] = first;
}

/* Eight columns of rows i and i + 1 of R, or of the last one twice. */
static inline int8x16_t two_rows(const int8_t *x, int R, int i)
{
    const int32_t *a = (const int32_t *)(const void *)x + i, *b = a + R;
    const bool alone = i + 1 == R;
    const int32x2_t low = alone ? vld1_dup_s32(a) : vld1_s32(a);
    const int32x2_t high = alone ? vld1_dup_s32(b) : vld1_s32(b);
    return vreinterpretq_s8_s32(vcombine_s32(vzip1_s32(low, high), vzip2_s32(low, high)));
}

/* s[0] sums outputs 0 and 1 with both rows, s[1] outputs 2 and 3. */
static inline __attribute__((always_inline)) void add_products(int R, int form,
                                                               ivec t[ROWS_I8][VECS_I8],
                                                               const uint8_t *w, const int8_t *x,
                                                               int fours)
{
    const int apart = 4 * PANELS_I8 * PANEL_ROWS;
    (void)form;
    for (int i = 0; i < R; i += 2) {
        ivec s[VECS_I8][2] = { 0 };
#pragma GCC unroll 8
        for (int k = 0; k < fours; k += 2)
            for (int v = 0; v < VECS_I8; v++)
                for (int half = 0; half < 2; half++)
                    s[v][half] = vmmlaq_s32(
                        s[v][half], two_rows(x + k * 4 * R, R, i),
                        vreinterpretq_s8_s32(i_load(w + (k + half) * apart + 4 * v * WIDTH)));
        for (int v = 0; v < VECS_I8; v++) {
            const int64x2_t a = vreinterpretq_s64_s32(s[v][0]), b = vreinterpretq_s64_s32(s[v][1]);
            t[i][v] += vreinterpretq_s32_s64(vzip1q_s64(a, b));
            if (i + 1 < R)
                t[i + 1][v] += vreinterpretq_s32_s64(vzip2q_s64(a, b));
        }
    }
}

#include "kernels/int8.h"
#endif
