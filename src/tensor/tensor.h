/* tensor.h - a named block of numbers. Written once, by the op that makes it. */
#ifndef WEFT_TENSOR_TENSOR_H
#define WEFT_TENSOR_TENSOR_H

#include "tensor/dtype.h"

#define MAX_DIM    4
#define NAME_BYTES 80

typedef struct tensor {
    char name[NAME_BYTES]; /* "blk.3.attn_q.rope" */
    const dtype *type;
    int n_dim;
    int64_t shape[MAX_DIM]; /* outermost first; an activation is [rows, cols] */
    int64_t stride; /* numbers from one row to the next: more than cols in a view of columns */
    int64_t born;   /* the block it was made in; see residual */
    void *data;     /* NULL in a dry run */
    real *grad;
} tensor;

static inline int64_t rows(const tensor *t)
{
    return t->shape[0];
}

static inline int64_t cols(const tensor *t)
{
    return t->shape[t->n_dim - 1];
}

/* Row i of an activation. */
static inline real *row(const tensor *t, int64_t i)
{
    return (real *)t->data + i * t->stride;
}

/* All numbers of a small weight (a norm, a bias), which is stored as real numbers: bind sees to
 * that. */
static inline const real *values(const tensor *t)
{
    return t ? t->data : NULL;
}

#endif
