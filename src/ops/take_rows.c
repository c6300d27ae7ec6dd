/* take_rows: the rows whose logits are wanted, so that the head is not computed for the others. */
#include "ops/ops.h"

#include <assert.h>
#include <string.h>

static void forward(run *r, const node *n)
{
    int64_t to = 0;
    for (int64_t i = 0; i < rows(n->in[0]); i++)
        if (r->batch->row[i].wanted)
            memcpy(row(n->out, to++), row(n->in[0], i), (size_t)cols(n->out) * sizeof(real));
    assert(to == rows(n->out));
}

static cost take_cost(const run *r, const node *n)
{
    (void)r;
    return (cost){ 0, 2.0 * (double)(rows(n->out) * cols(n->out)) * sizeof(real) };
}

extern const op take_rows_op;
const op take_rows_op = { "take_rows", forward, take_cost };

tensor *take_rows(run *r, tensor *x)
{
    node n = { .op = &take_rows_op, .in = { x } };
    n.out = tensor_new(r, r->batch->n_wanted, cols(x));
    return apply(r, &n);
}
