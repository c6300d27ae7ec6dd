/* linear_heads: y_h = x_h W_h^T, or x_h W_h, head by head; W_h are some rows of one matrix.
 *
 *     dx_h = dy_h W_h     dW_h = dy_h^T x_h         y_h = x_h W_h^T,  W_h [d_out, d_in]
 *     dx_h = dy_h W_h^T   dW_h = x_h^T dy_h         y_h = x_h W_h,    W_h [d_in, d_out]
 *
 * In multi-head latent attention, one matrix holds for every head the rows that map the latent to
 * keys and those that map it to values. Multiplied from one side it gives keys and values of a row;
 * from the other it maps a query into the latent space, and the attended latent back. */
#include "ops/adapt.h"
#include "ops/ops.h"

#include "tensor/tape.h"

#include <assert.h>

enum { X, W };

/* W_h as a separate matrix: a header over the same values. */
static tensor rows_of_head(const tensor *w, const head_map *m, int64_t h)
{
    return tensor_rows(w, m->w_at + h * m->w_pitch, m->transposed ? m->d_in : m->d_out);
}

/* `width` columns of m from `at` on. */
static matrix some_columns(matrix m, int64_t at, int64_t width)
{
    return (matrix){ .at = m.at + at,
                     .rows = m.rows,
                     .cols = width,
                     .stride = m.stride,
                     .id = width == m.cols ? m.id : 0 };
}

static matrix head_in(const head_map *m, matrix x, int64_t h)
{
    return some_columns(x, m->x_at + h * m->x_pitch, m->d_in);
}

static matrix head_out(const head_map *m, matrix y, int64_t h)
{
    return some_columns(y, h * m->d_out, m->d_out);
}

static void linear_heads_forward(run *r, const node *n)
{
    const head_map *m = n->arg;
    for (int64_t h = 0; h < m->n_head; h++) {
        const tensor w = rows_of_head(n->in[W], m, h);
        const matrix x = head_in(m, whole(n->in[X]), h), y = head_out(m, whole(n->out), h);
        if (m->transposed)
            product_dx(r, y, false, x, &w);
        else
            product(r, y, x, &w, NULL);
    }
}

static void linear_heads_weight_back(run *r, const node *n, const tensor *w, int64_t h)
{
    const head_map *m = n->arg;
    const matrix x = head_in(m, whole(n->in[X]), h), dy = head_out(m, whole_grad(n->out), h);
    if (m->transposed)
        product_dw(r, w, true, x, dy);
    else
        product_dw(r, w, true, dy, x);
}

static void linear_heads_input_back(run *r, const node *n, const tensor *w, int64_t h)
{
    const head_map *m = n->arg;
    const matrix dx = head_in(m, whole_grad(n->in[X]), h), dy = head_out(m, whole_grad(n->out), h);
    if (m->transposed)
        product_add(r, dx, dy, w);
    else
        product_dx(r, dx, true, dy, w);
}

/* Heads may share their inputs, and other ops may read the rest, so everything is added. */
static void linear_heads_backward(run *r, const node *n)
{
    const head_map *m = n->arg;
    grad_clear(n->in[X]);
    grad_clear(n->in[W]);
    for (int64_t h = 0; h < m->n_head; h++) {
        const tensor w = rows_of_head(n->in[W], m, h);
        if (w.needs_grad)
            linear_heads_weight_back(r, n, &w, h);
        if (n->in[X]->needs_grad)
            linear_heads_input_back(r, n, &w, h);
    }
}

static cost linear_heads_cost(const run *r, const node *n)
{
    (void)r;
    const head_map *m = n->arg;
    return cost_streaming(n, 2.0 * (double)m->d_in);
}

extern const op linear_heads_op;
const op linear_heads_op = { "linear_heads", "y_h = x_h W_h^T", linear_heads_forward,
                             linear_heads_backward, linear_heads_cost };

tensor *linear_heads(run *r, tensor *x, tensor *w, const head_map *m, const char *name)
{
    assert(cols(w) == (m->transposed ? m->d_out : m->d_in));
    assert(m->x_at + (m->n_head - 1) * m->x_pitch + m->d_in <= cols(x));
    assert(m->w_at + (m->n_head - 1) * m->w_pitch + (m->transposed ? m->d_in : m->d_out) <=
           rows(w));
    node n = { .op = &linear_heads_op, .local = name, .in = { x, w }, .arg = m };
    n.out = tensor_new(r, rows(x), m->n_head * m->d_out);
    tensor part = *w;
    part.shape[0] = m->transposed ? m->d_in : m->d_out;
    product_plan_both(r, rows(x), &part);
    return apply(r, &n);
}
