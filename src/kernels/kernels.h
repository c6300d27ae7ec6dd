/* kernels.h - arithmetic on raw pointers: one table of functions per processor.
 *
 * A kernel knows no tensor, no thread, no memory to allocate and no error. What it promises is
 * order: the result for one row or one element is the same bits whoever else is in the call.
 * Therefore every sum over a row runs in one written order (kernels/scalar.c), and work is cut by
 * output only.
 *
 * The scalar table is portable, written over `real`, and the oracle for all others. */
#ifndef WEFT_KERNELS_KERNELS_H
#define WEFT_KERNELS_KERNELS_H

#include "base/log.h"
#include "base/real.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Columns of W that are produced at a time. Part of the arithmetic: see NUMERICS.md, "one
 * order". */
#define TILE_COLS 512

/* Produces columns [k0, k0 + n) of one stored row of weights as real numbers: returns `to` after
 * filling it, or a pointer into the row itself where it already holds real numbers. n <= TILE_COLS,
 * k0 a multiple of it. */
typedef const real *tile_fn(real *to, const void *row, int64_t k0, int64_t n);

/* The stored formats that a processor may have its own producer for. */
typedef enum tile_kind { TILE_PLAIN, TILE_F16, TILE_BF16, TILE_Q8_0, N_TILE } tile_kind;

typedef enum act_kind {
    ACT_NONE,
    ACT_RELU,
    ACT_SILU,      /* x sigmoid(x) */
    ACT_GELU,      /* x Phi(x), exact */
    ACT_GELU_TANH, /* its tanh approximation */
    ACT_TANH,
} act_kind;

/* How rotary positions pair the numbers of a head. */
typedef enum rope_pairing {
    ROPE_ADJACENT, /* (0,1) (2,3) ...           GGUF llama, deepseek2 */
    ROPE_HALVES,   /* (0,n/2) (1,n/2+1) ...     Hugging Face, GGUF qwen2, qwen3 */
} rope_pairing;

typedef struct kernels {
    const char *name;

    /* sum_k a[k] b[k] */
    real (*dot)(const real *a, const real *b, int64_t n);

    /* y += a x */
    void (*axpy)(real *y, real a, const real *x, int64_t n);

    /* y[i, o] = sum_k x[i, k] W[o, k] (+ bias[o])  for i < N and o0 <= o < o1. W's rows are
     * `w_bytes` apart. */
    void (*matmul)(real *y, int64_t y_stride, const real *x, int64_t x_stride, int64_t N, int64_t K,
                   const void *w, size_t w_bytes, tile_fn *tile, const real *bias, int64_t o0,
                   int64_t o1);

    /* dx[i, k] (+)= sum_o dy[i, o] W[o, k]  for i0 <= i < i1; adds where `add`. */
    void (*matmul_dx)(real *dx, int64_t dx_stride, bool add, const real *dy, int64_t dy_stride,
                      int64_t i0, int64_t i1, int64_t O, int64_t K, const void *w, size_t w_bytes,
                      tile_fn *tile);

    /* dw[o, k] (+)= sum_i dy[i, o] x[i, k]  for o0 <= o < o1, rows of dw K apart. */
    void (*matmul_dw)(real *dw, bool add, const real *dy, int64_t dy_stride, const real *x,
                      int64_t x_stride, int64_t N, int64_t K, int64_t o0, int64_t o1);

    /* y = x / sqrt(mean x^2 + eps) * w */
    void (*rmsnorm)(real *y, const real *x, const real *w, real eps, int64_t n);

    /* y = (x - mean) / sqrt(var + eps) * w + b;  b may be NULL */
    void (*layernorm)(real *y, const real *x, const real *w, const real *b, real eps, int64_t n);

    /* y = act(x) */
    void (*act)(real *y, const real *x, act_kind kind, int64_t n);

    /* dx = dy act'(x); dx may be x */
    void (*act_back)(real *dx, const real *x, const real *dy, act_kind kind, int64_t n);

    /* y = a + b */
    void (*add)(real *y, const real *a, const real *b, int64_t n);

    /* y = a b */
    void (*mul)(real *y, const real *a, const real *b, int64_t n);

    /* Rotates the first 2 n_pair numbers of x by angles given as (cos, sin) pairs. */
    void (*rope)(real *y, const real *x, const real *turn, int64_t n_pair, rope_pairing pairing);

    /* s becomes exp(s - max s); returns the sum and stores the maximum. n >= 1, max finite. */
    real (*exp_block)(real *s, int64_t n, real *max);

    /* Faster producers than the formats' own; the same numbers. NULL where there is none. */
    tile_fn *tile[N_TILE];
} kernels;

extern const kernels kernels_scalar, kernels_avx2, kernels_avx512;

/* The tables this processor can run, best first; NULL after the last, which is scalar. */
const kernels *kernels_table(int i);

/* The best table for this processor. WEFT_ISA=scalar in the environment forces the portable one; a
 * name that is unknown or that this processor cannot run is said to the log and ignored. */
const kernels *kernels_select(const log_sink *log);

#endif
