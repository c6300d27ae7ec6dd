/* put_row: one row of every sequence is a learned vector: y_i = v where pos_i = p, x_i elsewhere.
 *
 *     dv = sum of dy_i over the rows with pos_i = p, in ascending order
 *     dx_i = 0 there, dy_i elsewhere */
#include "ops/ops.h"

#include "tensor/tape.h"

#include <string.h>

static bool is_here(const run *r, const node *n, int64_t i)
{
    return r->at.batch->row[i].pos == n->i[0];
}

static void put_rows(const run *r, const void *ctx, int64_t i0, int64_t i1)
{
    const node *n = ctx;
    const tensor *x = n->in[0], *v = n->in[1];
    for (int64_t i = i0; i < i1; i++)
        if (is_here(r, n, i))
            v->type->decode(row(n->out, i), v->data, 0, cols(x));
        else
            memcpy(row(n->out, i), row(x, i), (size_t)cols(x) * sizeof(real));
}

static void put_row_forward(run *r, const node *n)
{
    parallel_rows(r, n, put_rows);
}

static void put_row_back_x(const run *r, const void *ctx, int64_t i0, int64_t i1)
{
    const node *n = ctx;
    const tensor *x = n->in[0];
    for (int64_t i = i0; i < i1; i++)
        for (int64_t k = 0; k < cols(x); k++)
            grad_put(grad_row(x, i) + k, x->grad_written,
                     is_here(r, n, i) ? 0 : grad_row(n->out, i)[k]);
}

static void put_row_back_v(const run *r, const void *ctx, int64_t c0, int64_t c1)
{
    const node *n = ctx;
    const tensor *v = n->in[1];
    for (int64_t c = c0; !v->grad_written && c < c1; c++)
        v->grad[c] = 0;
    for (int64_t i = 0; i < rows(n->out); i++)
        if (is_here(r, n, i))
            r->kern->axpy(v->grad + c0, 1, grad_row(n->out, i) + c0, c1 - c0);
}

static void put_row_backward(run *r, const node *n)
{
    if (n->in[0]->needs_grad)
        parallel_rows(r, n, put_row_back_x);
    if (n->in[1]->needs_grad)
        parallel(r, cols(n->out), rows(n->out), put_row_back_v, n);
}

static cost put_row_cost(const run *r, const node *n)
{
    (void)r;
    return cost_streaming(n, 0);
}

extern const op put_row_op;
const op put_row_op = { "put_row", "y = v at one position, x elsewhere", put_row_forward,
                        put_row_backward, put_row_cost };

tensor *put_row(run *r, tensor *x, tensor *v, int64_t pos)
{
    node n = { .op = &put_row_op, .label = v->name, .in = { x, v }, .i = { pos } };
    n.out = tensor_new(r, rows(x), cols(x));
    return apply(r, &n);
}
