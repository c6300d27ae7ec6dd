/* product.h - what linear, glu and the loss have in common: products with a matrix W [O, I] of
 * weights, forward and backward, on all threads.
 *
 *     y = x W^T + b        dx (+)= dy W        dW (+)= dy^T x
 *
 * The left side is packed into the run's scratch memory first. Which compute class multiplies is
 * decided here (docs/NUMERICS.md): i8 for formats of whole numbers, bf16 for parameters that keep
 * such a copy of themselves, f32 for all others. */
#ifndef WEFT_OPS_PRODUCT_H
#define WEFT_OPS_PRODUCT_H

#include "tensor/run.h"

/* Some rows of numbers. */
typedef struct matrix {
    real *at;
    int64_t rows, cols, stride;
    int64_t id; /* of the tensor these are all rows of, whose packed form may be kept; or 0 */
} matrix;

static inline matrix whole(const tensor *t)
{
    return (matrix){ t->data, rows(t), cols(t), t->stride, t->id };
}

static inline matrix whole_grad(const tensor *t)
{
    return (matrix){ t->grad, rows(t), cols(t), t->stride, 0 };
}

/* Rows [first, first + count) of m. */
static inline matrix some_rows(matrix m, int64_t first, int64_t count)
{
    return (matrix){ m.at + first * m.stride, count, m.cols, m.stride, 0 };
}

/* To be called by an op that will multiply n rows with W, in whichever directions. */
void product_plan(run *r, int64_t n_row, const tensor *w);

/* The same for an op that takes x from the other side, dx = dy W, without a tape too. */
void product_plan_both(run *r, int64_t n_row, const tensor *w);

void product(run *r, matrix y, matrix x, const tensor *w, const tensor *bias);

/* y += x W^T, in class f32 or bf16. */
void product_add(run *r, matrix y, matrix x, const tensor *w);
void product_dx(run *r, matrix dx, bool add, matrix dy, const tensor *w);
void product_dw(run *r, const tensor *w, bool add, matrix dy, matrix x);

/* The sum of dy over rows, for a bias. */
void product_db(run *r, const tensor *b, bool add, matrix dy);

#endif
