/* int8_avx2.c - class i8 with AVX2: two products of codes fit into 16 bits; signed bytes use |w|
 * times x with w's sign. */
#include "kernels/kernels.h"

#if defined(__AVX2__) && !defined(WEFT_REAL_DOUBLE)
#include "kernels/avx2.h"

#define I8_NAME(name) name##_avx2
#define MIDDLE_8      0

static inline ivec i_dot(ivec t, ivec u, ivec x)
{
    const ivec pairs = _mm256_maddubs_epi16(u, x);
    return _mm256_add_epi32(t, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
}

static inline ivec i_dot8(ivec t, ivec w, ivec x)
{
    return i_dot(t, _mm256_abs_epi8(w), _mm256_sign_epi8(x, w));
}

#include "kernels/int8.h"

#include "kernels/int8_pairs.h"
#endif
