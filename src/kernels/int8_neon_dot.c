/* int8_neon_dot.c - class i8 with SDOT, of ARMv8.2 and later. */
#include "kernels/kernels.h"

#if defined(__ARM_FEATURE_DOTPROD) && !defined(WEFT_REAL_DOUBLE)
#include "kernels/neon.h"

#define I8_NAME(name)   name##_neon_dot
#define MIDDLE_8        0
#define i_dot8(t, w, x) i_dot(t, w, x) /* codes below 64 are signed bytes too */

#define i_dot(t, w, x) vdotq_s32(t, vreinterpretq_s8_s32(w), vreinterpretq_s8_s32(x))

#include "kernels/int8.h"
#endif
