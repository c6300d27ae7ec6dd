/* glu: y = a(g) u,  g = x Wg^T + bg,  u = x Wu^T + bu: the gated half of a feed-forward layer.
 *
 *     dg = dy u a'(g)     du = dy a(g)     dx = dg Wg + du Wu     dWg = dg^T x     dWu = du^T x
 *
 * One op, because a thread that owns some output features can make both products and combine them
 * without waiting for anybody. Equal to linear, linear, act, multiply (a test holds it to that).
 * Backward writes dg and du over g and u, which nobody needs any more. */
#include "ops/ops.h"

#include "tensor/tape.h"

#include <assert.h>

enum { X, GATE, GATE_BIAS, UP, UP_BIAS };
enum { G, U }; /* saved; without recording, g is made where y goes */

static void product(const run *r, const node *n, tensor *y, int w, int64_t o0, int64_t o1)
{
    const tensor *x = n->in[X];
    r->kern->matmul(row(y, 0), y->stride, row(x, 0), x->stride, rows(x), cols(x), n->in[w]->data,
                    dtype_row_bytes(n->in[w]->type, cols(x)), dtype_tile(n->in[w]->type, r->kern),
                    values(n->in[w + 1]), o0, o1);
}

static void outputs(const run *r, const node *n, int64_t o0, int64_t o1)
{
    tensor *g = n->save[G] ? n->save[G] : n->out, *u = n->save[U];
    product(r, n, g, GATE, o0, o1);
    product(r, n, u, UP, o0, o1);
    for (int64_t i = 0; i < rows(n->out); i++) {
        real *y = row(n->out, i) + o0;
        r->kern->act(y, row(g, i) + o0, (act_kind)n->i[0], o1 - o0);
        r->kern->mul(y, y, row(u, i) + o0, o1 - o0);
    }
}

static void forward(run *r, const node *n)
{
    parallel(r, n, cols(n->out), 2 * rows(n->out) * cols(n->in[X]), outputs);
}

#define PIECE 256 /* columns at a time, on the stack */

/* g and u become dg and du. */
static void split_rows(const run *r, const node *n, int64_t i0, int64_t i1)
{
    const act_kind kind = (act_kind)n->i[0];
    for (int64_t i = i0; i < i1; i++) {
        for (int64_t c = 0; c < cols(n->out); c += PIECE) {
            real *g = row(n->save[G], i) + c, *u = row(n->save[U], i) + c;
            const real *dy = grad_row(n->out, i) + c;
            const int64_t w = cols(n->out) - c < PIECE ? cols(n->out) - c : PIECE;
            real a[PIECE], through[PIECE];
            r->kern->act(a, g, kind, w);
            r->kern->mul(through, dy, u, w);
            r->kern->act_back(g, g, through, kind, w);
            r->kern->mul(u, dy, a, w);
        }
    }
}

static void product_back(const run *r, const node *n, int which, int w, int64_t i0, int64_t i1,
                         bool add)
{
    const tensor *x = n->in[X], *d = n->save[which];
    r->kern->matmul_dx(x->grad, x->stride, add, row(d, 0), d->stride, i0, i1, cols(d), cols(x),
                       n->in[w]->data, dtype_row_bytes(n->in[w]->type, cols(x)),
                       dtype_tile(n->in[w]->type, r->kern));
}

static void input_rows(const run *r, const node *n, int64_t i0, int64_t i1)
{
    product_back(r, n, G, GATE, i0, i1, n->in[X]->grad_written);
    product_back(r, n, U, UP, i0, i1, true);
}

static void weight_rows(const run *r, const node *n, int64_t o0, int64_t o1)
{
    const tensor *x = n->in[X];
    for (int which = G; which <= U; which++) {
        const tensor *d = n->save[which], *w = n->in[which == G ? GATE : UP];
        const tensor *b = n->in[which == G ? GATE_BIAS : UP_BIAS];
        if (w->needs_grad)
            r->kern->matmul_dw(w->grad, w->grad_written, row(d, 0), d->stride, row(x, 0), x->stride,
                               rows(x), cols(x), o0, o1);
        for (int64_t o = o0; b && b->needs_grad && o < o1; o++) {
            real sum = 0;
            for (int64_t i = 0; i < rows(d); i++)
                sum += row(d, i)[o];
            grad_put(&b->grad[o], b->grad_written, sum);
        }
    }
}

static void backward(run *r, const node *n)
{
    const int64_t D = cols(n->in[X]), F = cols(n->out), N = rows(n->out);
    parallel(r, n, N, 16 * F, split_rows);
    if (n->in[X]->needs_grad)
        parallel(r, n, N, 2 * D * F, input_rows);
    parallel(r, n, F, 2 * D * N, weight_rows);
}

static cost glu_cost(const run *r, const node *n)
{
    (void)r;
    return cost_streaming(n, 4.0 * (double)cols(n->in[X]) + 9);
}

extern const op glu_op;
const op glu_op = { "glu", forward, backward, glu_cost };

tensor *glu(run *r, tensor *x, const weight *gate, const weight *up, act_kind kind)
{
    assert(cols(x) == cols(gate->w) && rows(gate->w) == rows(up->w));
    node n = { .op = &glu_op, .local = "glu", .i = { kind } };
    tensor *in[MAX_INPUT] = { x, gate->w, gate->b, up->w, up->b };
    for (int i = 0; i < MAX_INPUT; i++)
        n.in[i] = in[i];
    n.out = tensor_new(r, rows(x), rows(gate->w));
    n.save[U] = tensor_new(r, rows(x), rows(up->w));
    if (r->tape)
        n.save[G] = tensor_new(r, rows(x), rows(gate->w));
    return apply(r, &n);
}
