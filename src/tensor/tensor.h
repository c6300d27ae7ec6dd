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
    int64_t id;     /* of its contents: no two of a run are the same */
    int64_t born;   /* the block it was made in; see residual */
    void *data;     /* NULL in a dry run */

    /* Of a weight that products multiply with: the same numbers in panels (kernels.h); or NULL. */
    const void *panels;
    bool multiplied;

    /* For training; see tape.h. A parameter's gradient lies in the flat block of all gradients. */
    real *grad;           /* rows are `stride` apart, as in data */
    bool needs_grad;      /* a parameter that learns, or something made from one */
    bool is_param;        /* lives longer than a step */
    bool grad_taken;      /* the memory of grad has been taken (in a dry run: counted) */
    bool grad_written;    /* somebody has stored into it: the next one adds */
    const uint16_t *low;  /* of a parameter: its numbers as bf16, which products take; or NULL */
    int32_t uses;         /* of a parameter: nodes whose backward is still to come */
    struct tensor *whole; /* of a view: what it is a view of */
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

static inline real *grad_row(const tensor *t, int64_t i)
{
    return t->grad + i * t->stride;
}

/* Rows [first, first + count) of a weight: a header over the same numbers. */
static inline tensor tensor_rows(const tensor *w, int64_t first, int64_t count)
{
    const int64_t width = w->n_dim > 1 ? cols(w) : 1;
    const size_t skip = (size_t)first * dtype_row_bytes(w->type, width);
    tensor t = *w;
    t.shape[0] = count;
    t.data = (char *)w->data + skip;
    t.panels = w->panels && first % PANEL_ROWS == 0 ? (const char *)w->panels + skip : NULL;
    t.grad = w->grad ? w->grad + first * width : NULL;
    t.low = w->low ? w->low + first * width : NULL;
    return t;
}

/* All numbers of a small weight (a norm, a bias), which is stored as real numbers: bind sees to
 * that. */
static inline const real *values(const tensor *t)
{
    return t ? t->data : NULL;
}

#endif
