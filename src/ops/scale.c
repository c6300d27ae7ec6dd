/* scale: y = c x        dx = c dy */
#include "ops/ops.h"

#include "tensor/tape.h"

static void scale_rows(const run *r, const void *ctx, int64_t i0, int64_t i1)
{
    const node *n = ctx;
    (void)r;
    for (int64_t i = i0; i < i1; i++)
        for (int64_t k = 0; k < cols(n->out); k++)
            row(n->out, i)[k] = n->f[0] * row(n->in[0], i)[k];
}

static void scale_forward(run *r, const node *n)
{
    parallel_rows(r, n, scale_rows);
}

static void scale_back_rows(const run *r, const void *ctx, int64_t i0, int64_t i1)
{
    const node *n = ctx;
    (void)r;
    const tensor *x = n->in[0];
    for (int64_t i = i0; i < i1; i++)
        for (int64_t k = 0; k < cols(x); k++)
            grad_put(grad_row(x, i) + k, x->grad_written, n->f[0] * grad_row(n->out, i)[k]);
}

static void scale_backward(run *r, const node *n)
{
    parallel_rows(r, n, scale_back_rows);
}

static cost scale_cost(const run *r, const node *n)
{
    (void)r;
    return cost_streaming(n, 1);
}

extern const op scale_op;
const op scale_op = { "scale", "y = c x", scale_forward, scale_backward, scale_cost };

tensor *scale(run *r, tensor *x, real c)
{
    node n = { .op = &scale_op, .in = { x }, .f = { c } };
    n.out = tensor_new(r, rows(x), cols(x));
    return apply(r, &n);
}
