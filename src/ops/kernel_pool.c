/* kernel_pool: Nadaraya-Watson regression (1964), attention without learned scores: the mean of the
 * values, weighted by the distance of their keys from the query.
 *
 *     y_i = sum_j K_ij v_j / sum_j K_ij    K_ij = K(t),  t = |q_i - k_j|^2 / w^2,  w = e^s
 *
 *     gaussian      e^(-t/2)                   dK/dt = -K/2
 *     boxcar        1 where t <= 1, else 0             0: its width has no slope to learn from
 *     epanechnikov  max(0, 1 - t)                     -1 where K > 0
 *     constant      1                                  0: all keys count the same
 *
 * The gaussian is softmax of minus half the squared distances, and is computed as one: from the
 * nearest key on. A query that no key is near enough to gives zeros.
 *
 * With g_ij = dy_i . (v_j - y_i) / sum K  dK/dt, the slope of the loss by t,
 *
 *     dv_j = sum_i K_ij / sum K  dy_i       ds = sum -2 t g
 *     dq_i = sum_j 2 g (q_i - k_j) / w^2    dk_j = -sum_i of the same */
#include "ops/ops.h"

#include "tensor/tape.h"

#include <assert.h>
#include <string.h>

enum { Q, K, V, WIDTH };
enum { MIN_DISTANCE, SUM, DWIDTH, N_SAVED }; /* per query: its smallest t, sum K, its part of ds */

/* w^-2 */
static real narrowness(const node *n)
{
    return exp(-2 * values(n->in[WIDTH])[0]);
}

static real distance(const node *n, int64_t i, int64_t j)
{
    real sum = 0;
    for (int64_t c = 0; c < cols(n->in[Q]); c++) {
        const real d = row(n->in[Q], i)[c] - row(n->in[K], j)[c];
        sum += d * d;
    }
    return sum * narrowness(n);
}

/* Query i attends to key j, unless it is its own and only the others count. */
static bool attends(const node *n, int64_t i, int64_t j)
{
    return !(n->i[1] && i == j);
}

static real kernel_weight(const node *n, real t, real min_distance)
{
    switch ((kernel_kind)n->i[0]) {
    case KERNEL_GAUSSIAN:
        return exp((min_distance - t) / 2);
    case KERNEL_BOXCAR:
        return t <= 1;
    case KERNEL_EPANECHNIKOV:
        return t < 1 ? 1 - t : 0;
    case KERNEL_CONSTANT:
        return 1;
    }
    return 0;
}

static real kernel_slope(const node *n, real near)
{
    switch ((kernel_kind)n->i[0]) {
    case KERNEL_GAUSSIAN:
        return -near / 2;
    case KERNEL_BOXCAR:
    case KERNEL_CONSTANT:
        return 0;
    case KERNEL_EPANECHNIKOV:
        return near > 0 ? -1 : 0;
    }
    return 0;
}

static void kernel_pool_row(const run *r, const node *n, int64_t i)
{
    const int64_t M = rows(n->in[K]), D = cols(n->out);
    real *y = row(n->out, i), min_distance = INFINITY, sum = 0;
    for (int64_t j = 0; j < M; j++)
        min_distance = attends(n, i, j) ? fmin(min_distance, distance(n, i, j)) : min_distance;
    memset(y, 0, (size_t)D * sizeof *y);
    for (int64_t j = 0; j < M; j++) {
        const real near = attends(n, i, j) ? kernel_weight(n, distance(n, i, j), min_distance) : 0;
        r->kern->axpy(y, near, row(n->in[V], j), D);
        sum += near;
    }
    for (int64_t c = 0; sum > 0 && c < D; c++)
        y[c] /= sum;
    if (n->save[0]) {
        row(n->save[0], i)[MIN_DISTANCE] = min_distance;
        row(n->save[0], i)[SUM] = sum;
    }
}

static void kernel_pool_rows(const run *r, const void *ctx, int64_t i0, int64_t i1)
{
    const node *n = ctx;
    for (int64_t i = i0; i < i1; i++)
        kernel_pool_row(r, n, i);
}

static int64_t kernel_row_cost(const node *n)
{
    return rows(n->in[K]) * (6 * cols(n->in[K]) + 20 + cols(n->in[V]));
}

static void kernel_pool_forward(run *r, const node *n)
{
    parallel(r, rows(n->out), kernel_row_cost(n), kernel_pool_rows, n);
}

/* ---- backward -------------------------------------------------------------------------------- */

/* A pair whose weight is not 0. */
typedef struct pair {
    real t, weight; /* K / sum K */
    real g;
} pair;

static bool kernel_pair(const run *r, const node *n, int64_t i, int64_t j, pair *p)
{
    const real *kept = row(n->save[0], i), *dy = grad_row(n->out, i);
    if (!attends(n, i, j) || !(kept[SUM] > 0))
        return false;
    p->t = distance(n, i, j);
    const real near = kernel_weight(n, p->t, kept[MIN_DISTANCE]);
    const int64_t D = cols(n->out);
    const real gain = r->kern->dot(dy, row(n->in[V], j), D) - r->kern->dot(dy, row(n->out, i), D);
    p->weight = near / kept[SUM];
    p->g = gain / kept[SUM] * kernel_slope(n, near);
    return near > 0;
}

/* Queries own dq and their part of ds ... */
static void kernel_query_grads(const run *r, const void *ctx, int64_t i0, int64_t i1)
{
    const node *n = ctx;
    const tensor *q = n->in[Q];
    const real by = 2 * narrowness(n);
    for (int64_t i = i0; i < i1; i++) {
        real ds = 0;
        for (int64_t c = 0; q->needs_grad && !q->grad_written && c < cols(q); c++)
            grad_row(q, i)[c] = 0;
        for (int64_t j = 0; j < rows(n->in[K]); j++) {
            pair p;
            if (!kernel_pair(r, n, i, j, &p))
                continue;
            ds -= 2 * p.t * p.g;
            for (int64_t c = 0; q->needs_grad && c < cols(q); c++)
                grad_row(q, i)[c] += by * p.g * (row(q, i)[c] - row(n->in[K], j)[c]);
        }
        row(n->save[0], i)[DWIDTH] = ds;
    }
}

/* ... and keys own dk and dv. */
static void kernel_key_grads(const run *r, const void *ctx, int64_t j0, int64_t j1)
{
    const node *n = ctx;
    const tensor *q = n->in[Q], *k = n->in[K], *v = n->in[V];
    const real by = 2 * narrowness(n);
    for (int64_t j = j0; j < j1; j++) {
        for (int64_t c = 0; k->needs_grad && !k->grad_written && c < cols(k); c++)
            grad_row(k, j)[c] = 0;
        for (int64_t c = 0; v->needs_grad && !v->grad_written && c < cols(v); c++)
            grad_row(v, j)[c] = 0;
        for (int64_t i = 0; i < rows(q); i++) {
            pair p;
            if (!kernel_pair(r, n, i, j, &p))
                continue;
            if (v->needs_grad)
                r->kern->axpy(grad_row(v, j), p.weight, grad_row(n->out, i), cols(v));
            for (int64_t c = 0; k->needs_grad && c < cols(k); c++)
                grad_row(k, j)[c] -= by * p.g * (row(q, i)[c] - row(k, j)[c]);
        }
    }
}

static void kernel_pool_backward(run *r, const node *n)
{
    const tensor *width = n->in[WIDTH];
    parallel(r, rows(n->out), 2 * kernel_row_cost(n), kernel_query_grads, n);
    if (n->in[K]->needs_grad || n->in[V]->needs_grad)
        parallel(r, rows(n->in[K]), 2 * rows(n->out) * cols(n->out), kernel_key_grads, n);
    if (!width->needs_grad)
        return;
    real ds = 0;
    for (int64_t i = 0; i < rows(n->out); i++)
        ds += row(n->save[0], i)[DWIDTH];
    grad_put(width->grad, width->grad_written, ds);
}

static cost kernel_cost(const run *r, const node *n)
{
    (void)r;
    return (cost){ .flops = (double)rows(n->out) * (double)kernel_row_cost(n),
                   .bytes = cost_streaming(n, 0).bytes };
}

extern const op kernel_pool_op;
const op kernel_pool_op = { "kernel_pool", "y = sum_j K_j v_j / sum_j K_j,  K_j = K(|q - k_j| / w)",
                            kernel_pool_forward, kernel_pool_backward, kernel_cost };

tensor *kernel_pool(run *r, tensor *q, tensor *k, tensor *v, tensor *log_width, kernel_kind kind,
                    bool others)
{
    assert(cols(q) == cols(k) && rows(k) == rows(v) && cols(log_width) == 1);
    node n = { .op = &kernel_pool_op,
               .local = "kernel_pool",
               .in = { q, k, v, log_width },
               .i = { kind, others } };
    n.out = tensor_new(r, rows(q), cols(v));
    if (r->tape)
        n.save[0] = tensor_new(r, rows(q), N_SAVED);
    return apply(r, &n);
}
