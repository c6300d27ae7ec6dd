/* layernorm: y = z w + b,  z = (x - mean) s,  s = 1 / sqrt(var + eps), mean and variance over the
 * row.
 *
 *     dx = s (g - mean(g) - z mean(g z)),  g = w dy       dw = sum of dy z,  db = sum of dy over
 * rows
 *
 * g z = dy (y - b), so a row's sums are dot products of existing vectors. */
#include "ops/ops.h"

#include "tensor/tape.h"

#include <assert.h>

static void layernorm_rows(const run *r, const void *ctx, int64_t i0, int64_t i1)
{
    const node *n = ctx;
    for (int64_t i = i0; i < i1; i++) {
        const norm_stats found = r->kern->layernorm(row(n->out, i), row(n->in[0], i),
                                                    values(n->in[1]), values(n->in[2]), n->f[0],
                                                    cols(n->out));
        if (n->save[0]) {
            row(n->save[0], i)[0] = found.mean;
            row(n->save[0], i)[1] = found.scale;
        }
    }
}

static void layernorm_forward(run *r, const node *n)
{
    parallel_rows(r, n, layernorm_rows);
}

static void layernorm_input_rows(const run *r, const void *ctx, int64_t i0, int64_t i1)
{
    const node *n = ctx;
    const tensor *in = n->in[0];
    const real *w = values(n->in[1]), *b = values(n->in[2]);
    const int64_t D = cols(in);
    for (int64_t i = i0; i < i1; i++) {
        const real *x = row(in, i), *dy = grad_row(n->out, i);
        const real mean = row(n->save[0], i)[0], s = row(n->save[0], i)[1];
        const real g_mean = r->kern->dot(w, dy, D) / (real)D;
        const real gb = b ? r->kern->dot(dy, b, D) : 0;
        const real gz_mean = (r->kern->dot(dy, row(n->out, i), D) - gb) / (real)D;
        real *dx = grad_row(in, i);
        for (int64_t k = 0; k < D; k++)
            grad_put(&dx[k], in->grad_written,
                     s * (w[k] * dy[k] - g_mean - (x[k] - mean) * s * gz_mean));
    }
}

#define COLUMNS 64 /* sums all columns in one pass, over the rows in ascending order */

static void layernorm_gain_columns(const run *r, const void *ctx, int64_t k0, int64_t k1)
{
    const node *n = ctx;
    (void)r;
    const tensor *x = n->in[0], *w = n->in[1], *b = n->in[2];
    for (int64_t at = k0; at < k1; at += COLUMNS) {
        const int64_t width = k1 - at < COLUMNS ? k1 - at : COLUMNS;
        real dw[COLUMNS] = { 0 }, db[COLUMNS] = { 0 };
        for (int64_t i = 0; i < rows(x); i++) {
            const real *dy = grad_row(n->out, i) + at, *from = row(x, i) + at;
            const real mean = row(n->save[0], i)[0], s = row(n->save[0], i)[1];
            for (int64_t k = 0; k < width; k++) {
                dw[k] += dy[k] * (from[k] - mean) * s;
                db[k] += dy[k];
            }
        }
        for (int64_t k = 0; k < width; k++) {
            if (w->needs_grad)
                grad_put(&w->grad[at + k], w->grad_written, dw[k]);
            if (b && b->needs_grad)
                grad_put(&b->grad[at + k], b->grad_written, db[k]);
        }
    }
}

static void layernorm_backward(run *r, const node *n)
{
    if (n->in[0]->needs_grad)
        parallel_rows(r, n, layernorm_input_rows);
    parallel(r, cols(n->out), rows(n->out), layernorm_gain_columns, n);
}

static cost layernorm_cost(const run *r, const node *n)
{
    (void)r;
    return cost_streaming(n, 7);
}

extern const op layernorm_op;
const op layernorm_op = { "layernorm", "y = (x - mean) / sqrt(var + eps) * w + b",
                          layernorm_forward, layernorm_backward, layernorm_cost };

tensor *layernorm(run *r, tensor *x, const weight *w, real eps)
{
    assert(cols(x) == cols(w->w));
    node n = { .op = &layernorm_op, .label = w->name, .in = { x, w->w, w->b }, .f = { eps } };
    n.out = tensor_new(r, rows(x), cols(x));
    if (r->tape)
        n.save[0] = tensor_new(r, rows(x), 2);
    return apply(r, &n);
}
