/* product.h - shared by linear, glu and the loss: products with a weight matrix W [O, I], forward
 * and backward, on all threads.
 *
 *     y = x W^T + b        dx (+)= dy W        dW (+)= dy^T x
 *
 * The left side is packed into the run's scratch memory first. This file chooses the compute class
 * (docs/NUMERICS.md): i8 for integer formats, bf16 for parameters with a bf16 copy, f32 for all
 * others. */
#ifndef WEFT_OPS_PRODUCT_H
#define WEFT_OPS_PRODUCT_H

#include "tensor/run.h"

/* A matrix, or some of its rows. */
typedef struct matrix {
    real *at;
    int64_t rows, cols, stride;
    int64_t id; /* id of the tensor, if these are all its rows, so that its packed form can be
                 * reused; or 0 */
    row_range of;
} matrix;

static inline matrix whole(const tensor *t)
{
    return (matrix){ t->data, rows(t), cols(t), t->stride, t->id, t->of };
}

static inline matrix whole_grad(const tensor *t)
{
    return (matrix){ t->grad, rows(t), cols(t), t->stride, 0, t->of };
}

/* Rows [first, first + count) of m. */
static inline matrix some_rows(matrix m, int64_t first, int64_t count)
{
    const row_range of = { m.of.batch, m.of.first + first, m.of.wanted };
    return (matrix){ m.at + first * m.stride, count, m.cols, m.stride, 0, of };
}

/* "i8", "bf16" or "f32": the compute class of products with W. */
const char *product_class(const tensor *w);
bool product_in_bf16(const tensor *w);

/* Class bf16 packs terms in groups of 32; in backward rows are terms. */
static inline int64_t whole_groups(int64_t n)
{
    return (n + 31) / 32 * 32;
}

/* Bytes of the packed left side, n rows, for the products with W that a run needs. */
size_t product_bytes(const run *r, int64_t n_row, const tensor *w);

/* Bytes of it that product_plain alone writes. */
size_t product_forward_bytes(int64_t n_row, const tensor *w);

/* y = x W^T + b without adapters; ops call product() of adapt.h. */
void product_plain(run *r, matrix y, matrix x, const tensor *w, const tensor *bias);

/* y = x W^T or y += x W^T in class f32; x is packed into `room`. */
void product_f32(run *r, matrix y, bool add, matrix x, const tensor *w, void *room);

/* Its gradients; dy is packed into `room`. */
void product_f32_dx(run *r, matrix dx, bool add, matrix dy, const tensor *w, void *room);
void product_f32_dw(run *r, const tensor *w, bool add, matrix dy, matrix x, void *room);

/* y += x W^T, in class f32 or bf16. */
void product_add(run *r, matrix y, matrix x, const tensor *w);
void product_dx(run *r, matrix dx, bool add, matrix dy, const tensor *w);
void product_dw(run *r, const tensor *w, bool add, matrix dy, matrix x);

/* The sum of dy over rows, for a bias. */
void product_db(run *r, const tensor *b, bool add, matrix dy);

#endif
