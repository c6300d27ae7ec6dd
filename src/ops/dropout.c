/* dropout: y = x m / (1 - p), m = 0 with probability p.          dx = dy m / (1 - p)
 *
 * The mask is a function of the step's key, the block, the dropout's number inside it, and the
 * element: nothing is stored, and a block that is called again in backward draws the same one. */
#include "ops/ops.h"

#include "base/rng.h"
#include "tensor/tape.h"

#include <assert.h>

static real factor(const run *r, const node *n, int64_t element)
{
    const real u = rng_uniform(r->key, (uint64_t)n->i[0], (uint64_t)element);
    return u < n->f[0] ? 0 : 1 / (1 - n->f[0]);
}

static void drop_rows(const run *r, const node *n, int64_t i0, int64_t i1)
{
    const int64_t D = cols(n->out);
    for (int64_t i = i0; i < i1; i++)
        for (int64_t k = 0; k < D; k++)
            row(n->out, i)[k] = row(n->in[0], i)[k] * factor(r, n, i * D + k);
}

static void forward(run *r, const node *n)
{
    parallel(r, n, rows(n->out), 8 * cols(n->out), drop_rows);
}

static void back_rows(const run *r, const node *n, int64_t i0, int64_t i1)
{
    const tensor *x = n->in[0];
    const int64_t D = cols(x);
    for (int64_t i = i0; i < i1; i++)
        for (int64_t k = 0; k < D; k++)
            grad_put(grad_row(x, i) + k, x->grad_written,
                     grad_row(n->out, i)[k] * factor(r, n, i * D + k));
}

static void backward(run *r, const node *n)
{
    parallel(r, n, rows(n->out), 8 * cols(n->out), back_rows);
}

static cost drop_cost(const run *r, const node *n)
{
    (void)r;
    return cost_streaming(n, 10);
}

extern const op dropout_op;
const op dropout_op = { "dropout", "y = x m / (1 - p),  m = 0 with probability p", forward,
                        backward, drop_cost };

tensor *dropout(run *r, tensor *x, real p)
{
    assert(p > 0 && p < 1);
    node n = { .op = &dropout_op, .in = { x }, .f = { p } };
    n.i[0] = r->block << 16 | r->n_drop++;
    n.out = tensor_new(r, rows(x), cols(x));
    return apply(r, &n);
}
