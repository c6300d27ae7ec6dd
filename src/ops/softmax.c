/* softmax: y_k = exp(x_k - max x) / sum, over each row.        dx = y (dy - sum(dy y)) */
#include "ops/ops.h"

#include "tensor/tape.h"

#include <string.h>

static void softmax_rows(const run *r, const void *ctx, int64_t i0, int64_t i1)
{
    const node *n = ctx;
    for (int64_t i = i0; i < i1; i++) {
        real *y = row(n->out, i), max;
        memcpy(y, row(n->in[0], i), (size_t)cols(n->out) * sizeof *y);
        const real sum = r->kern->exp_block(y, cols(n->out), 1, &max);
        for (int64_t k = 0; k < cols(n->out); k++)
            y[k] /= sum;
    }
}

static void softmax_forward(run *r, const node *n)
{
    parallel(r, rows(n->out), 8 * cols(n->out), softmax_rows, n);
}

static void softmax_back_rows(const run *r, const void *ctx, int64_t i0, int64_t i1)
{
    const node *n = ctx;
    const tensor *x = n->in[0];
    for (int64_t i = i0; i < i1; i++) {
        const real *y = row(n->out, i), *dy = grad_row(n->out, i);
        const real sum = r->kern->dot(y, dy, cols(x));
        for (int64_t k = 0; k < cols(x); k++)
            grad_put(grad_row(x, i) + k, x->grad_written, y[k] * (dy[k] - sum));
    }
}

static void softmax_backward(run *r, const node *n)
{
    parallel_rows(r, n, softmax_back_rows);
}

static cost softmax_cost(const run *r, const node *n)
{
    (void)r;
    return cost_streaming(n, 10);
}

extern const op softmax_op;
const op softmax_op = { "softmax", "y = exp(x) / sum exp(x)", softmax_forward, softmax_backward,
                        softmax_cost };

tensor *softmax(run *r, tensor *x)
{
    node n = { .op = &softmax_op, .in = { x } };
    n.out = tensor_new(r, rows(x), cols(x));
    return apply(r, &n);
}
