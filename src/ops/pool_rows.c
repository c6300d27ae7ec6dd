/* pool_rows: one row per sequence: the mean or maximum of its rows, its first, or its last. Rows
 * are taken in ascending order; a sequence without rows gives zeros.
 *
 *     dx_i = dy / n (mean), dy where row i was the largest (max), dy for the one row taken, or 0 */
#include "ops/ops.h"

#include "tensor/tape.h"

#include <string.h>

static void pool_one(const run *r, const node *n, int64_t s, real *y)
{
    const sequence *seq = &r->at.batch->seq[s];
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

static void pool_rows_forward(run *r, const node *n)
{
    for (int64_t s = 0; s < rows(n->out); s++)
        pool_one(r, n, s, row(n->out, s));
}

/* The row of a sequence with the largest value in column k: the first of equals. */
static int64_t pool_winner(const tensor *x, const sequence *s, int64_t k)
{
    int64_t best = s->first;
    for (int64_t i = s->first + 1; i < s->first + s->n; i++)
        if (row(x, i)[k] > row(x, best)[k])
            best = i;
    return best;
}

static void pool_rows_backward(run *r, const node *n)
{
    const tensor *x = n->in[0];
    const pool_kind kind = (pool_kind)n->i[0];
    for (int64_t s = 0; s < rows(n->out); s++) {
        const sequence *seq = &r->at.batch->seq[s];
        const int64_t last = seq->first + seq->n - 1;
        for (int64_t i = seq->first; i <= last; i++)
            for (int64_t k = 0; k < cols(x); k++) {
                const real dy = grad_row(n->out, s)[k];
                const bool takes = kind == POOL_FIRST  ? i == seq->first
                                   : kind == POOL_LAST ? i == last
                                   : kind == POOL_MAX  ? i == pool_winner(x, seq, k)
                                                       : true;
                grad_put(grad_row(x, i) + k, x->grad_written,
                         !takes              ? 0
                         : kind == POOL_MEAN ? dy / (real)seq->n
                                             : dy);
            }
    }
}

static cost pool_cost(const run *r, const node *n)
{
    (void)r;
    return cost_streaming(n, 1);
}

extern const op pool_rows_op;
const op pool_rows_op = { "pool_rows", "y = mean, max, first or last of the rows of a sequence",
                          pool_rows_forward, pool_rows_backward, pool_cost };

tensor *pool_rows(run *r, tensor *x, pool_kind kind)
{
    node n = { .op = &pool_rows_op, .in = { x }, .i = { kind } };
    n.out = tensor_new(r, r->at.batch->n_seq, cols(x));
    return apply(r, &n);
}
