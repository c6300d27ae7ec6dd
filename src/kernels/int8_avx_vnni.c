/* int8_avx_vnni.c - class i8 with VPDPBUSD on 8 lanes, whose left side is unsigned. */
#include "kernels/kernels.h"

#if defined(__AVXVNNI__) && !defined(WEFT_REAL_DOUBLE)
#include "kernels/avx2.h"

#define I8_NAME(name)   name##_avx_vnni
#define MIDDLE_8        128
#define i_dot(t, u, x)  _mm256_dpbusd_avx_epi32(t, u, x)
#define i_dot8(t, u, x) _mm256_dpbusd_avx_epi32(t, u, x)

#include "kernels/int8.h"
#endif
