/* act: y = f(x), one op per function so that a trace says which.
 *
 *   relu       max(x, 0)
 *   silu       x / (1 + e^-x)
 *   gelu       x Phi(x) = x/2 (1 + erf(x / sqrt 2))
 *   gelu_tanh  x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))
 *   tanh       */
#include "ops/ops.h"

#include "tensor/tape.h"

#include <assert.h>

static void act_rows(const run *r, const void *ctx, int64_t i0, int64_t i1)
{
    const node *n = ctx;
    for (int64_t i = i0; i < i1; i++)
        r->kern->activate(row(n->out, i), row(n->in[0], i), (act_kind)n->i[0], cols(n->out));
}

static void act_forward(run *r, const node *n)
{
    /* A transcendental costs about as much as moving eight values. */
    parallel(r, rows(n->out), 8 * cols(n->out), act_rows, n);
}

static void act_slope_rows(const run *r, const void *ctx, int64_t i0, int64_t i1)
{
    const node *n = ctx;
    const tensor *x = n->in[0];
    real slope[256];
    for (int64_t i = i0; i < i1; i++)
        for (int64_t c = 0; c < cols(x); c += 256) {
            const int64_t w = cols(x) - c < 256 ? cols(x) - c : 256;
            r->kern->activate_back(slope, row(x, i) + c, grad_row(n->out, i) + c, (act_kind)n->i[0],
                                   w);
            for (int64_t k = 0; k < w; k++)
                grad_put(grad_row(x, i) + c + k, x->grad_written, slope[k]);
        }
}

static void act_backward(run *r, const node *n)
{
    parallel(r, rows(n->out), 8 * cols(n->out), act_slope_rows, n);
}

static cost act_cost(const run *r, const node *n)
{
    (void)r;
    return cost_streaming(n, 8);
}

extern const op relu_op, silu_op, gelu_op, gelu_tanh_op, tanh_op;
const op relu_op = { "relu", "y = max(x, 0)", act_forward, act_backward, act_cost };
const op silu_op = { "silu", "y = x / (1 + exp(-x))", act_forward, act_backward, act_cost };
const op gelu_op = { "gelu", "y = x/2 (1 + erf(x / sqrt 2))", act_forward, act_backward, act_cost };
const op gelu_tanh_op = { "gelu_tanh", "y = x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))",
                          act_forward, act_backward, act_cost };
const op tanh_op = { "tanh", "y = tanh x", act_forward, act_backward, act_cost };

static const op *const by_kind[] = {
    [ACT_RELU] = &relu_op,           [ACT_SILU] = &silu_op, [ACT_GELU] = &gelu_op,
    [ACT_GELU_TANH] = &gelu_tanh_op, [ACT_TANH] = &tanh_op,
};

tensor *act(run *r, tensor *x, act_kind kind)
{
    assert(kind > ACT_NONE && kind <= ACT_TANH);
    node n = { .op = by_kind[kind], .in = { x }, .i = { kind } };
    n.out = tensor_new(r, rows(x), cols(x));
    return apply(r, &n);
}
