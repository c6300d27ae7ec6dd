/* l2norm: y = x / max(|x|, eps), every row of length 1, with |x| = sqrt(sum x^2).
 *
 *     dx = (dy - y (y . dy)) / |x|        and dy / eps where the row is shorter than eps */
#include "ops/ops.h"

#include "tensor/tape.h"

/* The divisor of a row. */
static real l2norm_divisor(const run *r, const node *n, int64_t i)
{
    const tensor *x = n->in[0];
    return fmax(sqrt(r->kern->dot(row(x, i), row(x, i), cols(x))), n->f[0]);
}

static void l2norm_rows(const run *r, const void *ctx, int64_t i0, int64_t i1)
{
    const node *n = ctx;
    for (int64_t i = i0; i < i1; i++) {
        const real by = l2norm_divisor(r, n, i);
        for (int64_t k = 0; k < cols(n->out); k++)
            row(n->out, i)[k] = row(n->in[0], i)[k] / by;
    }
}

static void l2norm_forward(run *r, const node *n)
{
    parallel_rows(r, n, l2norm_rows);
}

static void l2norm_back_rows(const run *r, const void *ctx, int64_t i0, int64_t i1)
{
    const node *n = ctx;
    const tensor *x = n->in[0];
    for (int64_t i = i0; i < i1; i++) {
        const real *y = row(n->out, i), *dy = grad_row(n->out, i);
        const real by = l2norm_divisor(r, n, i),
                   along = by > n->f[0] ? r->kern->dot(y, dy, cols(x)) : 0;
        for (int64_t k = 0; k < cols(x); k++)
            grad_put(grad_row(x, i) + k, x->grad_written, (dy[k] - y[k] * along) / by);
    }
}

static void l2norm_backward(run *r, const node *n)
{
    parallel_rows(r, n, l2norm_back_rows);
}

static cost l2norm_cost(const run *r, const node *n)
{
    (void)r;
    return cost_streaming(n, 3);
}

extern const op l2norm_op;
const op l2norm_op = { "l2norm", "y = x / max(|x|, eps)", l2norm_forward, l2norm_backward,
                       l2norm_cost };

tensor *l2norm(run *r, tensor *x)
{
    node n = { .op = &l2norm_op, .in = { x }, .f = { (real)1e-12 } };
    n.out = tensor_new(r, rows(x), cols(x));
    return apply(r, &n);
}
