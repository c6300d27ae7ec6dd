/* rmsnorm: y = x / sqrt(mean x^2 + eps) * w.
 *
 * The mean runs over groups of as many numbers as w has: the whole row for a block's norm, one head
 * at a time for the norms of q and k. */
#include "ops/ops.h"

#include <assert.h>

static void norm_rows(const run *r, const node *n, int64_t i0, int64_t i1)
{
    const int64_t width = cols(n->in[1]);
    for (int64_t i = i0; i < i1; i++)
        for (int64_t c = 0; c < cols(n->out); c += width)
            r->kern->rmsnorm(row(n->out, i) + c, row(n->in[0], i) + c, values(n->in[1]), n->f[0],
                             width);
}

static void forward(run *r, const node *n)
{
    parallel_rows(r, n, norm_rows);
}

static cost norm_cost(const run *r, const node *n)
{
    (void)r;
    return cost_streaming(n, 4);
}

extern const op rmsnorm_op;
const op rmsnorm_op = { "rmsnorm", forward, norm_cost };

tensor *rmsnorm(run *r, tensor *x, tensor *w, real eps)
{
    assert(cols(x) % cols(w) == 0);
    node n = { .op = &rmsnorm_op, .label = w->name, .in = { x, w }, .f = { eps } };
    n.out = tensor_new(r, rows(x), cols(x));
    return apply(r, &n);
}
