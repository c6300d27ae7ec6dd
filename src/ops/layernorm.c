/* layernorm: y = (x - mean) / sqrt(var + eps) * w + b, mean and variance over the row. */
#include "ops/ops.h"

#include <assert.h>

static void norm_rows(const run *r, const node *n, int64_t i0, int64_t i1)
{
    for (int64_t i = i0; i < i1; i++)
        r->kern->layernorm(row(n->out, i), row(n->in[0], i), values(n->in[1]), values(n->in[2]),
                           n->f[0], cols(n->out));
}

static void forward(run *r, const node *n)
{
    parallel_rows(r, n, norm_rows);
}

static cost norm_cost(const run *r, const node *n)
{
    (void)r;
    return cost_streaming(n, 7);
}

extern const op layernorm_op;
const op layernorm_op = { "layernorm", forward, norm_cost };

tensor *layernorm(run *r, tensor *x, const weight *w, real eps)
{
    assert(cols(x) == cols(w->w));
    node n = { .op = &layernorm_op, .label = w->name, .in = { x, w->w, w->b }, .f = { eps } };
    n.out = tensor_new(r, rows(x), cols(x));
    return apply(r, &n);
}
