/* int8_neon.c - class i8 on every 64-bit Arm: two products fit into 16 bits, 2 x 128 x 127 < 2^15,
 * three do not. */
#include "kernels/kernels.h"

#if defined(__aarch64__) && !defined(WEFT_REAL_DOUBLE)
#include "kernels/neon.h"

#define I8_NAME(name)   name##_neon
#define MIDDLE_8        0
#define i_dot8(t, w, x) i_dot(t, w, x) /* codes below 64 are signed bytes too */

static inline ivec i_dot(ivec t, ivec w, ivec x)
{
    const int8x16_t a = vreinterpretq_s8_s32(w), b = vreinterpretq_s8_s32(x);
    const int16x8_t low = vmull_s8(vget_low_s8(a), vget_low_s8(b)), high = vmull_high_s8(a, b);
    return vpadalq_s16(t, vpaddq_s16(low, high));
}

#include "kernels/int8.h"

#include "kernels/int8_pairs.h"
#endif
