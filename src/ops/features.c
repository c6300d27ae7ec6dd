/* features: y_i = the vector that row i of the batch has instead of a token. It is input data, so
 * it has no gradient. */
#include "ops/ops.h"

#include <string.h>

static void features_forward(run *r, const node *n)
{
    memcpy(n->out->data, r->at.batch->features,
           (size_t)(rows(n->out) * cols(n->out)) * sizeof(real));
}

static cost features_cost(const run *r, const node *n)
{
    (void)r;
    return (cost){ .bytes = 2.0 * (double)(rows(n->out) * cols(n->out)) * sizeof(real) };
}

extern const op features_op;
const op features_op = { "features", "y = the vectors of the batch", features_forward, NULL,
                         features_cost };

tensor *features(run *r, int64_t d)
{
    node n = { .op = &features_op, .local = "features" };
    n.out = tensor_new(r, r->at.batch->n_row, d);
    return apply(r, &n);
}
