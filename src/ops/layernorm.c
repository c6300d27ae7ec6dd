/* layernorm: y = z w + b,  z = (x - mean) s,  s = 1 / sqrt(var + eps), mean and variance over the
 * row.
 *
 *     dx = s (g - mean(g) - z mean(g z)),  g = w dy       dw = sum of dy z,  db = sum of dy over
 * rows */
#include "ops/ops.h"

#include "tensor/tape.h"

#include <assert.h>

static void norm_rows(const run *r, const node *n, int64_t i0, int64_t i1)
{
    for (int64_t i = i0; i < i1; i++)
        r->kern->layernorm(row(n->out, i), row(n->in[0], i), values(n->in[1]), values(n->in[2]),
                           n->f[0], cols(n->out));
}

static void forward(run *r, const node *n)
{
    parallel_rows(r, n, norm_rows);
}

/* Also leaves every row's mean and s in save[0], where the sums over rows find them. */
static void input_rows(const run *r, const node *n, int64_t i0, int64_t i1)
{
    (void)r;
    const tensor *in = n->in[0], *w = n->in[1];
    const int64_t D = cols(in);
    for (int64_t i = i0; i < i1; i++) {
        const real *x = row(in, i), *dy = grad_row(n->out, i);
        real mean = 0, var = 0, g_mean = 0, gz_mean = 0;
        for (int64_t k = 0; k < D; k++)
            mean += x[k] / (real)D;
        for (int64_t k = 0; k < D; k++)
            var += (x[k] - mean) * (x[k] - mean) / (real)D;
        const real s = 1 / sqrt(var + n->f[0]);
        row(n->save[0], i)[0] = mean;
        row(n->save[0], i)[1] = s;
        for (int64_t k = 0; k < D; k++) {
            g_mean += values(w)[k] * dy[k] / (real)D;
            gz_mean += values(w)[k] * dy[k] * (x[k] - mean) * s / (real)D;
        }
        for (int64_t k = 0; in->needs_grad && k < D; k++)
            grad_put(grad_row(in, i) + k, in->grad_written,
                     s * (values(w)[k] * dy[k] - g_mean - (x[k] - mean) * s * gz_mean));
    }
}

static void gain_columns(const run *r, const node *n, int64_t k0, int64_t k1)
{
    (void)r;
    const tensor *x = n->in[0], *w = n->in[1], *b = n->in[2];
    for (int64_t k = k0; k < k1; k++) {
        real dw = 0, db = 0;
        for (int64_t i = 0; i < rows(x); i++) {
            const real dy = grad_row(n->out, i)[k];
            dw += dy * (row(x, i)[k] - row(n->save[0], i)[0]) * row(n->save[0], i)[1];
            db += dy;
        }
        if (w->needs_grad)
            grad_put(&w->grad[k], w->grad_written, dw);
        if (b && b->needs_grad)
            grad_put(&b->grad[k], b->grad_written, db);
    }
}

static void backward(run *r, const node *n)
{
    parallel_rows(r, n, input_rows);
    parallel(r, n, cols(n->out), rows(n->out), gain_columns);
}

static cost norm_cost(const run *r, const node *n)
{
    (void)r;
    return cost_streaming(n, 7);
}

extern const op layernorm_op;
const op layernorm_op = { "layernorm", forward, backward, norm_cost };

tensor *layernorm(run *r, tensor *x, const weight *w, real eps)
{
    assert(cols(x) == cols(w->w));
    node n = { .op = &layernorm_op, .label = w->name, .in = { x, w->w, w->b }, .f = { eps } };
    n.out = tensor_new(r, rows(x), cols(x));
    if (r->tape)
        n.save[0] = tensor_new(r, rows(x), 2);
    return apply(r, &n);
}
