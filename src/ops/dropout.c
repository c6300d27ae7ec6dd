/* dropout: y = x m / (1 - p), m = 0 with probability p.          dx = dy m / (1 - p)
 *
 * The mask is a function of the step's key, the block, the dropout's number inside it, and the
 * element. So nothing is stored, and a block recomputed in backward draws the same mask. */
#include "ops/ops.h"

#include "base/rng.h"
#include "tensor/tape.h"

#include <assert.h>

/* Four elements share a draw. */
typedef struct mask {
    uint64_t key, stream, at;
    real p;
    rng_block draw;
} mask;

static mask dropout_mask(const run *r, const node *n)
{
    return (mask){ .key = r->key, .stream = (uint64_t)n->i[0], .at = UINT64_MAX, .p = n->f[0] };
}

static real dropout_factor(mask *m, int64_t element)
{
    const uint64_t at = (uint64_t)element >> 2;
    if (at != m->at)
        m->draw = rng_draw(m->key, m->stream, at);
    m->at = at;
    return rng_unit(m->draw.word[element & 3]) < m->p ? 0 : 1 / (1 - m->p);
}

static void dropout_rows(const run *r, const void *ctx, int64_t i0, int64_t i1)
{
    const node *n = ctx;
    const int64_t D = cols(n->out);
    mask m = dropout_mask(r, n);
    for (int64_t i = i0; i < i1; i++)
        for (int64_t k = 0; k < D; k++)
            row(n->out, i)[k] = row(n->in[0], i)[k] * dropout_factor(&m, i * D + k);
}

static void dropout_forward(run *r, const node *n)
{
    parallel(r, rows(n->out), 8 * cols(n->out), dropout_rows, n);
}

static void dropout_back_rows(const run *r, const void *ctx, int64_t i0, int64_t i1)
{
    const node *n = ctx;
    const tensor *x = n->in[0];
    const int64_t D = cols(x);
    mask m = dropout_mask(r, n);
    for (int64_t i = i0; i < i1; i++)
        for (int64_t k = 0; k < D; k++)
            grad_put(grad_row(x, i) + k, x->grad_written,
                     grad_row(n->out, i)[k] * dropout_factor(&m, i * D + k));
}

static void dropout_backward(run *r, const node *n)
{
    parallel(r, rows(n->out), 8 * cols(n->out), dropout_back_rows, n);
}

static cost dropout_cost(const run *r, const node *n)
{
    (void)r;
    return cost_streaming(n, 10);
}

extern const op dropout_op;
const op dropout_op = { "dropout", "y = x m / (1 - p),  m = 0 with probability p", dropout_forward,
                        dropout_backward, dropout_cost };

tensor *dropout(run *r, tensor *x, real p)
{
    assert(p > 0 && p < 1);
    node n = { .op = &dropout_op, .in = { x }, .f = { p } };
    n.i[0] = r->at.block << 16 | r->at.n_drop++;
    n.out = tensor_new(r, rows(x), cols(x));
    return apply(r, &n);
}
