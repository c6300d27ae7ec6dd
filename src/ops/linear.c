/* linear: y = x W^T + b.
 *
 * Threads split the output features, so that each row of W is produced from its stored format once
 * and multiplied with every row of x. */
#include "ops/ops.h"

#include <assert.h>

static void outputs(const run *r, const node *n, int64_t o0, int64_t o1)
{
    const tensor *x = n->in[0], *w = n->in[1];
    r->kern->matmul(row(n->out, 0), n->out->stride, row(x, 0), x->stride, rows(x), cols(x), w->data,
                    dtype_row_bytes(w->type, cols(w)), w->type->tile, values(n->in[2]), o0, o1);
}

static void forward(run *r, const node *n)
{
    parallel(r, n, cols(n->out), rows(n->in[0]) * cols(n->in[0]), outputs);
}

static cost linear_cost(const run *r, const node *n)
{
    (void)r;
    return cost_streaming(n, 2.0 * (double)cols(n->in[0]));
}

extern const op linear_op;
const op linear_op = { "linear", forward, linear_cost };

tensor *linear(run *r, tensor *x, const weight *w)
{
    assert(cols(x) == cols(w->w));
    node n = { .op = &linear_op, .label = w->name, .in = { x, w->w, w->b } };
    n.out = tensor_new(r, rows(x), rows(w->w));
    return apply(r, &n);
}
