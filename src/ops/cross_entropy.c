/* cross_entropy: loss = sum_i w_i l_i / sum_i w_i over the rows i that have a target t_i,
 *
 *     l_i = (1 - e) (-log p_i,t) + e / V sum_k (-log p_i,k)         p_i = softmax(z_i), e smoothing
 *     dz_i,k = w_i / sum w (p_i,k - (1 - e) [k = t_i] - e / V)
 *
 * linear_cross_entropy is the same with z = x W^T + b made inside, a chunk of rows at a time and
 * again in backward: logits of all rows would be the largest thing in training (4096 rows of a
 * vocabulary of 128256 are 2 GB), and they never exist. A chunk has as many rows as fit into 2^22
 * numbers, one at least. */
#include "ops/ops.h"
#include "ops/product.h"

#include "tensor/tape.h"

#include <assert.h>
#include <string.h>

/* ---- one row --------------------------------------------------------------------------------- */

/* Row k of the logits belongs to the k-th wanted row of the batch: index[k], written in forward. */
static int32_t *index_new(run *r)
{
    return arena_alloc(&r->data, (size_t)r->batch->n_wanted * sizeof(int32_t), NULL);
}

static void index_rows(const run *r, int32_t *index)
{
    int32_t k = 0;
    for (int32_t i = 0; i < r->batch->n_row; i++)
        if (r->batch->row[i].wanted)
            index[k++] = i;
    assert(k == r->batch->n_wanted);
}

static double total_weight(const run *r)
{
    double sum = 0;
    for (int64_t i = 0; i < r->batch->n_row; i++)
        if (r->batch->row[i].wanted && r->batch->row[i].target != NO_TARGET)
            sum += (double)r->batch->row[i].weight;
    return sum;
}

/* w_i l_i */
static double row_loss(const kernels *kern, const batch_row *b, const real *z, int64_t V,
                       real smoothing)
{
    if (b->target == NO_TARGET)
        return 0;
    assert(b->target >= 0 && b->target < V);
    const double lse = (double)kern->log_sum_exp(z, V), e = (double)smoothing;
    double even = 0;
    for (int64_t k = 0; e > 0 && k < V; k++)
        even += (lse - (double)z[k]) / (double)V;
    return (double)b->weight * ((1 - e) * (lse - (double)z[b->target]) + e * even);
}

/* dz, which may lie where z lies. */
static void row_slope(const kernels *kern, const batch_row *b, const real *z, real *dz, int64_t V,
                      real smoothing, double scale)
{
    if (b->target == NO_TARGET) {
        memset(dz, 0, (size_t)V * sizeof *dz);
        return;
    }
    const real lse = kern->log_sum_exp(z, V), w = (real)(scale * (double)b->weight);
    const real even = smoothing / (real)V;
    if (dz != z)
        memcpy(dz, z, (size_t)V * sizeof *dz);
    kern->exp_less(dz, V, lse);
    dz[b->target] -= 1 - smoothing;
    for (int64_t k = 0; k < V; k++)
        dz[k] = w * (dz[k] - even);
}

/* ---- logits that exist ----------------------------------------------------------------------- */

static void forward(run *r, const node *n)
{
    const tensor *z = n->in[0];
    const double total = total_weight(r);
    int32_t *index = (int32_t *)n->arg;
    double sum = 0;
    index_rows(r, index);
    for (int64_t i = 0; i < rows(z); i++)
        sum += row_loss(r->kern, &r->batch->row[index[i]], row(z, i), cols(z), n->f[0]);
    row(n->out, 0)[0] = (real)(total > 0 ? sum / total : 0);
}

static void slope_rows(const run *r, const node *n, int64_t i0, int64_t i1)
{
    const tensor *z = n->in[0];
    const int32_t *index = n->arg;
    const double total = total_weight(r), scale = total > 0 ? (double)*n->out->grad / total : 0;
    assert(!z->grad_written && "the loss is the only reader of its logits");
    for (int64_t i = i0; i < i1; i++)
        row_slope(r->kern, &r->batch->row[index[i]], row(z, i), grad_row(z, i), cols(z), n->f[0],
                  scale);
}

static void backward(run *r, const node *n)
{
    parallel(r, n, rows(n->in[0]), 8 * cols(n->in[0]), slope_rows);
}

static cost loss_cost(const run *r, const node *n)
{
    (void)r;
    return (cost){ 10.0 * (double)(rows(n->in[0]) * cols(n->in[0])),
                   (double)(rows(n->in[0]) * cols(n->in[0])) * sizeof(real) };
}

extern const op cross_entropy_op;
const op cross_entropy_op = { "cross_entropy", "loss = sum w (-log softmax(x)[target]) / sum w",
                              forward, backward, loss_cost };

tensor *cross_entropy(run *r, tensor *z, real smoothing)
{
    assert(rows(z) == r->batch->n_wanted);
    node n = { .op = &cross_entropy_op, .local = "loss", .in = { z }, .f = { smoothing } };
    n.out = tensor_new(r, 1, 1);
    n.arg = index_new(r);
    return apply(r, &n);
}

/* ---- logits in chunks ------------------------------------------------------------------------ */

enum { X, W, BIAS };
enum { LOGITS, SUMS }; /* a chunk of logits; the loss of each of its rows */

/* One chunk of rows, as the functions that run in parallel see it. */
typedef struct chunk {
    const int32_t *index; /* of its rows */
    int64_t first, count;
    double scale; /* dloss / sum w, in backward */
    double total; /* of the losses so far, in forward */
} chunk;

static void loss_rows(const run *r, const node *n, int64_t i0, int64_t i1)
{
    const chunk *c = n->arg;
    const tensor *z = n->save[LOGITS];
    for (int64_t i = i0; i < i1; i++)
        row(n->save[SUMS], i)[0] = (real)row_loss(r->kern, &r->batch->row[c->index[i]], row(z, i),
                                                  cols(z), n->f[0]);
}

static void chunk_slopes(const run *r, const node *n, int64_t i0, int64_t i1)
{
    const chunk *c = n->arg;
    const tensor *z = n->save[LOGITS];
    for (int64_t i = i0; i < i1; i++)
        row_slope(r->kern, &r->batch->row[c->index[i]], row(z, i), row(z, i), cols(z), n->f[0],
                  c->scale);
}

/* Calls each(r, n) for every chunk, with n->arg a chunk whose logits have been made. */
static void over_chunks(run *r, const node *n, chunk *c, void (*each)(run *r, const node *n))
{
    const tensor *x = n->in[X], *z = n->save[LOGITS];
    node part = *n;
    part.arg = c;
    for (c->first = 0; c->first < rows(x); c->first += c->count) {
        c->count = rows(x) - c->first < rows(z) ? rows(x) - c->first : rows(z);
        c->index = (const int32_t *)n->arg + c->first;
        product(r, some_rows(whole(z), 0, c->count), some_rows(whole(x), c->first, c->count),
                n->in[W], n->in[BIAS]);
        each(r, &part);
    }
}

static void add_losses(run *r, const node *n)
{
    chunk *c = (chunk *)n->arg;
    parallel(r, n, c->count, 8 * cols(n->save[LOGITS]), loss_rows);
    for (int64_t i = 0; i < c->count; i++)
        c->total += (double)row(n->save[SUMS], i)[0];
}

static void chunked_forward(run *r, const node *n)
{
    const double total = total_weight(r);
    chunk c = { 0 };
    index_rows(r, (int32_t *)n->arg);
    over_chunks(r, n, &c, add_losses);
    row(n->out, 0)[0] = total > 0 ? (real)(c.total / total) : 0;
}

static void push_back(run *r, const node *n)
{
    const chunk *c = n->arg;
    const tensor *x = n->in[X], *w = n->in[W], *b = n->in[BIAS];
    const matrix dz = some_rows(whole(n->save[LOGITS]), 0, c->count);
    parallel(r, n, c->count, 8 * cols(n->save[LOGITS]), chunk_slopes);
    if (x->needs_grad)
        product_dx(r, some_rows(whole_grad(x), c->first, c->count), x->grad_written, dz, w);
    if (w->needs_grad)
        product_dw(r, w, w->grad_written || c->first > 0, dz,
                   some_rows(whole(x), c->first, c->count));
    if (b && b->needs_grad)
        product_db(r, b, b->grad_written || c->first > 0, dz);
}

static void chunked_backward(run *r, const node *n)
{
    const double total = total_weight(r);
    chunk c = { .scale = total > 0 ? (double)*n->out->grad / total : 0 };
    over_chunks(r, n, &c, push_back);
    if (rows(n->in[X]) == 0) { /* no row has a target */
        grad_clear(n->in[W]);
        grad_clear(n->in[BIAS]);
    }
}

static cost chunked_cost(const run *r, const node *n)
{
    (void)r;
    const double x = (double)rows(n->in[X]), V = (double)rows(n->in[W]), D = (double)cols(n->in[X]);
    return (cost){ 2 * x * V * D + 10 * x * V, (x * D + V * D) * sizeof(real) };
}

extern const op linear_cross_entropy_op;
const op linear_cross_entropy_op = { "linear_cross_entropy",
                                     "loss = sum w (-log softmax(x W^T + b)[target]) / sum w",
                                     chunked_forward, chunked_backward, chunked_cost };

tensor *linear_cross_entropy(run *r, tensor *x, const weight *w, real smoothing)
{
    assert(rows(x) == r->batch->n_wanted && cols(x) == cols(w->w));
    const int64_t V = rows(w->w), fit = logits_at_once(r, V);
    const int64_t count = rows(x) < fit ? rows(x) : fit;
    node n = { .op = &linear_cross_entropy_op, .local = "loss", .in = { x, w->w, w->b } };
    n.f[0] = smoothing;
    n.out = tensor_new(r, 1, 1);
    n.save[LOGITS] = tensor_new(r, count, V);
    n.save[SUMS] = tensor_new(r, count, 1);
    product_plan(r, count, w->w);
    n.arg = index_new(r);
    return apply(r, &n);
}
