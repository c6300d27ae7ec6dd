/* rmsnorm: y = x s w,  s = 1 / sqrt(mean x^2 + eps)
 *
 *     dx = s (w dy - x s^2 mean(w dy x))          dw = sum over rows of dy x s
 *        = s (w dy - x s mean(dy y))
 *
 * The mean runs over groups as wide as w: the whole row for a block's norm, one head at a time for
 * the norms of q and k. */
#include "ops/ops.h"

#include "tensor/tape.h"

#include <assert.h>

static void rmsnorm_rows(const run *r, const void *ctx, int64_t i0, int64_t i1)
{
    const node *n = ctx;
    const int64_t width = cols(n->in[1]);
    for (int64_t i = i0; i < i1; i++)
        for (int64_t c = 0; c < cols(n->out); c += width)
            r->kern->rmsnorm(row(n->out, i) + c, row(n->in[0], i) + c, values(n->in[1]), n->f[0],
                             width);
}

static void rmsnorm_forward(run *r, const node *n)
{
    parallel_rows(r, n, rmsnorm_rows);
}

static real rmsnorm_scale(const run *r, const node *n, const real *x)
{
    const int64_t width = cols(n->in[1]);
    return 1 / sqrt(r->kern->dot(x, x, width) / (real)width + n->f[0]);
}

/* Also stores every group's s in save[0], for the sum over rows. */
static void rmsnorm_input_rows(const run *r, const void *ctx, int64_t i0, int64_t i1)
{
    const node *n = ctx;
    const tensor *in = n->in[0];
    const real *w = values(n->in[1]);
    const int64_t width = cols(n->in[1]);
    for (int64_t i = i0; i < i1; i++)
        for (int64_t c = 0; c < cols(in); c += width) {
            const real *x = row(in, i) + c, *dy = grad_row(n->out, i) + c;
            const real s = rmsnorm_scale(r, n, x);
            const real mean = s * r->kern->dot(dy, row(n->out, i) + c, width) / (real)width;
            row(n->save[0], i)[c / width] = s;
            for (int64_t k = 0; in->needs_grad && k < width; k++)
                grad_put(grad_row(in, i) + c + k, in->grad_written,
                         s * (w[k] * dy[k] - x[k] * mean));
        }
}

#define COLUMNS 64 /* sums all columns in one pass, over the rows in ascending order */

static void rmsnorm_gain_columns(const run *r, const void *ctx, int64_t k0, int64_t k1)
{
    const node *n = ctx;
    (void)r;
    const tensor *x = n->in[0], *w = n->in[1];
    const int64_t group = cols(w);
    for (int64_t at = k0; at < k1; at += COLUMNS) {
        const int64_t width = k1 - at < COLUMNS ? k1 - at : COLUMNS;
        real sum[COLUMNS] = { 0 };
        for (int64_t i = 0; i < rows(x); i++)
            for (int64_t c = 0; c < cols(x); c += group) {
                const real *dy = grad_row(n->out, i) + c + at, *from = row(x, i) + c + at;
                const real s = row(n->save[0], i)[c / group];
                for (int64_t k = 0; k < width; k++)
                    sum[k] += dy[k] * from[k] * s;
            }
        for (int64_t k = 0; k < width; k++)
            grad_put(&w->grad[at + k], w->grad_written, sum[k]);
    }
}

static void rmsnorm_backward(run *r, const node *n)
{
    parallel_rows(r, n, rmsnorm_input_rows);
    if (n->in[1]->needs_grad)
        parallel(r, cols(n->in[1]), rows(n->out), rmsnorm_gain_columns, n);
}

static cost rmsnorm_cost(const run *r, const node *n)
{
    (void)r;
    return cost_streaming(n, 4);
}

extern const op rmsnorm_op;
const op rmsnorm_op = { "rmsnorm", "y = x / sqrt(mean x^2 + eps) * w", rmsnorm_forward,
                        rmsnorm_backward, rmsnorm_cost };

tensor *rmsnorm(run *r, tensor *x, tensor *w, real eps)
{
    assert(cols(x) % cols(w) == 0);
    node n = { .op = &rmsnorm_op, .label = w->name, .in = { x, w }, .f = { eps } };
    n.out = tensor_new(r, rows(x), cols(x));
    if (r->tape)
        n.save[0] = tensor_new(r, rows(x), cols(x) / cols(w));
    return apply(r, &n);
}
