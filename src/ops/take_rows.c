/* take_rows: the rows whose logits are wanted, so that the head is not computed for the others.
 *
 *     dx_i = dy of the row it became, or 0 */
#include "ops/ops.h"

#include "tensor/tape.h"

#include <assert.h>
#include <string.h>

static void take_rows_forward(run *r, const node *n)
{
    int64_t to = 0;
    for (int64_t i = 0; i < rows(n->in[0]); i++)
        if (r->at.batch->row[i].wanted)
            memcpy(row(n->out, to++), row(n->in[0], i), (size_t)cols(n->out) * sizeof(real));
    assert(to == rows(n->out));
}

static void take_rows_backward(run *r, const node *n)
{
    const tensor *x = n->in[0];
    int64_t from = 0;
    for (int64_t i = 0; i < rows(x); i++) {
        const bool wanted = r->at.batch->row[i].wanted;
        for (int64_t k = 0; k < cols(x); k++)
            grad_put(grad_row(x, i) + k, x->grad_written, wanted ? grad_row(n->out, from)[k] : 0);
        from += wanted;
    }
}

static cost take_rows_cost(const run *r, const node *n)
{
    (void)r;
    return (cost){ .bytes = 2.0 * (double)(rows(n->out) * cols(n->out)) * sizeof(real) };
}

extern const op take_rows_op;
const op take_rows_op = { "take_rows", "y = the rows of x whose logits are wanted",
                          take_rows_forward, take_rows_backward, take_rows_cost };

tensor *take_rows(run *r, tensor *x)
{
    node n = { .op = &take_rows_op, .in = { x } };
    n.out = tensor_new(r, r->at.batch->n_wanted, cols(x));
    return apply(r, &n);
}
