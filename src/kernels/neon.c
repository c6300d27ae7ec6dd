/* neon.c - the tables for every 64-bit Arm. NEON with fused multiply-add and 16-bit float
 * conversions is part of the base (ARMv8-A, 2011), so it needs no feature check. Integer dot
 * products came with Cortex-A55 and A75 (2017) and Apple's A11, integer matrix products (i8mm) with
 * Neoverse V1 and Apple's M2 (2022). */
#include "kernels/kernels.h"

#if defined(__aarch64__) && !defined(WEFT_REAL_DOUBLE)
#include "kernels/neon.h"
#include "kernels/tile.h"

#include "kernels/vector.h"

#include "kernels/panels.h"

#include "kernels/pairs.h"

const kernels kernels_neon = {
    .name = "neon", VECTOR_KERNELS, PAIR_KERNELS(neon), I8_KERNELS(neon, ROWS_I8)
};
const kernels kernels_neon_dot = {
    .name = "neon_dot", VECTOR_KERNELS, PAIR_KERNELS(neon), I8_KERNELS(neon_dot, ROWS_I8)
};
const kernels kernels_neon_i8mm = {
    .name = "neon_i8mm", VECTOR_KERNELS, PAIR_KERNELS(neon), I8_KERNELS(neon_i8mm, ROWS_I8)
};
#endif
