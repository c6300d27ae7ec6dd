/* tensor.h - a named block of numbers. Written once, by the op that makes it. */
#ifndef WEFT_TENSOR_TENSOR_H
#define WEFT_TENSOR_TENSOR_H

#include "tensor/dtype.h"

#define MAX_DIM    4
#define NAME_BYTES 80

struct batch;

/* The rows of a batch that a tensor's rows belong to, from `first` on; of all, or of the wanted. */
typedef struct row_range {
    const struct batch *batch; /* NULL: of none */
    int64_t first;
    bool wanted;
} row_range;

typedef struct tensor {
    char name[NAME_BYTES]; /* "blk.3.attn_q.rope" */
    const dtype *type;
    int n_dim;
    int64_t shape[MAX_DIM]; /* outermost first; an activation is [rows, cols] */
    int64_t stride;   /* values from one row to the next: more than cols in a view of columns */
    int64_t id;       /* id of its contents, unique in a run */
    int64_t born;     /* the block it was made in; see residual */
    void *data;       /* NULL in a dry run */
    row_range of;     /* activations */
    int64_t slot;     /* parameters: number in the model, from 1; ... */
    int64_t slot_row; /* ... and of its rows the first that is here */

    /* For a weight used in products: the same values in panels (kernels.h); or NULL. */
    const void *panels;
    bool multiplied;
    bool bf16; /* products with it are computed in class bf16 */

    /* For training; see tape.h. A parameter's gradient lies in the flat block of all gradients. */
    real *grad;                /* rows are `stride` apart, as in data */
    bool needs_grad;           /* a trainable parameter, or computed from one */
    bool is_param;             /* outlives a step */
    bool grad_taken;           /* grad is allocated (in a dry run: counted) */
    bool grad_written;         /* grad has been written: the next writer adds */
    const uint16_t *bf16_copy; /* parameters: a bf16 copy, for products; or NULL */
    int32_t uses;              /* parameters: nodes still to be unwound */
    struct tensor *whole;      /* views: the tensor it is a view of */
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

/* Rows [first, first + count) of a weight: a header over the same values. */
static inline tensor tensor_rows(const tensor *w, int64_t first, int64_t count)
{
    const int64_t width = w->n_dim > 1 ? cols(w) : 1;
    const size_t skip = (size_t)first * dtype_row_bytes(w->type, width);
    tensor t = *w;
    t.shape[0] = count;
    t.slot_row = w->slot_row + first;
    t.data = (char *)w->data + skip;
    t.panels = w->panels && first % PANEL_ROWS == 0 ? (const char *)w->panels + skip : NULL;
    t.grad = w->grad ? w->grad + first * width : NULL;
    t.bf16_copy = w->bf16_copy ? w->bf16_copy + first * width : NULL;
    return t;
}

/* The values of a small weight (a norm, a bias), which bind always stores as reals. */
static inline const real *values(const tensor *t)
{
    return t ? t->data : NULL;
}

#endif
