/* linear: y = x W^T + b
 *
 *     dx = dy W        dW = dy^T x        db = sum of dy over rows
 *
 * Threads split the output features, so that each row of W is produced from its stored format once
 * and multiplied with every row of x. */
#include "ops/ops.h"

#include "tensor/tape.h"

#include <assert.h>

static void outputs(const run *r, const node *n, int64_t o0, int64_t o1)
{
    const tensor *x = n->in[0], *w = n->in[1];
    r->kern->matmul(row(n->out, 0), n->out->stride, row(x, 0), x->stride, rows(x), cols(x), w->data,
                    dtype_row_bytes(w->type, cols(w)), dtype_tile(w->type, r->kern),
                    values(n->in[2]), o0, o1);
}

static void forward(run *r, const node *n)
{
    parallel(r, n, cols(n->out), rows(n->in[0]) * cols(n->in[0]), outputs);
}

static void input_rows(const run *r, const node *n, int64_t i0, int64_t i1)
{
    const tensor *x = n->in[0], *w = n->in[1], *y = n->out;
    r->kern->matmul_dx(x->grad, x->stride, x->grad_written, y->grad, y->stride, i0, i1, cols(y),
                       cols(x), w->data, dtype_row_bytes(w->type, cols(w)),
                       dtype_tile(w->type, r->kern));
}

static void weight_rows(const run *r, const node *n, int64_t o0, int64_t o1)
{
    const tensor *x = n->in[0], *w = n->in[1], *y = n->out;
    r->kern->matmul_dw(w->grad, w->grad_written, y->grad, y->stride, row(x, 0), x->stride, rows(x),
                       cols(x), o0, o1);
}

static void bias_columns(const run *r, const node *n, int64_t o0, int64_t o1)
{
    (void)r;
    const tensor *b = n->in[2];
    for (int64_t o = o0; o < o1; o++) {
        real sum = 0;
        for (int64_t i = 0; i < rows(n->out); i++)
            sum += grad_row(n->out, i)[o];
        grad_put(&b->grad[o], b->grad_written, sum);
    }
}

/* Quantised weights are frozen, so only dx goes through them. */
static void backward(run *r, const node *n)
{
    const tensor *x = n->in[0], *w = n->in[1], *b = n->in[2], *y = n->out;
    if (x->needs_grad)
        parallel(r, n, rows(x), cols(x) * cols(y), input_rows);
    if (w->needs_grad)
        parallel(r, n, rows(w), cols(x) * rows(x), weight_rows);
    if (b && b->needs_grad)
        parallel(r, n, cols(y), rows(y), bias_columns);
}

static cost linear_cost(const run *r, const node *n)
{
    (void)r;
    return cost_streaming(n, 2.0 * (double)cols(n->in[0]));
}

extern const op linear_op;
const op linear_op = { "linear", forward, backward, linear_cost };

tensor *linear(run *r, tensor *x, const weight *w)
{
    assert(cols(x) == cols(w->w));
    node n = { .op = &linear_op, .label = w->name, .in = { x, w->w, w->b } };
    n.out = tensor_new(r, rows(x), rows(w->w));
    return apply(r, &n);
}
