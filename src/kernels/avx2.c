/* avx2.c - the tables for AVX2 with FMA and F16C: Haswell (2013), Zen (2017) and later; with
 * integer dot products (AVX-VNNI) from Alder Lake (2021) and Zen 5 (2024) on. */
#include "kernels/kernels.h"

#if defined(__AVX2__) && !defined(WEFT_REAL_DOUBLE)
#include "kernels/avx2.h"
#include "kernels/tile.h"

#include "kernels/vector.h"

#include "kernels/panels.h"

#include "kernels/pairs.h"

#define T(name) emulated_##name
#define A(name) emulated_##name##_tiles
#include "kernels/tiles.h"

const kernels kernels_avx2 = {
    .name = "avx2", VECTOR_KERNELS, PAIR_KERNELS(avx2), I8_KERNELS(avx2, ROWS_I8)
};
const kernels kernels_avx_vnni = {
    .name = "avx_vnni", VECTOR_KERNELS, PAIR_KERNELS(avx2), I8_KERNELS(avx_vnni, ROWS_I8)
};

/* AMX without AMX, for tests. */
const kernels kernels_amx_emulated_avx2 = { .name = "amx_emulated_avx2",
                                            VECTOR_KERNELS,
                                            TILE_KERNELS(emulated, avx2),
                                            I8_KERNELS(avx2, ROWS_I8) };
#endif
