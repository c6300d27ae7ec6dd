/* avx512.c - the tables for AVX-512: Skylake-X (2017) and later, Zen 4 (2022) and later; with
 * integer dot products (VNNI) from Cascade Lake (2019) on; with tiles (AMX) from Sapphire Rapids
 * (2023) on, and their emulation for tests. */
#include "kernels/kernels.h"

#if defined(__AVX512F__) && !defined(WEFT_REAL_DOUBLE)
#include "kernels/avx512.h"
#include "kernels/tile.h"

#include "kernels/vector.h"

#include "kernels/panels.h"

#include "kernels/pairs.h"

#define T(name) amx_##name
#define A(name) amx_##name##_tiles
#include "kernels/tiles.h"
#undef T
#undef A

#define T(name) emulated_##name
#define A(name) emulated_##name##_tiles
#include "kernels/tiles.h"

/* Without VNNI (2017 to 2019), integers are multiplied as in AVX2. */
const kernels kernels_avx512 = {
    .name = "avx512", VECTOR_KERNELS, PAIR_KERNELS(avx2), I8_KERNELS(avx2, 4)
};
const kernels kernels_avx512_vnni = { .name = "avx512_vnni",
                                      VECTOR_KERNELS,
                                      PAIR_KERNELS(avx512_vnni),
                                      I8_KERNELS(avx512_vnni, ROWS_I8) };
const kernels kernels_amx = {
    .name = "amx", VECTOR_KERNELS, TILE_KERNELS(amx, avx512_vnni), I8_KERNELS(avx512_vnni, ROWS_I8)
};
const kernels kernels_amx_emulated = { .name = "amx_emulated",
                                       VECTOR_KERNELS,
                                       TILE_KERNELS(emulated, avx512_vnni),
                                       I8_KERNELS(avx512_vnni, ROWS_I8) };
#endif
