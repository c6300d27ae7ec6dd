/* ops.c - what most ops share: the cost of reading and writing once, and rows in parallel. */
#include "ops/ops.h"

static double tensor_bytes(const tensor *t)
{
    double n = 1;
    for (int d = 0; d < t->n_dim; d++)
        n *= (double)t->shape[d];
    return n / t->type->block * t->type->bytes;
}

cost cost_streaming(const node *n, double per)
{
    cost c = { .flops = per * (double)(rows(n->out) * cols(n->out)),
               .bytes = tensor_bytes(n->out) };
    for (int i = 0; i < MAX_INPUT; i++)
        if (n->in[i])
            c.bytes += tensor_bytes(n->in[i]);
    return c;
}

void parallel_rows(const run *r, const node *n, range_fn *fn)
{
    parallel(r, rows(n->out), cols(n->out), fn, n);
}
