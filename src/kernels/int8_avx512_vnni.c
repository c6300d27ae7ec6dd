/* int8_avx512_vnni.c - class i8 with VPDPBUSD, whose left side is unsigned. */
#include "kernels/kernels.h"

#if defined(__AVX512VNNI__) && !defined(WEFT_REAL_DOUBLE)
#include "kernels/avx512.h"

#define I8_NAME(name)   name##_avx512_vnni
#define MIDDLE_8        128
#define i_dot(t, u, x)  _mm512_dpbusd_epi32(t, u, x)
#define i_dot8(t, u, x) _mm512_dpbusd_epi32(t, u, x)

/* A sum a that started with the bits of FAR_REAL is, read as a float, FAR_REAL + a, since |a| <
 * 2^20. So one multiply-add converts and scales it; the result is exact up to the one rounding of a
 * d if d FAR_REAL is exact, and scales have at most 20 bits. (An infinite scale gives NaN here and
 * an infinity elsewhere; neither is usable.) */
#define FAR_BITS       0x4B400000
#define FAR_REAL       12582912.0f /* 3 2^22 */
#define i_begin(n)     (FAR_BITS + (n))
#define i_scaled(t, d) v_fma(_mm512_castsi512_ps(t), d, v_mul(d, v_set(-FAR_REAL)))

#include "kernels/int8.h"

#include "kernels/int8_pairs.h"
#endif
