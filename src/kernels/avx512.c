/* avx512.c - the tables for AVX-512: Skylake-X (2017) and later, Zen 4 (2022) and later; with
 * integer dot products (VNNI) from Cascade Lake (2019) on. */
#include "kernels/kernels.h"

#if defined(__AVX512F__) && !defined(WEFT_REAL_DOUBLE)
#include "kernels/avx512.h"

#include "kernels/vector.h"

#include "kernels/panels.h"

/* Without VNNI (2017 to 2019), integers are multiplied as in AVX2. */
const kernels kernels_avx512 = { .name = "avx512", VECTOR_KERNELS, I8_KERNELS(avx2, 4) };
const kernels kernels_avx512_vnni = { .name = "avx512_vnni",
                                      VECTOR_KERNELS,
                                      I8_KERNELS(avx512_vnni, ROWS_I8) };
#endif
