/* softcap: y = c tanh(x / c)        dx = dy (1 - (y/c)^2): needs only y, so nothing is saved. */
#include "ops/ops.h"

#include "tensor/tape.h"

#include <assert.h>

static void softcap_rows(const run *r, const void *ctx, int64_t i0, int64_t i1)
{
    const node *n = ctx;
    for (int64_t i = i0; i < i1; i++) {
        real *y = row(n->out, i);
        for (int64_t k = 0; k < cols(n->out); k++)
            y[k] = row(n->in[0], i)[k] / n->f[0];
        r->kern->activate(y, y, ACT_TANH, cols(n->out));
        for (int64_t k = 0; k < cols(n->out); k++)
            y[k] *= n->f[0];
    }
}

static void softcap_forward(run *r, const node *n)
{
    parallel(r, rows(n->out), 8 * cols(n->out), softcap_rows, n);
}

static void softcap_back_rows(const run *r, const void *ctx, int64_t i0, int64_t i1)
{
    const node *n = ctx;
    (void)r;
    const tensor *x = n->in[0];
    for (int64_t i = i0; i < i1; i++)
        for (int64_t k = 0; k < cols(x); k++) {
            const real t = row(n->out, i)[k] / n->f[0];
            grad_put(grad_row(x, i) + k, x->grad_written, grad_row(n->out, i)[k] * (1 - t * t));
        }
}

static void softcap_backward(run *r, const node *n)
{
    parallel_rows(r, n, softcap_back_rows);
}

static cost softcap_cost(const run *r, const node *n)
{
    (void)r;
    return cost_streaming(n, 10);
}

extern const op softcap_op;
const op softcap_op = { "softcap", "y = c tanh(x / c)", softcap_forward, softcap_backward,
                        softcap_cost };

tensor *softcap(run *r, tensor *x, real c)
{
    assert(c > 0);
    node n = { .op = &softcap_op, .in = { x }, .f = { c } };
    n.out = tensor_new(r, rows(x), cols(x));
    return apply(r, &n);
}
