/* dtype.h - one table of the number formats that weights and caches are stored in.
 *
 * A row of n numbers is n / block blocks of `bytes` bytes. A type with `tile` can be an operand of
 * products. A type without one only has a size; files use such types for counters and indices.
 * Adding a format is one file and one line in dtype.c. */
#ifndef WEFT_TENSOR_DTYPE_H
#define WEFT_TENSOR_DTYPE_H

#include "kernels/kernels.h"

typedef struct dtype {
    const char *name;        /* "q8_0" */
    const char *safetensors; /* "BF16", or NULL if safetensors has no such type */
    int gguf;                /* its number in GGUF, -1 for none */
    int block;               /* numbers per block */
    int bytes;               /* bytes per block */
    tile_kind kind;          /* which vectorised producer applies, TILE_OTHER for none */

    /* Columns [k0, k0 + n) of a stored row, at any offset: decode always fills `to`. Both are NULL
     * for a type that weights do not use. */
    tile_fn *decode, *tile;

    /* Encodes a whole row; n is a multiple of the block. NULL for a type that is only read. */
    void (*encode)(void *row, const real *from, int64_t n);

    /* Class i8, for block formats; NULL for others. */
    quants_fn *quants;
    i8_form form;

    /* As encode, with an importance of each column: where codes are searched, the squared error of
     * a value counts that much. NULL for a format whose codes follow from a rule. */
    void (*fit)(void *row, const real *from, const float *importance, int64_t n);
} dtype;

/* f32 values to be rounded to bf16; only ever the right side of a product. */
extern const dtype dtype_rounded;

extern const dtype dtype_f32, dtype_f16, dtype_bf16, dtype_q8_0, dtype_q4_0, dtype_q4_1, dtype_q5_0,
    dtype_q5_1, dtype_q2_k, dtype_q3_k, dtype_q4_k, dtype_q5_k, dtype_q6_k, dtype_mxfp4,
    dtype_iq4_nl, dtype_iq4_xs, dtype_iq3_s, dtype_iq3_xxs, dtype_iq2_s, dtype_iq2_xs,
    dtype_iq2_xxs, dtype_i32, dtype_f8;

/* The type of activations. */
#ifdef WEFT_REAL_DOUBLE
extern const dtype dtype_f64;
#define dtype_real dtype_f64
#else
#define dtype_real dtype_f32
#endif

const dtype *dtype_by_name(const char *name);
const dtype *dtype_by_gguf(uint32_t number);
const dtype *dtype_by_safetensors(const char *name);

/* Bytes of one row of n numbers; n must be a multiple of the block. */
static inline size_t dtype_row_bytes(const dtype *t, int64_t n)
{
    return (size_t)(n / t->block) * (size_t)t->bytes;
}

/* Rows of n numbers for kernels, with the CPU's own producer if it has one. In formats whose blocks
 * are not whole words, blocks of 32 begin with their scale, the others end with it. */
static inline row_set dtype_rows(const dtype *t, const kernels *k, const void *data, int64_t n)
{
    const int words = t->bytes < 4 ? 4 / t->bytes : 1;
    return (row_set){ .data = data,
                      .row_bytes = dtype_row_bytes(t, n),
                      .block = t->block * words,
                      .block_bytes = t->bytes * words,
                      .odd = t->block == 32 ? 0 : t->bytes - 2,
                      .fifth = t->kind == TILE_Q5_0   ? 0
                               : t->kind == TILE_Q5_1 ? 1
                                                      : -1,
                      .tile = k->tile[t->kind] ? k->tile[t->kind] : t->tile,
                      .quants = t->quants,
                      .pairs = t->quants ? k->pairs : NULL,
                      .form = t->form,
                      .kind = t->kind };
}

#endif
