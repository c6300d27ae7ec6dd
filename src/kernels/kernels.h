/* kernels.h - arithmetic on raw pointers: one table of functions per instruction set.
 *
 * A kernel knows no tensors and no threads, allocates nothing and cannot fail; its buffers come
 * from the side stack of the thread that runs it. It guarantees order: the result for one row or
 * element has the same bits whatever else is in the call. Therefore every sum over a row runs in
 * one written order (kernels/scalar.c), and work is split by output only.
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

/* Terms of a product summed in one chain, and so part of the arithmetic: see NUMERICS.md, "one
 * order". */
#define TILE 512

/* Values of x that share a scale in class i8. */
#define BLOCK_I8 32

/* Produces columns [k0, k0 + n) of one stored row of weights as floats: fills and returns `to`, or
 * returns a pointer into the row if it already holds them. n <= TILE. A format's own producer
 * accepts any k0 and n. For block formats, a CPU's producer requires k0 at the start of a block and
 * may write past n, to the end of a block. Such blocks are 32 long, and products work in multiples
 * of 32, so they need not know the block length. */
typedef const real *tile_fn(real *to, const void *row, int64_t k0, int64_t n);

/* 32 values of a stored row in class i8: w[k] = scale q[k] + offset. The form says what a format has
 * beyond one scale: a minimum, and whether the second 16 values have their own scale and minimum.
 * Fields that a format does not use are not set. */
typedef enum i8_form {
    I8_SCALED,
    I8_ASYMMETRIC = 1,
    I8_HALVES = 2,
    I8_BYTES = 4, /* scaled, with codes of all eight bits */
    N_I8_FORM,
} i8_form;

typedef struct block_i8 {
    int8_t q[BLOCK_I8];
    real scale[2], offset[2];
} block_i8;

/* Produces block b of 32 columns of a stored row. */
typedef void quants_fn(block_i8 *to, const void *row, int64_t b);

/* The values of the codes 0 to 15 of IQ4_NL and IQ4_XS, and of MXFP4, where they are doubled. */
#define IQ4_VALUES(AT)                                                                             \
    AT(-127), AT(-104), AT(-83), AT(-65), AT(-49), AT(-35), AT(-22), AT(-10), AT(1), AT(13),       \
        AT(25), AT(38), AT(53), AT(69), AT(89), AT(113)
#define MXFP4_VALUES(AT)                                                                           \
    AT(0), AT(1), AT(2), AT(3), AT(4), AT(6), AT(8), AT(12), AT(0), AT(-1), AT(-2), AT(-3),        \
        AT(-4), AT(-6), AT(-8), AT(-12)

/* Number of scales in a block of 32. */
static inline int groups_i8(i8_form form)
{
    return form & I8_HALVES ? 2 : 1;
}

/* Stored formats that may have a CPU-specific producer. */
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
    TILE_MXFP4,
    TILE_IQ4_NL,
    TILE_IQ4_XS,
    TILE_ROUNDED, /* floats to be rounded to bf16 */
    N_TILE
} tile_kind;

/* Rows of values as stored, and optionally in panels too.
 *
 * A panel interleaves 16 rows, for products with outputs in lanes: block by block, within a block
 * by 32-bit words, within a word by row. If a block has an f16 or a byte in addition to whole words,
 * the panel stores those of the 16 rows first:
 *
 *     row i       | d w0 w1 ... | d w0 w1 ... |
 *     panel       | d d ... d | w0 w0 ... w0 | w1 w1 ... w1 | ...
 *                   of row 0, 1, ... 15
 *
 * An f32 is a word, and so are two f16 or bf16, the first in the lower half.
 *
 * A panel holds the bytes of its 16 rows in another order. Only a word of fifth bits (Q5_0, Q5_1)
 * is changed: its bit 4 j + c becomes bit j of byte c, next to those of columns 4 j to 4 j + 3. At
 * the end of a matrix the last row is repeated. */
#define PANEL_ROWS 16

struct row_set;

/* Writes n groups of 32 columns, from group g on, of the panel that begins with row o: of each 16 x
 * 16 words, [pair of columns, row], the values rounded to bf16. Whole blocks of a format. */
typedef void pairs_fn(uint32_t *to, const struct row_set *w, int64_t o, int64_t g, int64_t n);

typedef struct row_set {
    const void *data;
    size_t row_bytes;
    const void *panels;     /* all of them, or NULL */
    int block, block_bytes; /* values and bytes of a block of a panel */
    int odd;                /* offset in a block of what it has in addition to words */
    int fifth;              /* the word of fifth bits, or -1 */
    int64_t k0;             /* index of the first column */
    tile_fn *tile;          /* its producer in class f32 ... */
    quants_fn *quants;      /* ... and in class i8, or NULL */
    pairs_fn *pairs;        /* reads panels of such a format in class bf16, or NULL */
    i8_form form;
    tile_kind kind;
    const real *bias; /* bias of each row, added to complete transposed products; or NULL */
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

/* How rotary positions pair the columns of a head. */
typedef enum rope_pairing {
    ROPE_ADJACENT, /* (0,1) (2,3) ...           GGUF llama, deepseek2 */
    ROPE_HALVES,   /* (0,n/2) (1,n/2+1) ...     Hugging Face, GGUF qwen2, qwen3 */
} rope_pairing;

/* Statistics of a row: its mean, and 1 / sqrt(var + eps). */
typedef struct norm_stats {
    real mean, scale;
} norm_stats;

/* See `products`. */
typedef void pack_i8_fn(void *to, const real *x, int64_t x_stride, int64_t N, int64_t K,
                        int64_t block0, int64_t block1);
typedef void pack_bf16_fn(void *to, const real *a, int64_t i_step, int64_t j_step, int64_t N,
                          int64_t J, int64_t block0, int64_t block1);
typedef void product_bf16_fn(real *y, int64_t y_stride, bool add, const void *a, int64_t N,
                             int64_t J, const row_set *w, bool w_transposed, int64_t block0,
                             int64_t block1, int64_t c0, int64_t c1);
typedef void product_i8_fn(real *y, int64_t y_stride, const void *x, int64_t N, int64_t K,
                           const row_set *w, int64_t o0, int64_t o1);

typedef struct kernels {
    const char *name;

    /* sum_k a[k] b[k] */
    real (*dot)(const real *a, const real *b, int64_t n);

    /* y += a x */
    void (*axpy)(real *y, real a, const real *x, int64_t n);

    /* Packs blocks [b0, b0 + n) of the panel of `rows` stored rows from o on. NULL: this table only
     * reads rows. In a panel of a format without blocks of 32, each row has at least 16 bytes. */
    void (*pack_panel)(void *panel, const row_set *w, int64_t o, int64_t rows, int64_t b0,
                       int64_t n);

    /* ---- products, class f32 ----
     *
     *     y[i, c] (+)= sum_j a[i, j] b[j, c]      i < N, j < J, c0 <= c < c1
     *
     * The left side is packed first: `pack` makes blocks of up to `rows` rows, one by one, from a[i
     * i_step + j j_step]; N J values in total. The right side is stored
     * rows: b[j, c] is row j, column c of w or, with `w_transposed`, row c, column j. Every sum is cut
     * into tiles of TILE terms; a tile is one chain of multiply-adds in ascending order of j, and
     * tiles are added to y in ascending order. Threads take whole panels of columns, or whole
     * blocks of rows: a call makes the columns [c0, c1) of blocks [block0, block1). */
    int rows, panel;
    void (*pack)(real *to, const real *a, int64_t i_step, int64_t j_step, int64_t N, int64_t J,
                 int64_t block0, int64_t block1);
    void (*product)(real *y, int64_t y_stride, bool add, const real *a, int64_t N, int64_t J,
                    const row_set *w, bool w_transposed, int64_t block0, int64_t block1, int64_t c0,
                    int64_t c1);

    /* ---- products, class bf16 ----
     *
     * The same products of both sides rounded to bf16, in the order of AMX's tiles. A sum begins
     * with zero, or with y. Terms are taken 32 at a time, and of these
     *
     *     even = fma(a[i, j], b[j, c], even),  j = 0, 2 ... 30;      odd: the same for 1, 3 ... 31
     *     y = y + (even + odd)
     *
     * where subnormals are zeros. So tiles and vectors agree bit by bit. Blocks have up to
     * `rows_bf16` rows, packed into pack_bf16_bytes(). */
    int rows_bf16;
    pack_bf16_fn *pack_bf16;
    product_bf16_fn *product_bf16;
    pairs_fn *pairs; /* NULL: block formats are decoded from their rows */

    /* ---- products, class i8 ----
     *
     *     y[i, o] = sum_g s_g,   s_g = ((q_x . q_w) d_w + (sum q_x) m_w) d_x
     *
     * over groups g of 32 columns, or of 16 if a format has two scales per block (form). `pack_i8`
     * quantises the rows of x to integers, -127 to 127 with one scale for every 32. Both integer
     * sums are exact, and y accumulates the groups in ascending order:
     *
     *     y = fma(a d_w, d_x, y)                      without a minimum m_w
     *     y = fma(fma(a, d_w, c m_w), d_x, y)         with one;  a = q_x . q_w,  c = sum q_x
     *
     * So the result is the same on every CPU and for every number of rows. K is a multiple of 32;
     * packed rows take pack_i8_bytes(). If w has panels, o0 starts one. */
    int rows_i8;
    pack_i8_fn *pack_i8;
    product_i8_fn *product_i8;

    /* y = x / sqrt(mean x^2 + eps) * w */
    void (*rmsnorm)(real *y, const real *x, const real *w, real eps, int64_t n);

    /* y = (x - mean) / sqrt(var + eps) * w + b;  b may be NULL */
    norm_stats (*layernorm)(real *y, const real *x, const real *w, const real *b, real eps,
                            int64_t n);

    /* y = act(x) */
    void (*activate)(real *y, const real *x, act_kind kind, int64_t n);

    /* dx = dy act'(x); dx may be x */
    void (*activate_back)(real *dx, const real *x, const real *dy, act_kind kind, int64_t n);

    /* y = a + b */
    void (*add)(real *y, const real *a, const real *b, int64_t n);

    /* y = a b */
    void (*mul)(real *y, const real *a, const real *b, int64_t n);

    /* y = a y + b x, each product rounded */
    void (*blend)(real *y, real a, const real *x, real b, int64_t n);

    /* Rotates the first 2 n_pair numbers of x by angles given as (cos, sin) pairs; y is not x. */
    void (*rope)(real *y, const real *x, const real *rotation, int64_t n_pair,
                 rope_pairing pairing);

    /* s becomes exp(s - by); returns the sum. */
    real (*exp_less)(real *s, int64_t n, real by);

    /* s becomes exp(scale s - max), max the largest of scale s; returns the sum and stores the
     * maximum. n >= 1, max finite, scale > 0. */
    real (*exp_block)(real *s, int64_t n, real scale, real *max);

    /* ds becomes by p (ds - delta): through a softmax with probabilities p */
    void (*softmax_back)(real *ds, const real *p, real by, real delta, int64_t n);

    /* log x for x >= 1, such as a sum of exponentials. */
    real (*log_of)(real x);

    /* log sum_k exp(x[k]) */
    real (*log_sum_exp)(const real *x, int64_t n);

    /* Faster producers than the formats' own, with the same results. NULL if there is none. */
    tile_fn *tile[N_TILE];
} kernels;

extern const kernels kernels_scalar, kernels_avx2, kernels_avx_vnni, kernels_avx512,
    kernels_avx512_vnni, kernels_amx, kernels_amx_emulated, kernels_amx_emulated_avx2, kernels_neon,
    kernels_neon_dot, kernels_neon_i8mm;

/* Class i8 is compiled separately from the rest of a table, for the instructions it needs. */
pack_i8_fn pack_i8_avx2, pack_i8_avx_vnni, pack_i8_avx512_vnni, pack_i8_neon, pack_i8_neon_dot,
    pack_i8_neon_i8mm;
pairs_fn pairs_avx2, pairs_avx512_vnni, pairs_neon;
product_i8_fn product_i8_avx2, product_i8_avx_vnni, product_i8_avx512_vnni, product_i8_neon,
    product_i8_neon_dot, product_i8_neon_i8mm;

#define I8_KERNELS(isa, rows)                                                                      \
    .rows_i8 = rows, .pack_i8 = pack_i8_##isa, .product_i8 = product_i8_##isa

static inline int64_t min64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Block b of the panel that begins with row o. */
static inline const uint8_t *panel_of(const row_set *w, int64_t o, int64_t b)
{
    return (const uint8_t *)w->panels + (size_t)o * w->row_bytes +
           (size_t)b * (size_t)w->block_bytes * PANEL_ROWS;
}

/* ---- how packed rows lie in memory ----------------------------------------------------------- */

/* Number of blocks of at most `most` rows that N rows make, as even as possible. */
static inline int64_t row_blocks(int64_t N, int64_t most)
{
    return (N + most - 1) / most;
}

typedef struct row_cut {
    int64_t n, each, more; /* blocks; rows of each; number of blocks with an extra row */
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

/* Class f32: by tile, then by block, then by column of R values. */
static inline int64_t packed_at(int64_t N, int64_t j0, int64_t tile, int64_t i0)
{
    return j0 * N + i0 * tile;
}

/* Class bf16: floats, or for more rows than 8 blocks of 32 rows of bf16. */
static inline size_t pack_bf16_bytes(int64_t N, int64_t J)
{
    const int64_t rows = N > 8 && N < 16 ? 16 : N;
    return (size_t)(rows * ((J + 31) / 32 * 32)) * sizeof(real);
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

/* The tables this CPU can run, best first; NULL after the last, which is scalar. */
const kernels *kernels_table(int i);

/* The best table for this CPU. WEFT_ISA=scalar in the environment forces the portable one; a name
 * that is unknown or that this CPU cannot run is logged and ignored. */
const kernels *kernels_select(const log_sink *log);

#endif
