/* glu: y = act(x Wg^T + bg) * (x Wu^T + bu), the gated half of a feed-forward layer.
 *
 * One op, because a thread that owns some output features can make both products and combine them
 * without waiting for anybody. Equal to linear, linear, act, multiply (a test holds it to that). */
#include "ops/ops.h"

#include <assert.h>

enum { X, GATE, GATE_BIAS, UP, UP_BIAS, UP_OUT };

static void product(const run *r, const node *n, tensor *y, int w, int64_t o0, int64_t o1)
{
    const tensor *x = n->in[X];
    r->kern->matmul(row(y, 0), y->stride, row(x, 0), x->stride, rows(x), cols(x), n->in[w]->data,
                    dtype_row_bytes(n->in[w]->type, cols(x)), n->in[w]->type->tile,
                    values(n->in[w + 1]), o0, o1);
}

static void outputs(const run *r, const node *n, int64_t o0, int64_t o1)
{
    product(r, n, n->out, GATE, o0, o1);
    product(r, n, n->in[UP_OUT], UP, o0, o1);
    for (int64_t i = 0; i < rows(n->out); i++) {
        real *y = row(n->out, i) + o0;
        r->kern->act(y, y, (act_kind)n->i[0], o1 - o0);
        r->kern->mul(y, y, row(n->in[UP_OUT], i) + o0, o1 - o0);
    }
}

static void forward(run *r, const node *n)
{
    parallel(r, n, cols(n->out), 2 * rows(n->out) * cols(n->in[X]), outputs);
}

static cost glu_cost(const run *r, const node *n)
{
    (void)r;
    return cost_streaming(n, 4.0 * (double)cols(n->in[X]) + 9);
}

extern const op glu_op;
const op glu_op = { "glu", forward, glu_cost };

tensor *glu(run *r, tensor *x, const weight *gate, const weight *up, act_kind kind)
{
    assert(cols(x) == cols(gate->w) && rows(gate->w) == rows(up->w));
    node n = { .op = &glu_op, .local = "glu", .i = { kind } };
    n.out = tensor_new(r, rows(x), rows(gate->w));
    tensor *up_out = tensor_new(r, rows(x), rows(up->w));
    tensor *in[MAX_INPUT] = { x, gate->w, gate->b, up->w, up->b, up_out };
    for (int i = 0; i < MAX_INPUT; i++)
        n.in[i] = in[i];
    return apply(r, &n);
}
