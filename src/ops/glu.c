/* glu: y = a(g) u,  g = x Wg^T + bg,  u = x Wu^T + bu: the gated half of a feed-forward layer.
 *
 *     dg = dy u a'(g)     du = dy a(g)     dx = dg Wg + du Wu     dWg = dg^T x     dWu = du^T x
 *
 * Equal to linear, linear, act, multiply (a test checks this). Backward overwrites y with dg and dy
 * with du, since they are no longer needed: gains of adapters need g and u. */
#include "ops/adapt.h"
#include "ops/ops.h"

#include <assert.h>

enum { X, GATE, GATE_BIAS, UP, UP_BIAS };
enum { G, U }; /* saved; without recording, g shares the memory of y */

static void glu_rows(const run *r, const void *ctx, int64_t i0, int64_t i1)
{
    const node *n = ctx;
    const tensor *g = n->save[G] ? n->save[G] : n->out;
    for (int64_t i = i0; i < i1; i++) {
        r->kern->activate(row(n->out, i), row(g, i), (act_kind)n->i[0], cols(n->out));
        r->kern->mul(row(n->out, i), row(n->out, i), row(n->save[U], i), cols(n->out));
    }
}

static void glu_forward(run *r, const node *n)
{
    const tensor *g = n->save[G] ? n->save[G] : n->out;
    product(r, whole(g), whole(n->in[X]), n->in[GATE], n->in[GATE_BIAS]);
    product(r, whole(n->save[U]), whole(n->in[X]), n->in[UP], n->in[UP_BIAS]);
    parallel(r, rows(n->out), 8 * cols(n->out), glu_rows, n);
}

#define PIECE 256 /* columns at a time, on the stack */

/* Replaces y and dy by dg and du. */
static void glu_back_rows(const run *r, const void *ctx, int64_t i0, int64_t i1)
{
    const node *n = ctx;
    const act_kind kind = (act_kind)n->i[0];
    for (int64_t i = i0; i < i1; i++) {
        for (int64_t c = 0; c < cols(n->out); c += PIECE) {
            const real *g = row(n->save[G], i) + c, *u = row(n->save[U], i) + c;
            real *dg = row(n->out, i) + c, *dy = grad_row(n->out, i) + c;
            const int64_t w = cols(n->out) - c < PIECE ? cols(n->out) - c : PIECE;
            real a[PIECE], through[PIECE];
            r->kern->activate(a, g, kind, w);
            r->kern->mul(through, dy, u, w);
            r->kern->activate_back(dg, g, through, kind, w);
            r->kern->mul(dy, dy, a, w); /* now du */
        }
    }
}

static void glu_backward(run *r, const node *n)
{
    parallel(r, rows(n->out), 16 * cols(n->out), glu_back_rows, n);
    const tensor *x = n->in[X];
    const matrix dg = some_rows(whole(n->out), 0, rows(n->out)), du = whole_grad(n->out);
    product_back(r, x, x->grad_written, whole(n->save[G]), dg, n->in[GATE], n->in[GATE_BIAS],
                 false);
    product_back(r, x, true, whole(n->save[U]), du, n->in[UP], n->in[UP_BIAS],
                 product_shares_a(r, n->in[GATE], n->in[UP]));
}

static cost glu_cost(const run *r, const node *n)
{
    (void)r;
    return cost_streaming(n, 4.0 * (double)cols(n->in[X]) + 9);
}

extern const op glu_op;
const op glu_op = { "glu", "y = act(x Wg^T + bg) * (x Wu^T + bu)", glu_forward, glu_backward,
                    glu_cost };

/* ---- opened, only for a trace ---------------------------------------------------------------- */

static void glu_join_rows(const run *r, const void *ctx, int64_t i0, int64_t i1)
{
    const node *n = ctx;
    for (int64_t i = i0; i < i1; i++)
        r->kern->mul(row(n->out, i), row(n->in[0], i), row(n->in[1], i), cols(n->out));
}

static void glu_join_forward(run *r, const node *n)
{
    parallel_rows(r, n, glu_join_rows);
}

static cost glu_join_cost(const run *r, const node *n)
{
    (void)r;
    return cost_streaming(n, 1);
}

extern const op glu_join_op;
const op glu_join_op = { "glu_join", "y = act(g) * u", glu_join_forward, NULL, glu_join_cost };

/* The same as separate ops, which have names and can be hooked. */
static tensor *glu_opened(run *r, tensor *x, const weight *gate, const weight *up, act_kind kind)
{
    tensor *g = linear(r, x, gate); /* [N, F] */
    g = act(r, g, kind);
    tensor *u = linear(r, x, up); /* [N, F] */
    node n = { .op = &glu_join_op, .local = "glu", .in = { g, u } };
    n.out = tensor_new(r, rows(g), cols(g));
    return apply(r, &n);
}

tensor *glu(run *r, tensor *x, const weight *gate, const weight *up, act_kind kind)
{
    assert(cols(x) == cols(gate->w) && rows(gate->w) == rows(up->w));
    if (r->show.open && !r->tape)
        return glu_opened(r, x, gate, up, kind);
    node n = { .op = &glu_op, .local = "glu", .i = { kind } };
    tensor *in[MAX_INPUT] = { x, gate->w, gate->b, up->w, up->b };
    for (int i = 0; i < MAX_INPUT; i++)
        n.in[i] = in[i];
    n.out = tensor_new(r, rows(x), rows(gate->w));
    n.save[U] = tensor_new(r, rows(x), rows(up->w));
    product_plan(r, rows(x), gate->w);
    product_plan(r, rows(x), up->w);
    adapt_inputs(r, &n, gate->w, false);
    adapt_inputs(r, &n, up->w, false);
    if (r->tape)
        n.save[G] = tensor_new(r, rows(x), rows(gate->w));
    return apply(r, &n);
}
