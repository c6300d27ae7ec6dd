/* slice: y = x[:, c0 .. c0 + n), a view with the stride of x. Splits a fused projection into q, k
 * and v. dy lies inside dx as y lies inside x, so backward is empty. */
#include "ops/ops.h"

#include <assert.h>

static void slice_forward(run *r, const node *n)
{
    (void)r;
    n->out->data = row(n->in[0], 0) + n->i[0];
}

static void slice_backward(run *r, const node *n)
{
    (void)r, (void)n;
}

static cost slice_cost(const run *r, const node *n)
{
    (void)r, (void)n;
    return (cost){ .bytes = 0 };
}

extern const op slice_op;
const op slice_op = { "slice", "y = columns of x", slice_forward, slice_backward, slice_cost };

tensor *slice(run *r, tensor *x, const char *name, int64_t c0, int64_t width)
{
    assert(c0 >= 0 && width > 0 && c0 + width <= cols(x));
    node n = { .op = &slice_op, .local = name, .in = { x }, .i = { c0 } };
    n.out = tensor_new(r, rows(x), 0);
    n.out->shape[1] = width;
    n.out->stride = x->stride;
    n.out->whole = x;
    return apply(r, &n);
}
