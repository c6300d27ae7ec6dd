/* linear: y = x W^T + b
 *
 *     dx = dy W        dW = dy^T x        db = sum of dy over rows
 *
 * Quantised weights are frozen, so only dx goes through them. Adapters: adapt.h. */
#include "ops/adapt.h"
#include "ops/ops.h"

#include <assert.h>

enum { X, W, BIAS };

static void linear_forward(run *r, const node *n)
{
    product(r, whole(n->out), whole(n->in[X]), n->in[W], n->in[BIAS]);
}

static void linear_backward(run *r, const node *n)
{
    const tensor *x = n->in[X];
    product_back(r, x, x->grad_written, whole(n->out), whole_grad(n->out), n->in[W], n->in[BIAS],
                 false);
}

static cost linear_cost(const run *r, const node *n)
{
    (void)r;
    return cost_streaming(n, 2.0 * (double)cols(n->in[0]));
}

extern const op linear_op;
const op linear_op = { "linear", "y = x W^T + b", linear_forward, linear_backward, linear_cost };

tensor *linear(run *r, tensor *x, const weight *w)
{
    assert(cols(x) == cols(w->w));
    node n = { .op = &linear_op, .label = w->name, .in = { x, w->w, w->b } };
    n.out = tensor_new(r, rows(x), rows(w->w));
    product_plan(r, rows(x), w->w);
    adapt_inputs(r, &n, w->w, false);
    return apply(r, &n);
}
