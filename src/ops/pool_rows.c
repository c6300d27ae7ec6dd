/* pool_rows: one row per sequence: the mean or maximum of its rows, its first, or its last. Rows
 * are taken in ascending order; a sequence without rows gives zeros. */
#include "ops/ops.h"

#include <string.h>

static void pool_one(const run *r, const node *n, int64_t s, real *y)
{
    const sequence *seq = &r->batch->seq[s];
    const tensor *x = n->in[0];
    const pool_kind kind = (pool_kind)n->i[0];
    const int64_t width = cols(x);
    memset(y, 0, (size_t)width * sizeof *y);
    if (seq->n == 0)
        return;
    const int64_t only = kind == POOL_LAST ? seq->first + seq->n - 1 : seq->first;
    memcpy(y, row(x, only), (size_t)width * sizeof *y);
    if (kind == POOL_FIRST || kind == POOL_LAST)
        return;

    for (int64_t i = seq->first + 1; i < seq->first + seq->n; i++)
        for (int64_t k = 0; k < width; k++)
            y[k] = kind == POOL_MEAN ? y[k] + row(x, i)[k] : fmax(y[k], row(x, i)[k]);
    for (int64_t k = 0; kind == POOL_MEAN && k < width; k++)
        y[k] /= (real)seq->n;
}

static void forward(run *r, const node *n)
{
    for (int64_t s = 0; s < rows(n->out); s++)
        pool_one(r, n, s, row(n->out, s));
}

static cost pool_cost(const run *r, const node *n)
{
    (void)r;
    return cost_streaming(n, 1);
}

extern const op pool_rows_op;
const op pool_rows_op = { "pool_rows", forward, pool_cost };

tensor *pool_rows(run *r, tensor *x, pool_kind kind)
{
    node n = { .op = &pool_rows_op, .in = { x }, .i = { kind } };
    n.out = tensor_new(r, r->batch->n_seq, cols(x));
    return apply(r, &n);
}
