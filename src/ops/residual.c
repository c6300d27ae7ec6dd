/* residual: x += h, the only op that may overwrite its input.      dx = dy, dh = dy
 *
 * It works in place if x was made inside this block: then nothing outside refers to it, and the
 * block's caller still has its own x. Otherwise it makes a new tensor, so that the block's input
 * stays unchanged.
 *
 * In training, dropout applies to a block's branch before the addition, as in every transformer
 * family. */
#include "ops/ops.h"

#include "tensor/tape.h"

#include <assert.h>

static void residual_rows(const run *r, const void *ctx, int64_t i0, int64_t i1)
{
    const node *n = ctx;
    for (int64_t i = i0; i < i1; i++)
        r->kern->add(row(n->out, i), row(n->in[1], i), row(n->in[0], i), cols(n->out));
}

static void residual_forward(run *r, const node *n)
{
    parallel_rows(r, n, residual_rows);
}

static void residual_back_rows(const run *r, const void *ctx, int64_t i0, int64_t i1)
{
    const node *n = ctx;
    (void)r;
    for (int64_t i = i0; i < i1; i++)
        for (int in = 0; in < 2; in++)
            for (int64_t k = 0; n->in[in]->needs_grad && k < cols(n->out); k++)
                grad_put(grad_row(n->in[in], i) + k, n->in[in]->grad_written,
                         grad_row(n->out, i)[k]);
}

static void residual_backward(run *r, const node *n)
{
    parallel_rows(r, n, residual_back_rows);
}

static cost residual_cost(const run *r, const node *n)
{
    (void)r;
    return cost_streaming(n, 1);
}

extern const op residual_op;
const op residual_op = { "residual", "y = x + h", residual_forward, residual_backward,
                         residual_cost };

void residual(run *r, tensor **x, tensor *h)
{
    assert(rows(*x) == rows(h) && cols(*x) == cols(h));
    if (r->training && r->dropout > 0 && r->at.scope[0])
        h = dropout(r, h, r->dropout);
    const bool in_place = (*x)->born == r->at.block && !r->tape;
    node n = { .op = &residual_op, .in = { h, *x } };
    n.out = tensor_new(r, rows(h), in_place ? 0 : cols(h));
    if (in_place) {
        n.out->shape[1] = n.out->stride = cols(h);
        n.out->data = (*x)->data;
    }
    *x = apply(r, &n);
}
