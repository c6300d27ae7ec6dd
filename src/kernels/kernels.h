/* kernels.h - arithmetic on raw pointers: one table of functions per processor.
 *
 * A kernel knows no tensor, no thread, no memory to allocate and no error; what it needs beside its
 * arguments it takes from the side stack of the thread that runs it. What it promises is
 * order: the result for one row or one element is the same bits whoever else is in the call.
 * Therefore every sum over a row runs in one written order (kernels/scalar.c), and work is cut by
 * output only.
 *
 * The scalar table is portable, written over `real`, and the oracle for all others. */
#ifndef WEFT_KERNELS_KERNELS_H
#define WEFT_KERNELS_KERNELS_H

#include "base/log.h"
#include "base/real.h"
#include "base/side_stack.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Terms of a product that are summed in one chain, and so part of the arithmetic: see NUMERICS.md,
 * "one order". */
#define TILE 512

/* Numbers of x that share a scale in class i8. */
#define BLOCK_I8 32

/* Produces columns [k0, k0 + n) of one stored row of weights as real numbers: returns `to` after
 * filling it, or a pointer into the row itself where it already holds real numbers. n <= TILE. A
 * format's own producer takes any k0 and n. Of a format in blocks, a processor's wants k0 at the
 * beginning of a block and may write past n, to the end of one; blocks of those are 32 long, so
 * that products, which go in multiples of 32, need not know how long blocks are. */
typedef const real *tile_fn(real *to, const void *row, int64_t k0, int64_t n);

/* 32 numbers of a stored row in class i8: w[k] = scale q[k] + least. What a format has beyond one
 * scale is its form: a least number, and whether the second 16 numbers have a scale and a least
 * number of their own. What it has not is not set. */
typedef enum i8_form {
    I8_SCALED,
    I8_LIFTED = 1,
    I8_HALVES = 2,
    I8_BYTES = 4, /* the numbers of a scaled one need all eight bits */
    N_I8_FORM,
} i8_form;

typedef struct block_i8 {
    int8_t q[BLOCK_I8];
    real scale[2], least[2];
} block_i8;

/* Produces block b of 32 columns of a stored row. */
typedef void quants_fn(block_i8 *to, const void *row, int64_t b);

/* Groups of numbers of a block that have a scale. */
static inline int groups_i8(i8_form form)
{
    return form & I8_HALVES ? 2 : 1;
}

/* The stored formats that a processor may have its own way with. */
typedef enum tile_kind {
    TILE_OTHER,
    TILE_F32,
    TILE_F16,
    TILE_BF16,
    TILE_Q8_0,
    TILE_Q4_0,
    TILE_Q4_1,
    TILE_Q5_0,
    TILE_Q5_1,
    TILE_Q2_K,
    TILE_Q3_K,
    TILE_Q4_K,
    TILE_Q5_K,
    TILE_Q6_K,
    TILE_ROUNDED, /* real numbers that are to be rounded to bf16 */
    N_TILE
} tile_kind;

/* Rows of numbers as they are stored, and perhaps in panels too.
 *
 * A panel is 16 rows side by side, as products want them that have their outputs in lanes: block
 * after block, of a block its words of 32 bits, of a word that of every row. Where a block has an f16
 * beside whole words, the panel has those of the 16 rows first:
 *
 *     row i       | d w0 w1 ... | d w0 w1 ... |
 *     panel       | d d ... d | w0 w0 ... w0 | w1 w1 ... w1 | ...
 *                   of row 0, 1, ... 15
 *
 * A number of f32 is a word, and so are two of f16 or bf16, the first in the lower half.
 *
 * It has the bytes of its 16 rows in another order. Only a word of fifth bits (Q5_0, Q5_1) is changed:
 * bit 4 j + c of it becomes bit j of byte c, to be beside the others of columns 4 j to 4 j + 3. Where
 * a matrix ends, the last row is repeated. */
#define PANEL_ROWS 16

typedef struct row_set {
    const void *data;
    size_t row_bytes;
    const void *panels;     /* all of them, or NULL */
    int block, block_bytes; /* numbers and bytes of a block of a panel */
    int odd;                /* the byte where the f16 of a block is that has one beside words */
    int fifth;              /* the word of fifth bits, or -1 */
    int64_t k0;             /* the column that counts as the first */
    tile_fn *tile;          /* its producer in class f32 ... */
    quants_fn *quants;      /* ... and in class i8, or NULL */
    i8_form form;
    tile_kind kind;
    const real *bias; /* of each row, added to its finished products across; or NULL */
} row_set;

typedef enum act_kind {
    ACT_NONE,
    ACT_RELU,
    ACT_SILU,      /* x sigmoid(x) */
    ACT_GELU,      /* x Phi(x), exact */
    ACT_GELU_TANH, /* its tanh approximation */
    ACT_TANH,
    ACT_SIGMOID, /* 1 / (1 + exp(-x)) */
} act_kind;

/* How rotary positions pair the numbers of a head. */
typedef enum rope_pairing {
    ROPE_ADJACENT, /* (0,1) (2,3) ...           GGUF llama, deepseek2 */
    ROPE_HALVES,   /* (0,n/2) (1,n/2+1) ...     Hugging Face, GGUF qwen2, qwen3 */
} rope_pairing;

/* What a norm has found in a row: its mean, and 1 / sqrt(var + eps). */
typedef struct norm_stats {
    real mean, scale;
} norm_stats;

/* See `products, class i8`. */
typedef void pack_i8_fn(void *to, const real *x, int64_t x_stride, int64_t N, int64_t K,
                        int64_t block0, int64_t block1);
typedef void product_i8_fn(real *y, int64_t y_stride, const void *x, int64_t N, int64_t K,
                           const row_set *w, int64_t o0, int64_t o1);

typedef struct kernels {
    const char *name;

    /* sum_k a[k] b[k] */
    real (*dot)(const real *a, const real *b, int64_t n);

    /* y += a x */
    void (*axpy)(real *y, real a, const real *x, int64_t n);

    /* Blocks [b0, b0 + n) of the panel of `rows` stored rows from o on. NULL: this table reads
     * rows only. A panel of rows that are not blocks of 32 numbers has 16 bytes of each at least. */
    void (*pack_panel)(void *panel, const row_set *w, int64_t o, int64_t rows, int64_t b0,
                       int64_t n);

    /* ---- products, class f32 ----
     *
     *     y[i, c] (+)= sum_j a[i, j] b[j, c]      i < N, j < J, c0 <= c < c1
     *
     * The left side is packed first: blocks of up to `rows` rows, which `pack` makes one by one
     * from numbers at a[i i_step + j j_step], in class bf16 rounded to that; N J numbers in all.
     * The right side is stored rows: b[j, c] is row j, column c of w, or, `across`, row c, column
     * j. Every sum is cut into tiles of TILE terms; a tile is one chain of multiply-adds in
     * ascending order of j, and tiles are added to y in ascending order. Threads take whole panels
     * of columns, or whole blocks of rows: a call makes the columns [c0, c1) of blocks [block0,
     * block1). */
    int rows, panel;
    void (*pack)(real *to, const real *a, int64_t i_step, int64_t j_step, int64_t N, int64_t J,
                 bool bf16, int64_t block0, int64_t block1);
    void (*product)(real *y, int64_t y_stride, bool add, const real *a, int64_t N, int64_t J,
                    const row_set *w, bool across, int64_t block0, int64_t block1, int64_t c0,
                    int64_t c1);

    /* ---- products, class i8 ----
     *
     *     y[i, o] = sum_g s_g,   s_g = ((q_x . q_w) d_w + (sum q_x) m_w) d_x
     *
     * over groups g of 32 columns, or of 16 where a format has two scales for a block (form).
     * `pack_i8` makes whole numbers of the rows of x, -127 to 127 with one scale for every 32. Both
     * sums of whole numbers are exact, and y collects the groups in ascending order:
     *
     *     y = fma(a d_w, d_x, y)                      without a least number m_w
     *     y = fma(fma(a, d_w, c m_w), d_x, y)         with one;  a = q_x . q_w,  c = sum q_x
     *
     * That is one answer on every processor and for every number of rows. K is a multiple of 32;
     * packed rows take pack_i8_bytes(). Where w has panels, o0 begins one. */
    int rows_i8;
    pack_i8_fn *pack_i8;
    product_i8_fn *product_i8;

    /* y = x / sqrt(mean x^2 + eps) * w */
    void (*rmsnorm)(real *y, const real *x, const real *w, real eps, int64_t n);

    /* y = (x - mean) / sqrt(var + eps) * w + b;  b may be NULL */
    norm_stats (*layernorm)(real *y, const real *x, const real *w, const real *b, real eps,
                            int64_t n);

    /* y = act(x) */
    void (*act)(real *y, const real *x, act_kind kind, int64_t n);

    /* dx = dy act'(x); dx may be x */
    void (*act_back)(real *dx, const real *x, const real *dy, act_kind kind, int64_t n);

    /* y = a + b */
    void (*add)(real *y, const real *a, const real *b, int64_t n);

    /* y = a b */
    void (*mul)(real *y, const real *a, const real *b, int64_t n);

    /* Rotates the first 2 n_pair numbers of x by angles given as (cos, sin) pairs; y is not x. */
    void (*rope)(real *y, const real *x, const real *turn, int64_t n_pair, rope_pairing pairing);

    /* s becomes exp(s - by); returns the sum. */
    real (*exp_less)(real *s, int64_t n, real by);

    /* s becomes exp(s - max s); returns the sum and stores the maximum. n >= 1, max finite. */
    real (*exp_block)(real *s, int64_t n, real *max);

    /* The logarithm of a number that is 1 at least, as a sum of exponentials is. */
    real (*log_of)(real x);

    /* log sum_k exp(x[k]) */
    real (*log_sum_exp)(const real *x, int64_t n);

    /* Faster producers than the formats' own; the same numbers. NULL where there is none. */
    tile_fn *tile[N_TILE];
} kernels;

extern const kernels kernels_scalar, kernels_avx2, kernels_avx_vnni, kernels_avx512,
    kernels_avx512_vnni, kernels_neon, kernels_neon_dot, kernels_neon_i8mm;

/* Class i8 is compiled apart from the rest of a table, for the instructions it needs. */
pack_i8_fn pack_i8_avx2, pack_i8_avx_vnni, pack_i8_avx512_vnni, pack_i8_neon, pack_i8_neon_dot,
    pack_i8_neon_i8mm;
product_i8_fn product_i8_avx2, product_i8_avx_vnni, product_i8_avx512_vnni, product_i8_neon,
    product_i8_neon_dot, product_i8_neon_i8mm;

#define I8_KERNELS(isa, rows)                                                                      \
    .rows_i8 = rows, .pack_i8 = pack_i8_##isa, .product_i8 = product_i8_##isa

static inline int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Where block b of the panel is that begins with row o. */
static inline const uint8_t *panel_of(const row_set *w, int64_t o, int64_t b)
{
    return (const uint8_t *)w->panels + (size_t)o * w->row_bytes +
           (size_t)b * (size_t)w->block_bytes * PANEL_ROWS;
}

/* ---- how packed rows lie in memory ----------------------------------------------------------- */

/* N rows make this many blocks of at most `most`, as even as can be. */
static inline int64_t row_blocks(int64_t N, int64_t most)
{
    return (N + most - 1) / most;
}

typedef struct row_cut {
    int64_t n, each, more; /* blocks; rows of each; the first so many have one row more */
} row_cut;

static inline row_cut cut_rows(int64_t N, int64_t most)
{
    const int64_t n = row_blocks(N, most);
    return n ? (row_cut){ n, N / n, N % n } : (row_cut){ 0 };
}

/* The first row of block b. A division here would cost as much as a hundred multiply-adds. */
static inline int64_t block_row(const row_cut *c, int64_t b)
{
    return b * c->each + (b < c->more ? b : c->more);
}

/* Class f32: tile by tile, in each its blocks, in each its columns of R numbers. */
static inline int64_t packed_at(int64_t N, int64_t j0, int64_t tile, int64_t i0)
{
    return j0 * N + i0 * tile;
}

/* Class i8: the bytes of all blocks (four columns of each row side by side), then the scales, then
 * the sums of 32 bytes, then those of 16. Within a block of R rows, group g of row i is at g R + i. */
typedef struct rows_i8 {
    int8_t *q;
    real *scale;
    int32_t *sum, *half;
} rows_i8;

static inline rows_i8 packed_i8(const void *at, int64_t N, int64_t K)
{
    const int64_t n = N * (K / BLOCK_I8);
    int8_t *q = (int8_t *)at;
    real *scale = (real *)(void *)(q + N * K);
    int32_t *sum = (int32_t *)(void *)(scale + n);
    return (rows_i8){ q, scale, sum, sum + n };
}

static inline size_t pack_i8_bytes(int64_t N, int64_t K)
{
    return (size_t)(N * K) + (size_t)(N * (K / BLOCK_I8)) * (sizeof(real) + 3 * sizeof(int32_t));
}

/* The tables this processor can run, best first; NULL after the last, which is scalar. */
const kernels *kernels_table(int i);

/* The best table for this processor. WEFT_ISA=scalar in the environment forces the portable one; a
 * name that is unknown or that this processor cannot run is said to the log and ignored. */
const kernels *kernels_select(const log_sink *log);

#endif
