/* int8_pairs.h - weights of block formats in class bf16, over int8.h: groups of 32 columns of a
 * panel become a tile of 16 x 16 words, [pair of columns, row], each two values rounded to bf16. A
 * code times its scale is exact in f32 or, in Q6_K, rounded once as in the format's decoder: these
 * are the values that the decoder gives. */

#include "kernels/round.h"

/* Values of column 4 j + c of a group, a row in each lane. */
static inline __attribute__((always_inline)) vec code_values(format_i8 f, const group_i8 *w, int j,
                                                             int c)
{
    const int half = (f.form & I8_HALVES) && j >= 4;
    const words four = (words)w->code[j];
    const ivec q = (f.form & I8_BYTES) && MIDDLE_8 == 0
                       ? i_top8((ivec)(four << (24 - 8 * c)))
                       : (ivec)((four >> 8 * c & 255) - (uint32_t)f.middle);
    return f.form & I8_ASYMMETRIC ? v_fma(i_real(q), w->scale[half], w->offset[half])
                                  : v_mul(i_real(q), w->scale[half]);
}

static inline __attribute__((always_inline)) void expand_pairs(format_i8 f, uint32_t *to,
                                                               const uint8_t *panel, int64_t n)
{
    for (int64_t b = 0; b < n; b += f.per, panel += f.bytes)
#pragma GCC unroll 8
        for (int g = 0; g < f.per; g++) {
            prefetch_panel(panel + f.bytes / f.per * g, f.bytes / f.per);
            for (int in = 0; in < PANEL_ROWS; in += WIDTH) {
                uint32_t *at = to + (b + g) * 16 * PANEL_ROWS + in;
                group_i8 w;
                take_group(f.kind, &w, panel, in, g);
#pragma GCC unroll 8
                for (int j = 0; j < 8; j++)
                    for (int c = 0; c < 4; c += 2, at += PANEL_ROWS)
                        store_pairs(at, code_values(f, &w, j, c), code_values(f, &w, j, c + 1));
            }
        }
}

#define FUNCTION(name, columns, bytes, form, middle)                                               \
    static void pairs_##name(uint32_t *to, const uint8_t *panel, int64_t n)                        \
    {                                                                                              \
        expand_pairs(format_##name, to, panel, n);                                                 \
    }
FORMATS(FUNCTION)
#undef FUNCTION

#define ENTRY(name, columns, bytes, form, middle) [TILE_##name] = pairs_##name,
void I8_NAME(pairs)(uint32_t *to, const row_set *w, int64_t o, int64_t g, int64_t n)
{
    static void (*const of[N_TILE])(uint32_t * to, const uint8_t *panel,
                                    int64_t n) = { FORMATS(ENTRY) };
    of[w->kind](to, panel_of(w, o, g * BLOCK_I8 / w->block), n);
}
#undef ENTRY
