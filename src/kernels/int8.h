/* int8.h - products in class i8, over the vectors of vector.h and these integer ones:
 *
 *     I8_NAME(name)          a function's name with the suffix of the table
 *     VECS_I8                vectors of outputs of a register block, of ROWS_I8 rows
 *     PANELS_I8              panels that are expanded together
 *     ivec                   WIDTH lanes of 32 bits; i_load i_store (aligned), i_any (not aligned)
 *     i_set i_real           an integer in all lanes; lanes converted to float
 *     i_dot(t, code, x)      adds a sum of four products to each lane, of codes from 0 to 63
 *     i_dot8(t, byte, x)     the same for signed bytes or, if MIDDLE_8 is 128, for unsigned bytes
 *                            with an offset of 128
 *     i_begin, i_scaled      the initial sum, and the scaling of sums without a minimum
 *     i_top8                 the upper bytes of the lanes, signed
 *     i_max                  the larger lanes
 *     i_widen(p)             WIDTH bytes, one in each lane
 *     i_look(table, codes)   bytes of a table of 16, by codes from 0 to 15
 *     add_products, i_pair   if I8_PAIRS is defined: sums of products by another instruction, and how
 *                            two words of codes are kept for it
 *
 * Weights are read as panels of 16 rows (kernels.h), from memory or made here from stored rows. A
 * format is the function that unpacks 32 columns of a panel, a byte per code, with their scales
 * (take_group). With few rows of x, they are multiplied at once; with many rows, they are stored
 * first:
 *
 *     panel                   1,024 columns, in the second cache      y
 *     | d | codes, bits |  -> | codes, a byte each | scales |  ->  R x VECS_I8 vectors of sums
 *
 * Sums of a group are exact, so one row and many rows give the same bits, and so does scalar.c. */

#include "kernels/transpose.h"

#include "kernels/int8_rows.h"

#ifndef i_begin
#define i_begin(n)     (n)
#define i_scaled(t, d) v_mul(i_real(t), d)
#endif

#define LANES_I8  (PANELS_I8 * PANEL_ROWS)
#define BLOCKS_I8 32 /* blocks of columns expanded at a time */
#define STREAMS   4  /* panels multiplied by few rows at a time */
#define FEW_ROWS  12 /* at most this many rows read codes directly from panels */

typedef struct panel_i8 {
    _Alignas(64) uint8_t q[BLOCKS_I8 * BLOCK_I8 * LANES_I8]; /* four columns of a lane together */
    _Alignas(64) real scale[BLOCKS_I8 * 2 * LANES_I8];       /* of one or two groups a block */
    _Alignas(64) real offset[BLOCKS_I8 * 2 * LANES_I8];
} panel_i8;

/* ---- formats: groups of a panel --------------------------------------------------------------- */

/* Vectors as the compiler's own, which it knows how to shift and mask. */
typedef uint8_t octets __attribute__((vector_size(sizeof(ivec))));
typedef uint16_t shorts __attribute__((vector_size(sizeof(ivec))));
typedef uint32_t words __attribute__((vector_size(sizeof(ivec))));

/* The properties of a format, except its bit layout. Constant where functions are inlined. */
typedef struct format_i8 {
    tile_kind kind;
    int per;      /* groups of 32 columns in a block */
    size_t bytes; /* of a block of a panel */
    i8_form form;
    int middle; /* offset of the codes */
} format_i8;

/* 32 columns of WIDTH rows: word j has columns 4 j to 4 j + 3 of every row, a byte each. Fields
 * that a format does not use are not set. */
typedef struct group_i8 {
    octets code[8];
    vec scale[2], offset[2]; /* for all columns, or for the first and the second 16 */
} group_i8;

/* In every byte, moves the bits from `at` on to `to`; mask selects them there. */
#define BITS(v, at, to, mask)                                                                      \
    ((octets)((at) > (to) ? (shorts)(v) >> ((at) - (to)) : (shorts)(v) << ((to) - (at))) & (mask))

/* Word i of a block of a panel, whose first lane is at `from`; and the f16 beside the words. */
#define WORD(i) ((words)i_any(from + (i)*PANEL_ROWS * 4))

static inline vec beside(const uint8_t *panel, int lane)
{
    return v_from_f16((const uint16_t *)(const void *)panel + lane);
}

/* Half of a power of two from each row's byte beside the words; see tensor/mxfp4.c. */
static inline vec power_beside(const uint8_t *panel, int lane)
{
    const words e = (words)i_widen(panel + lane); /* gcc 12 converts vectors lane by lane */
    return (vec)i_max((ivec)((e << 23) - (1 << 23)), (ivec)((e << 21) + (1 << 21))); /* subnormal */
}

/* The bytes of 16 codes, with the offset that products of their form expect. */
#define LOW_BYTE(n)   (uint8_t)(n)
#define BYTE_CODE(n)  LOW_BYTE((n) + MIDDLE_8)
#define MXFP4_MIDDLE  12
#define MXFP4_CODE(n) LOW_BYTE((n) + MXFP4_MIDDLE)
static const uint8_t iq4_codes[16] = { IQ4_VALUES(BYTE_CODE) };
static const uint8_t mxfp4_codes[16] = { MXFP4_VALUES(MXFP4_CODE) };

/* Blocks of 32: d, or d and m in a word; perhaps a word of fifth bits; codes, perhaps of a table. */
static inline __attribute__((always_inline)) void take_small(tile_kind kind, group_i8 *to,
                                                             const uint8_t *panel, int lane)
{
    const bool asymmetric = kind == TILE_Q4_1 || kind == TILE_Q5_1;
    const bool fifth = kind == TILE_Q5_0 || kind == TILE_Q5_1;
    const int d_bytes = asymmetric ? 0 : kind == TILE_MXFP4 ? 1 : 2; /* before the words */
    const uint8_t *from = panel + 4 * lane + d_bytes * PANEL_ROWS;
    if (kind == TILE_MXFP4) {
        to->scale[0] = power_beside(panel, lane);
    } else if (asymmetric) {
        to->scale[0] = v_low_f16(WORD(0));
        to->offset[0] = v_low_f16(WORD(0) >> 16);
    } else {
        to->scale[0] = beside(panel, lane);
    }
    for (int j = 0; j < 8; j++) {
        if (kind == TILE_Q8_0) {
            to->code[j] = (octets)WORD(j) ^ (uint8_t)MIDDLE_8;
            continue;
        }
        to->code[j] = BITS(WORD(asymmetric + fifth + j % 4), j / 4 * 4, 0, 15);
        if (fifth)
            to->code[j] |= BITS(WORD(asymmetric), j, 4, 16);
        if (kind == TILE_IQ4_NL || kind == TILE_MXFP4)
            to->code[j] = (octets)i_look(kind == TILE_MXFP4 ? mxfp4_codes : iq4_codes,
                                         (ivec)to->code[j]);
    }
}

/* IQ4_XS: d and the upper two bits of eight scales in a word, their lower four in another; four
 * words of codes for each group. */
static inline __attribute__((always_inline)) void take_iq4_xs(group_i8 *to, const uint8_t *panel,
                                                              int lane, int g)
{
    const uint8_t *from = panel + 4 * lane;
    const words own = (WORD(1) >> 4 * g & 15) | (WORD(0) >> (16 + 2 * g) & 3) << 4;
    to->scale[0] = v_mul(v_low_f16(WORD(0)), i_real((ivec)(own - 32)));
    for (int j = 0; j < 8; j++)
        to->code[j] = (octets)i_look(iq4_codes,
                                     (ivec)BITS(WORD(2 + 4 * g + j % 4), j / 4 * 4, 0, 15));
}

/* Scales and minima of groups g to g + 3, g being 0 or 4, a byte each, from the twelve bytes of a
 * Q4_K or Q5_K block (tensor/blocks.h), here words 1 to 3. */
static inline void take_six_bits(words *scale, words *minimum, const uint8_t *from, int g)
{
    if (g == 0) {
        *scale = WORD(1) & 0x3F3F3F3F;
        *minimum = WORD(2) & 0x3F3F3F3F;
    } else {
        *scale = (WORD(3) & 0x0F0F0F0F) | (WORD(1) >> 2 & 0x30303030);
        *minimum = (WORD(3) >> 4 & 0x0F0F0F0F) | (WORD(2) >> 2 & 0x30303030);
    }
}

/* Q4_K and Q5_K: two groups of 32 in eight words; the fifth bits of all eight groups in eight. */
static inline __attribute__((always_inline)) void take_q45_k(tile_kind kind, group_i8 *to,
                                                             const uint8_t *panel, int lane, int g)
{
    const bool fifth = kind == TILE_Q5_K;
    const uint8_t *from = panel + 4 * lane;
    words scale, minimum;
    take_six_bits(&scale, &minimum, from, g / 4 * 4);
    to->scale[0] = v_mul(v_low_f16(WORD(0)), i_real((ivec)(scale >> g % 4 * 8 & 63)));
    to->offset[0] = v_mul(-v_low_f16(WORD(0) >> 16), i_real((ivec)(minimum >> g % 4 * 8 & 63)));
    for (int j = 0; j < 8; j++) {
        to->code[j] = BITS(WORD((fifth ? 12 : 4) + g / 2 * 8 + j), g % 2 * 4, 0, 15);
        if (fifth)
            to->code[j] |= BITS(WORD(4 + j), g, 4, 16);
    }
}

/* Q6_K: four groups of 32 in 16 words of lower bits, where the first and third share bytes, as do
 * the second and fourth, and in 8 words of upper bits. Every 16 values have a scale. */
static inline __attribute__((always_inline)) void take_q6_k(group_i8 *to, const uint8_t *panel,
                                                            int lane, int g)
{
    const uint8_t *from = panel + 4 * lane + 2 * PANEL_ROWS;
    const int quad = g / 4, part = g % 4;
    for (int half = 0; half < 2; half++) {
        const words own = WORD(48 + g / 2) << (24 - g % 2 * 16 - half * 8);
        to->scale[half] = v_mul(beside(panel, lane), i_real(i_top8((ivec)own)));
    }
    for (int j = 0; j < 8; j++)
        to->code[j] = BITS(WORD(16 * quad + 8 * (part % 2) + j), part / 2 * 4, 0, 15) |
                      BITS(WORD(32 + 8 * quad + j), 2 * part, 4, 48);
}

/* Q2_K: two bits of four groups of 32 in 8 words. Every 16 values have a scale, with a minimum in
 * the upper half of its byte. */
static inline __attribute__((always_inline)) void take_q2_k(group_i8 *to, const uint8_t *panel,
                                                            int lane, int g)
{
    const uint8_t *from = panel + 4 * lane;
    const vec d = v_low_f16(WORD(20)), e = -v_low_f16(WORD(20) >> 16);
    for (int half = 0; half < 2; half++) {
        const words own = WORD(g / 2) >> (g % 2 * 16 + half * 8);
        to->scale[half] = v_mul(d, i_real((ivec)(own & 15)));
        to->offset[half] = v_mul(e, i_real((ivec)(own >> 4 & 15)));
    }
    for (int j = 0; j < 8; j++)
        to->code[j] = BITS(WORD(4 + g / 4 * 8 + j), g % 4 * 2, 0, 3);
}

/* Q3_K: the same two bits; a third bit of all eight groups in 8 words. The 16 scales have an offset
 * of 32, with the lower four bits in two words and the upper two in another. */
static inline __attribute__((always_inline)) void take_q3_k(group_i8 *to, const uint8_t *panel,
                                                            int lane, int g)
{
    const uint8_t *from = panel + 4 * lane + 2 * PANEL_ROWS;
    const words own = (WORD(24 + g / 2 % 2) >> g / 4 * 4 & 0x0F0F0F0F) |
                      (WORD(26) >> g / 2 * 2 & 0x03030303) << 4;
    for (int half = 0; half < 2; half++) {
        const words six = own >> (g % 2 * 16 + half * 8) & 63;
        to->scale[half] = v_mul(beside(panel, lane), i_real((ivec)(six - 32)));
    }
    for (int j = 0; j < 8; j++)
        to->code[j] = BITS(WORD(8 + g / 4 * 8 + j), g % 4 * 2, 0, 3) | BITS(WORD(j), g, 2, 4);
}
#undef WORD

/* Group g of a block of a panel, rows from `lane` on; kind and g are constants. */
static inline __attribute__((always_inline)) void take_group(tile_kind kind, group_i8 *to,
                                                             const uint8_t *panel, int lane, int g)
{
    if (kind == TILE_Q6_K)
        take_q6_k(to, panel, lane, g);
    else if (kind == TILE_Q2_K)
        take_q2_k(to, panel, lane, g);
    else if (kind == TILE_Q3_K)
        take_q3_k(to, panel, lane, g);
    else if (kind == TILE_Q4_K || kind == TILE_Q5_K)
        take_q45_k(kind, to, panel, lane, g);
    else if (kind == TILE_IQ4_XS)
        take_iq4_xs(to, panel, lane, g);
    else
        take_small(kind, to, panel, lane);
}

/* Prefetches `bytes`, which are needed soon: panels are read in memory order. */
#define AHEAD 4096
static inline void prefetch_panel(const uint8_t *from, size_t bytes)
{
    for (size_t line = 0; line < bytes; line += 64)
        __builtin_prefetch(from + AHEAD + line);
}

/* ---- products -------------------------------------------------------------------------------- */

/* The R rows of x at i0 from block b of their `all` blocks on. */
static inline rows_i8 rows_from(const rows_i8 *x, int64_t i0, int64_t R, int64_t all, int64_t b)
{
    const int64_t at = i0 * all + b * R;
    return (rows_i8){ x->q + at * BLOCK_I8, x->scale + at, x->sum + at, x->half + 2 * at };
}

/* Inputs and output of a register block of sums. */
typedef struct strip_i8 {
    real *y;
    int64_t y_stride;
    int width;        /* outputs that exist */
    bool begin;       /* no sums yet */
    int middle;       /* of the codes */
    const real *bias; /* bias of the outputs, added to complete sums; or NULL */
} strip_i8;

/* Four bytes of x in all lanes. */
static inline ivec i_four(const int8_t *p)
{
    int32_t four;
    memcpy(&four, p, sizeof four);
    return i_set(four);
}

#ifndef I8_PAIRS
#define i_pair(w) (void)(w)

/* Adds the products of 4 * `fours` columns. */
static inline __attribute__((always_inline)) void add_products(int R, i8_form form,
                                                               ivec t[ROWS_I8][VECS_I8],
                                                               const uint8_t *w, const int8_t *x,
                                                               int fours)
{
#pragma GCC unroll 8 /* as a loop, gcc 12 moves every sum to another register and back */
    for (int k = 0; k < fours; k++, w += 4 * LANES_I8)
        for (int i = 0; i < R; i++, x += 4) {
            const ivec four = i_four(x);
            for (int v = 0; v < VECS_I8; v++)
                t[i][v] = form & I8_BYTES ? i_dot8(t[i][v], i_load(w + 4 * v * WIDTH), four)
                                          : i_dot(t[i][v], i_load(w + 4 * v * WIDTH), four);
        }
}
#endif

/* R rows times n blocks of columns of VECS_I8 vectors of lanes, from `lane` on. R and form are
 * constants where it is inlined. */
static inline __attribute__((always_inline)) void
multiply_i8_rows(int R, i8_form form, const strip_i8 *to, const rows_i8 *x, const panel_i8 *p,
                 int lane, int64_t n)
{
    const int groups = groups_i8(form), fours = BLOCK_I8 / 4 / groups;
    const int32_t *sum = form & I8_HALVES ? x->half : x->sum;
    const bool asymmetric = form & I8_ASYMMETRIC;
    _Alignas(64) int32_t first[BLOCKS_I8 * 2 * ROWS_I8]; /* initial sums of products, ... */
    _Alignas(64) real x_sum[BLOCKS_I8 * 2 * ROWS_I8];    /* ... or the sums of x, as floats */
    vec s[ROWS_I8][VECS_I8];
    for (int64_t k = 0; k < n * groups * R; k++)
        if (asymmetric)
            x_sum[k] = (real)sum[k];
        else
            first[k] = i_begin(-to->middle * sum[k]);
    for (int i = 0; i < R; i++)
        for (int v = 0; v < VECS_I8; v++)
            s[i][v] = to->begin ? v_zero()
                                : v_load_part(to->y + i * to->y_stride + v * WIDTH,
                                              part_of(to->width - v * WIDTH));
    for (int64_t g = 0; g < n * groups; g++) {
        ivec t[ROWS_I8][VECS_I8];
        for (int i = 0; i < R; i++)
            for (int v = 0; v < VECS_I8; v++)
                t[i][v] = i_set(asymmetric ? 0 : first[g * R + i]);
        add_products(R, form, t, p->q + (g * fours * LANES_I8 + lane) * 4, x->q + g * fours * 4 * R,
                     fours);
        for (int v = 0; v < VECS_I8; v++) {
            const int64_t at = g * LANES_I8 + lane + v * WIDTH;
            const vec d = v_load(p->scale + at), m = asymmetric ? v_load(p->offset + at) : v_zero();
            for (int i = 0; i < R; i++) {
                const vec a = asymmetric
                                  ? v_fma(i_real(t[i][v]), d, v_mul(v_set(x_sum[g * R + i]), m))
                                  : i_scaled(t[i][v], d);
                s[i][v] = v_fma(a, v_set(x->scale[g / groups * R + i]), s[i][v]);
            }
        }
    }
    for (int v = 0; v < VECS_I8; v++) {
        const int part = part_of(to->width - v * WIDTH);
        for (int i = 0; i < R; i++) {
            const vec y = to->bias ? v_add(s[i][v], v_load_part(to->bias + v * WIDTH, part))
                                   : s[i][v];
            v_store_part(to->y + i * to->y_stride + v * WIDTH, y, part);
        }
    }
}

/* A case for each form and height of a block. */
#define HEIGHT(R, form)                                                                            \
    case (form)*8 + R:                                                                             \
        multiply_i8_rows(R, (i8_form)(form), to, x, p, lane, n);                                   \
        break;
#if ROWS_I8 == 6
#define HEIGHTS_I8(form) EACH_HEIGHT(HEIGHT, form)
#else
#define HEIGHTS_I8(form) HEIGHT(1, form) HEIGHT(2, form) HEIGHT(3, form) HEIGHT(4, form)
#endif

static void multiply_i8(i8_form form, int64_t R, const strip_i8 *to, const rows_i8 *x,
                        const panel_i8 *p, int lane, int64_t n)
{
    switch (form * 8 + R) {
        HEIGHTS_I8(I8_SCALED)
        HEIGHTS_I8(I8_ASYMMETRIC)
        HEIGHTS_I8(I8_HALVES)
        HEIGHTS_I8(I8_ASYMMETRIC | I8_HALVES)
        HEIGHTS_I8(I8_BYTES)
    }
}
#undef HEIGHT

/* ---- what is made for each format ------------------------------------------------------------- */

/* Expands n blocks of 32 columns of a panel, into lanes from `lane` on. */
static inline __attribute__((always_inline)) void expand(format_i8 f, panel_i8 *p, int lane,
                                                         const uint8_t *panel, int64_t n)
{
    const int groups = groups_i8(f.form);
    for (int64_t b = 0; b < n; b += f.per, panel += f.bytes)
#pragma GCC unroll 8
        for (int g = 0; g < f.per; g++) {
            prefetch_panel(panel + f.bytes / f.per * g, f.bytes / f.per);
            for (int in = 0; in < PANEL_ROWS; in += WIDTH) {
                const int64_t at = (b + g) * groups * LANES_I8 + lane + in;
                group_i8 w;
                take_group(f.kind, &w, panel, in, g);
                for (int j = 0; j < 8; j += 2) {
                    uint8_t *to = p->q + (((b + g) * 8 + j) * LANES_I8 + lane + in) * 4;
                    ivec two[] = { (ivec)w.code[j], (ivec)w.code[j + 1] };
                    i_pair(two);
                    i_store(to, two[0]);
                    i_store(to + LANES_I8 * 4, two[1]);
                }
                for (int half = 0; half < groups; half++) {
                    v_store(p->scale + at + half * LANES_I8, w.scale[half]);
                    if (f.form & I8_ASYMMETRIC)
                        v_store(p->offset + at + half * LANES_I8, w.offset[half]);
                }
            }
        }
}

/* One row of x among the R packed together. */
typedef struct row_i8 {
    const int8_t *q;
    const real *scale;
    const int32_t *sum, *half;
    int64_t R;
} row_i8;

/* Adds a group of WIDTH outputs to s: block b of a row of x, which is the only row if R is 1. */
static inline __attribute__((always_inline)) vec add_group(format_i8 f, vec s, const group_i8 *w,
                                                           const row_i8 *x, int64_t R, int64_t b)
{
    const int groups = groups_i8(f.form), fours = BLOCK_I8 / 4 / groups;
    const int32_t *sum = f.form & I8_HALVES ? x->half + 2 * b * R : x->sum + b * R;
    const int8_t *q = x->q + b * BLOCK_I8 * R;
    for (int half = 0; half < groups; half++, sum += R) {
        ivec t = i_set(-f.middle * *sum);
        for (int j = half * fours; j < (half + 1) * fours; j++, q += 4 * R)
            t = f.form & I8_BYTES ? i_dot8(t, (ivec)w->code[j], i_four(q))
                                  : i_dot(t, (ivec)w->code[j], i_four(q));
        const vec a = f.form & I8_ASYMMETRIC ? v_fma(i_real(t), w->scale[half],
                                                     v_mul(v_set((real)*sum), w->offset[half]))
                                             : v_mul(i_real(t), w->scale[half]);
        s = v_fma(a, v_set(x->scale[b * R]), s);
    }
    return s;
}

/* Multiplies several panels, `apart` from each other, of n blocks each, by few rows, side by side:
 * several memory streams are faster than one. Codes stay in registers, and the sums, y[row, panel],
 * in the L1 cache. One row is a constant. */
static inline __attribute__((always_inline)) void few_rows(format_i8 f, real *y, int panels,
                                                           const row_i8 *x, int rows,
                                                           const uint8_t *panel, size_t apart,
                                                           int64_t n)
{
    for (int64_t b = 0; b < n; b += f.per, panel += f.bytes)
#pragma GCC unroll 8
        for (int g = 0; g < f.per; g++)
#pragma GCC unroll 1
            for (int p = 0; p < panels; p++) {
                const uint8_t *from = panel + (size_t)p * apart;
                prefetch_panel(from + f.bytes / f.per * g, f.bytes / f.per);
                for (int v = 0; v < PANEL_ROWS / WIDTH; v++) {
                    real *to = y + p * PANEL_ROWS + v * WIDTH;
                    group_i8 w;
                    take_group(f.kind, &w, from, v * WIDTH, g);
#pragma GCC unroll 1
                    for (int i = 0; i < rows; i++, to += STREAMS * PANEL_ROWS)
                        v_store(to, add_group(f, b + g ? v_load(to) : v_zero(), &w, &x[i],
                                              rows == 1 ? 1 : x[i].R, b + g));
                }
            }
}

/* Columns and bytes of a block, its form, the middle of its codes. */
#define FORMATS(DO)                                                                                \
    DO(Q8_0, 32, 34, I8_BYTES, MIDDLE_8)                                                           \
    DO(Q4_0, 32, 18, I8_SCALED, 8)                                                                 \
    DO(Q4_1, 32, 20, I8_ASYMMETRIC, 0)                                                             \
    DO(Q5_0, 32, 22, I8_SCALED, 16)                                                                \
    DO(Q5_1, 32, 24, I8_ASYMMETRIC, 0)                                                             \
    DO(Q2_K, 256, 84, I8_ASYMMETRIC | I8_HALVES, 0)                                                \
    DO(Q3_K, 256, 110, I8_HALVES, 4)                                                               \
    DO(Q4_K, 256, 144, I8_ASYMMETRIC, 0)                                                           \
    DO(Q5_K, 256, 176, I8_ASYMMETRIC, 0)                                                           \
    DO(Q6_K, 256, 210, I8_HALVES, 32)                                                              \
    DO(MXFP4, 32, 17, I8_SCALED, MXFP4_MIDDLE)                                                     \
    DO(IQ4_NL, 32, 18, I8_BYTES, MIDDLE_8)                                                         \
    DO(IQ4_XS, 256, 136, I8_BYTES, MIDDLE_8)

#define FUNCTIONS(name, columns, bytes, form, middle)                                              \
    static const format_i8 format_##name = { TILE_##name, (columns) / BLOCK_I8,                    \
                                             (bytes)*PANEL_ROWS, form, middle };                   \
    static void expand_##name(panel_i8 *p, int lane, const uint8_t *panel, int64_t n)              \
    {                                                                                              \
        expand(format_##name, p, lane, panel, n);                                                  \
    }                                                                                              \
    static void few_rows_##name(real *y, int panels, const row_i8 *x, int rows,                    \
                                const uint8_t *panel, size_t apart, int64_t n)                     \
    {                                                                                              \
        if (rows == 1)                                                                             \
            few_rows(format_##name, y, panels, x, 1, panel, apart, n);                             \
        else                                                                                       \
            few_rows(format_##name, y, panels, x, rows, panel, apart, n);                          \
    }
FORMATS(FUNCTIONS)
#undef FUNCTIONS

#define ENTRY(name, columns, bytes, form, middle)                                                  \
    [TILE_##name] = { middle, expand_##name, few_rows_##name },
static const struct {
    int middle;
    void (*expand)(panel_i8 *p, int lane, const uint8_t *panel, int64_t n);
    void (*few_rows)(real *y, int panels, const row_i8 *x, int rows, const uint8_t *panel,
                     size_t apart, int64_t n);
} formats[N_TILE] = { FORMATS(ENTRY) };
#undef ENTRY

/* ---- panels of outputs ------------------------------------------------------------------------ */

/* n blocks of columns from b on of the panels of `width` outputs from o on. */
static void expand_panels(panel_i8 *p, const row_set *w, int64_t b, int64_t n, int64_t o,
                          int64_t width)
{
    uint8_t *room = side_take(BLOCKS_I8 * 34 * PANEL_ROWS); /* Q8_0 is the largest */
    const int64_t per = w->block / BLOCK_I8;
    for (int lane = 0; lane < width; lane += PANEL_ROWS) {
        if (!w->panels)
            vec_pack_panel(room, w, o + lane, min64(PANEL_ROWS, width - lane), b / per, n / per);
        formats[w->kind].expand(p, lane, w->panels ? panel_of(w, o + lane, b / per) : room, n);
    }
    side_give(room);
}

/* Outputs [o, o + width), of at most PANELS_I8 panels, of all rows. */
static void strip_of(real *y, int64_t y_stride, const rows_i8 *x, int64_t N, int64_t K,
                     const row_set *w, int64_t o, int64_t width)
{
    panel_i8 *p = side_take(sizeof *p);
    const int64_t all = K / BLOCK_I8;
    const row_cut rows_of = cut_rows(N, ROWS_I8);
    for (int64_t b = 0; b < all; b += BLOCKS_I8) {
        const int64_t n = min64(BLOCKS_I8, all - b);
        expand_panels(p, w, b, n, o, width);
        for (int64_t rb = 0; rb < rows_of.n; rb++) {
            const int64_t i0 = block_row(&rows_of, rb), R = block_row(&rows_of, rb + 1) - i0;
            const rows_i8 part = rows_from(x, i0, R, all, b);
            for (int lane = 0; lane < width; lane += VECS_I8 * WIDTH) {
                const strip_i8 to = { .y = y + i0 * y_stride + o + lane,
                                      .y_stride = y_stride,
                                      .width = (int)width - lane,
                                      .begin = b == 0,
                                      .middle = formats[w->kind].middle,
                                      .bias = w->bias && b + n == all ? w->bias + o + lane : NULL };
                multiply_i8(w->form, R, &to, &part, p, lane, n);
            }
        }
    }
    side_give(p);
}

/* Outputs [o0, o1) of N <= FEW_ROWS rows, from panels in memory. */
static void product_of_few(real *y, int64_t y_stride, const rows_i8 *x, int64_t N, int64_t K,
                           const row_set *w, int64_t o0, int64_t o1)
{
    const row_cut rows_of = cut_rows(N, ROWS_I8);
    _Alignas(64) real sums[FEW_ROWS][STREAMS * PANEL_ROWS];
    row_i8 row[FEW_ROWS];
    for (int64_t b = 0; b < rows_of.n; b++) {
        const int64_t i0 = block_row(&rows_of, b), R = block_row(&rows_of, b + 1) - i0;
        const rows_i8 at = rows_from(x, i0, R, K / BLOCK_I8, 0);
        for (int64_t i = 0; i < R; i++)
            row[i0 + i] = (row_i8){ at.q + 4 * i, at.scale + i, at.sum + i, at.half + i, R };
    }
    for (int64_t o = o0; o < o1; o += STREAMS * PANEL_ROWS) {
        const int64_t n = min64(STREAMS * PANEL_ROWS, o1 - o);
        formats[w->kind].few_rows(sums[0], (int)row_blocks(n, PANEL_ROWS), row, (int)N,
                                  panel_of(w, o, 0), PANEL_ROWS * w->row_bytes, K / BLOCK_I8);
        for (int64_t i = 0; i < N; i++)
            for (int64_t k = 0; k < n; k++)
                y[i * y_stride + o + k] = w->bias ? sums[i][k] + w->bias[o + k] : sums[i][k];
    }
}

void I8_NAME(product_i8)(real *y, int64_t y_stride, const void *packed, int64_t N, int64_t K,
                         const row_set *w, int64_t o0, int64_t o1)
{
    const rows_i8 x = packed_i8(packed, N, K);
    if (N <= FEW_ROWS && w->panels) {
        product_of_few(y, y_stride, &x, N, K, w, o0, o1);
        return;
    }
    for (int64_t o = o0; o < o1; o += LANES_I8)
        strip_of(y, y_stride, &x, N, K, w, o, min64(LANES_I8, o1 - o));
}
