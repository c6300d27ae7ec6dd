/* join_heads: y_h = [a_h, b_h], concatenates the heads of two tensors.
 *
 * da and db are the parts of dy; if all heads share one b, db is their sum. */
#include "ops/ops.h"

#include "tensor/tape.h"

#include <assert.h>
#include <string.h>

enum { A, B };

static void join_rows(const run *r, const void *ctx, int64_t i0, int64_t i1)
{
    const node *n = ctx;
    (void)r;
    const join_map *m = n->arg;
    for (int64_t i = i0; i < i1; i++)
        for (int64_t h = 0; h < m->n_head; h++) {
            real *y = row(n->out, i) + h * (m->d_a + m->d_b);
            memcpy(y, row(n->in[A], i) + h * m->d_a, (size_t)m->d_a * sizeof *y);
            memcpy(y + m->d_a, row(n->in[B], i) + m->b_at + h * m->b_pitch,
                   (size_t)m->d_b * sizeof *y);
        }
}

static void join_heads_forward(run *r, const node *n)
{
    parallel_rows(r, n, join_rows);
}

static void join_back_rows(const run *r, const void *ctx, int64_t i0, int64_t i1)
{
    const node *n = ctx;
    (void)r;
    const join_map *m = n->arg;
    const tensor *a = n->in[A], *b = n->in[B];
    for (int64_t i = i0; i < i1; i++)
        for (int64_t h = 0; h < m->n_head; h++) {
            const real *dy = grad_row(n->out, i) + h * (m->d_a + m->d_b);
            for (int64_t k = 0; a->needs_grad && k < m->d_a; k++)
                grad_put(grad_row(a, i) + h * m->d_a + k, a->grad_written, dy[k]);
            for (int64_t k = 0; b->needs_grad && k < m->d_b; k++)
                grad_row(b, i)[m->b_at + h * m->b_pitch + k] += dy[m->d_a + k];
        }
}

static void join_heads_backward(run *r, const node *n)
{
    grad_clear(n->in[B]); /* other ops may read the rest of it */
    parallel_rows(r, n, join_back_rows);
}

static cost join_cost(const run *r, const node *n)
{
    (void)r;
    return cost_streaming(n, 0);
}

extern const op join_heads_op;
const op join_heads_op = { "join_heads", "y_h = [a_h, b_h]", join_heads_forward,
                           join_heads_backward, join_cost };

tensor *join_heads(run *r, tensor *a, tensor *b, const join_map *m, const char *name)
{
    assert(cols(a) == m->n_head * m->d_a);
    assert(m->b_at + (m->n_head - 1) * m->b_pitch + m->d_b <= cols(b));
    node n = { .op = &join_heads_op, .local = name, .in = { a, b }, .arg = m };
    n.out = tensor_new(r, rows(a), m->n_head * (m->d_a + m->d_b));
    return apply(r, &n);
}
