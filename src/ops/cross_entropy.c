/* cross_entropy: loss = sum_i w_i l_i / sum_i w_i over the rows i that have a target t_i,
 *
 *     l_i = (1 - e) (-log p_i,t) + e / V sum_k (-log p_i,k)         p_i = softmax(z_i), e smoothing
 *     dz_i,k = w_i / sum w (p_i,k - (1 - e) [k = t_i] - e / V)
 *
 * linear_cross_entropy computes z = x W^T + b itself, in parts, and again in backward. The logits
 * of all rows would be the largest tensor in training (4096 rows of a vocabulary of 128256 are 2
 * GB), and they never exist at once.
 *
 *     forward: some rows, all tokens          backward: all rows, a strip of tokens
 *        +--------------+                        +----+---------+
 *        |##############|  -> loss, log sum exp  | ## |         |  p = exp(z - log sum exp)
 *        |              |     of each row        | ## |         |  rows of dW: whole, once
 *        +--------------+                        +----+---------+  dx: strip after strip
 *
 * A part has as many rows, or tokens, as fit into 2^22 floats: at least one row or 64 tokens. In
 * class bf16 it has at least 256 rows: making tiles of W takes as long as multiplying them by 100.
 *
 * Of sequences in pairs (batch.prefer), the loss is the mean over pairs of -log sigma(m), and
 * w_i / sum w is dloss / dl_i: beta sigma(-m) / n in the first of a pair, negative in the second.
 *
 * With a cap c, z = c t and t = tanh((x W^T + b) / c), as in softcap.c; dz is then multiplied by
 * 1 - t^2. */
#include "ops/cross_entropy.h"
#include "ops/adapt.h"
#include "ops/ops.h"

#include "tensor/tape.h"

#include <assert.h>
#include <math.h>
#include <string.h>

/* ---- one row --------------------------------------------------------------------------------- */

/* Row k of the logits belongs to the k-th wanted row of the batch: index[k], written in forward. */
static int32_t *index_new(run *r)
{
    return arena_alloc(&r->data, (size_t)r->at.batch->n_wanted * sizeof(int32_t), NULL);
}

static void index_rows(const run *r, int32_t *index)
{
    int32_t k = 0;
    for (int32_t i = 0; i < r->at.batch->n_row; i++)
        if (r->at.batch->row[i].wanted)
            index[k++] = i;
    assert(k == r->at.batch->n_wanted);
}

static double total_weight(const run *r)
{
    double sum = 0;
    for (int64_t i = 0; i < r->at.batch->n_row; i++)
        if (r->at.batch->row[i].wanted && r->at.batch->row[i].target != NO_TARGET)
            sum += (double)r->at.batch->row[i].weight;
    return sum;
}

/* w_i l_i */
static double row_loss(const batch_row *b, const real *z, int64_t V, double lse, real smoothing)
{
    const double e = (double)smoothing;
    double even = 0;
    if (b->target == NO_TARGET)
        return 0;
    assert(b->target >= 0 && b->target < V);
    for (int64_t k = 0; e > 0 && k < V; k++)
        even += (lse - (double)z[k]) / (double)V;
    return (double)b->weight * ((1 - e) * (lse - (double)z[b->target]) + e * even);
}

/* Replaces the logits of the tokens from k0 on by their gradients. */
static void row_slope(const kernels *kern, const batch_row *b, real *z, int64_t k0, int64_t n,
                      real lse, real smoothing, int64_t V, double scale)
{
    const real w = (real)(scale * (double)b->weight), even = smoothing / (real)V;
    if (b->target == NO_TARGET) {
        memset(z, 0, (size_t)n * sizeof *z);
        return;
    }
    kern->exp_less(z, n, lse);
    if (b->target >= k0 && b->target < k0 + n)
        z[b->target - k0] -= 1 - smoothing;
    for (int64_t k = 0; k < n; k++)
        z[k] = w * (z[k] - even);
}

/* ---- logits that exist ----------------------------------------------------------------------- */

static void cross_entropy_forward(run *r, const node *n)
{
    const tensor *z = n->in[0];
    const double total = total_weight(r);
    int32_t *index = (int32_t *)n->arg;
    double sum = 0;
    index_rows(r, index);
    for (int64_t i = 0; i < rows(z); i++) {
        const double lse = (double)r->kern->log_sum_exp(row(z, i), cols(z));
        sum += row_loss(&r->at.batch->row[index[i]], row(z, i), cols(z), lse, n->f[0]);
    }
    row(n->out, 0)[0] = (real)(total > 0 ? sum / total : 0);
}

static void loss_slope_rows(const run *r, const void *ctx, int64_t i0, int64_t i1)
{
    const node *n = ctx;
    const tensor *z = n->in[0];
    const int32_t *index = n->arg;
    const double total = total_weight(r), scale = total > 0 ? (double)*n->out->grad / total : 0;
    assert(!z->grad_written && "the loss is the only reader of its logits");
    for (int64_t i = i0; i < i1; i++) {
        memcpy(grad_row(z, i), row(z, i), (size_t)cols(z) * sizeof(real));
        row_slope(r->kern, &r->at.batch->row[index[i]], grad_row(z, i), 0, cols(z),
                  r->kern->log_sum_exp(row(z, i), cols(z)), n->f[0], cols(z), scale);
    }
}

static void cross_entropy_backward(run *r, const node *n)
{
    parallel(r, rows(n->in[0]), 8 * cols(n->in[0]), loss_slope_rows, n);
}

static cost loss_cost(const run *r, const node *n)
{
    (void)r;
    return (cost){ .flops = 10.0 * (double)(rows(n->in[0]) * cols(n->in[0])),
                   .bytes = (double)(rows(n->in[0]) * cols(n->in[0])) * sizeof(real) };
}

extern const op cross_entropy_op;
const op cross_entropy_op = { "cross_entropy", "loss = sum w (-log softmax(x)[target]) / sum w",
                              cross_entropy_forward, cross_entropy_backward, loss_cost };

tensor *cross_entropy(run *r, tensor *z, real smoothing)
{
    assert(rows(z) == r->at.batch->n_wanted && !r->at.batch->prefer);
    node n = { .op = &cross_entropy_op, .local = "loss", .in = { z }, .f = { smoothing } };
    n.out = tensor_new(r, 1, 1);
    n.arg = index_new(r);
    return apply(r, &n);
}

/* ---- logits in parts ------------------------------------------------------------------------- */

enum { X, W, BIAS };
enum { LOGITS, SUMS }; /* a part of the logits, and with gains a copy of it; of each row [N, 2]: */
enum { SUM_LOSS, SUM_LSE };

/* A part, shared by the parallel functions. */
typedef struct part {
    const node *of;
    matrix z;
    const int32_t *index;   /* of its rows */
    int64_t row0, token0;   /* its first */
    double scale;           /* in backward: dloss / sum w; of pairs, dloss */
    const loss_open_to *to; /* where its slopes are only shown */
} part;

#define PIECE 256 /* logits at a time, on the stack */

/* ---- forward: some rows at a time */

/* t = tanh(z / c), z = c t */
static void cap_logits(const run *r, real *z, real *t, int64_t n, real c)
{
    for (int64_t k = 0; k < n; k++)
        z[k] /= c;
    r->kern->activate(t, z, ACT_TANH, n);
    for (int64_t k = 0; k < n; k++)
        z[k] = c * t[k];
}

static void cap_row(const run *r, real *z, int64_t n, real c)
{
    real t[PIECE];
    for (int64_t k = 0; c > 0 && k < n; k += PIECE)
        cap_logits(r, z + k, t, n - k < PIECE ? n - k : PIECE, c);
}

static void loss_rows(const run *r, const void *ctx, int64_t i0, int64_t i1)
{
    const part *p = ctx;
    const node *n = p->of;
    for (int64_t i = i0; i < i1; i++) {
        real *z = p->z.at + i * p->z.stride;
        cap_row(r, z, p->z.cols, n->f[1]);
        real *sums = row(n->save[SUMS], p->row0 + i);
        sums[SUM_LSE] = r->kern->log_sum_exp(z, p->z.cols);
        sums[SUM_LOSS] = (real)row_loss(&r->at.batch->row[p->index[i]], z, p->z.cols,
                                        (double)sums[SUM_LSE], n->f[0]);
    }
}

static int64_t rows_at_once(const run *r, const tensor *x, const tensor *w)
{
    const int64_t fit = logits_at_once(r, rows(w));
    const int64_t most = product_in_bf16(w) && !r->loss_numbers && fit < 256 ? 256 : fit;
    return rows(x) < most ? rows(x) : most;
}

/* log(1 + exp(-m)) */
static double log_sigma_loss(double m)
{
    return log1p(exp(-fabs(m))) + (m < 0 ? -m : 0);
}

/* The loss of pairs, from the losses of their rows; writes log p and slope of each sequence. */
static double pair_loss(const run *r, const tensor *sums, const int32_t *index)
{
    const batch *b = r->at.batch;
    const preference *p = b->prefer;
    const double beta = (double)p->beta;
    const int32_t n = b->n_seq / 2;
    double sum = 0;
    for (int32_t s = 0; s < b->n_seq; s++)
        p->logp[s] = 0;
    for (int64_t i = 0; i < rows(sums); i++)
        p->logp[b->row[index[i]].seq] -= (double)row(sums, i)[SUM_LOSS];
    for (int32_t s = 0; s + 1 < b->n_seq; s += 2) {
        const double m = beta *
                         ((p->logp[s] - p->reference[s]) - (p->logp[s + 1] - p->reference[s + 1]));
        sum += log_sigma_loss(m);
        p->slope[s] = beta / (1 + exp(m)) / n;
        p->slope[s + 1] = -p->slope[s];
    }
    return n > 0 ? sum / n : 0;
}

/* The mean loss of rows, with their weights. */
static double mean_loss(const run *r, const tensor *sums)
{
    const double total = total_weight(r);
    double sum = 0;
    for (int64_t i = 0; i < rows(sums); i++)
        sum += (double)row(sums, i)[SUM_LOSS];
    return total > 0 ? sum / total : 0;
}

static void parts_forward(run *r, const node *n)
{
    const tensor *x = n->in[X], *w = n->in[W];
    const int64_t N = rows(x), V = rows(w), most = rows_at_once(r, x, w);
    index_rows(r, (int32_t *)n->arg);
    for (int64_t i = 0; i < N; i += most) {
        const int64_t count = N - i < most ? N - i : most;
        const part p = { .of = n,
                         .z = { n->save[LOGITS]->data, count, V, V, 0, { 0 } },
                         .index = (const int32_t *)n->arg + i,
                         .row0 = i };
        product(r, p.z, some_rows(whole(x), i, count), w, n->in[BIAS]);
        parallel(r, count, 8 * V, loss_rows, &p);
    }
    row(n->out, 0)[0] = (real)(r->at.batch->prefer ? pair_loss(r, n->save[SUMS], n->arg)
                                                   : mean_loss(r, n->save[SUMS]));
}

/* ---- backward: a strip of tokens at a time */

#define MIN_STRIP 64 /* as many columns as a panel of products has */

static int64_t strip_width(const run *r, const tensor *x, int64_t V)
{
    const int64_t fit = logits_at_once(r, rows(x) > 0 ? rows(x) : 1) / MIN_STRIP * MIN_STRIP;
    const int64_t width = fit > MIN_STRIP ? fit : MIN_STRIP;
    return width < V ? width : V;
}

/* The slopes of n logits of row i, from column k of the strip on. */
static void some_slopes(const run *r, const part *p, int64_t i, int64_t k, int64_t n)
{
    const node *of = p->of;
    const real c = of->f[1];
    const batch_row *b = &r->at.batch->row[p->index[i]];
    const preference *prefer = r->at.batch->prefer;
    real *z = p->z.at + i * p->z.stride + k, t[PIECE];
    if (c > 0)
        cap_logits(r, z, t, n, c);
    row_slope(r->kern, b, z, p->token0 + k, n, row(of->save[SUMS], i)[SUM_LSE], of->f[0],
              rows(of->in[W]), prefer ? p->scale * prefer->slope[b->seq] : p->scale);
    for (int64_t j = 0; c > 0 && j < n; j++)
        z[j] *= 1 - t[j] * t[j];
}

static void strip_slopes(const run *r, const void *ctx, int64_t i0, int64_t i1)
{
    const part *p = ctx;
    const int64_t most = p->of->f[1] > 0 ? PIECE : p->z.cols;
    for (int64_t i = i0; i < i1; i++)
        for (int64_t k = 0; k < p->z.cols; k += most)
            some_slopes(r, p, i, k, p->z.cols - k < most ? p->z.cols - k : most);
}

/* The logits before the cap, where gains need them; or nothing. */
static matrix kept_logits(run *r, const node *n, const part *p)
{
    matrix y = p->z;
    if (!product_has_gain(r, n->in[W]))
        return (matrix){ 0 };
    y.at += n->i[0];
    memcpy(y.at, p->z.at, (size_t)(y.rows * y.cols) * sizeof *y.at);
    return y;
}

/* A strip of W and b. */
typedef struct weight_strip {
    tensor w, bias;
    const tensor *b; /* its bias, or NULL */
} weight_strip;

static weight_strip strip_of(const node *n, const part *p)
{
    weight_strip s = { .w = tensor_rows(n->in[W], p->token0, p->z.cols), .b = n->in[BIAS] };
    if (s.b)
        s.bias = tensor_rows(s.b, p->token0, p->z.cols);
    return s;
}

/* The slopes of a strip; returns its logits, where gains need them. */
static matrix slope_strip(run *r, const node *n, const part *p, const weight_strip *s)
{
    product(r, p->z, whole(n->in[X]), &s->w, s->b ? &s->bias : NULL);
    const matrix z = kept_logits(r, n, p);
    parallel(r, rows(n->in[X]), 8 * p->z.cols, strip_slopes, p);
    return z;
}

static void push_back(run *r, const node *n, const part *p)
{
    const tensor *x = n->in[X];
    const weight_strip s = strip_of(n, p);
    const matrix z = slope_strip(r, n, p, &s);
    product_back(r, x, x->grad_written || p->token0 > 0, z, p->z, &s.w, s.b ? &s.bias : NULL,
                 p->token0 > 0);
}

/* All strips, one after the other; fn takes the slopes of each. */
typedef void strip_fn(run *r, const node *n, const part *p);

static void each_strip(run *r, const node *n, strip_fn *fn, const loss_open_to *to)
{
    const tensor *x = n->in[X];
    const int64_t V = rows(n->in[W]), most = strip_width(r, x, V);
    const double total = r->at.batch->prefer ? 1 : total_weight(r);
    part p = {
        .of = n, .index = n->arg, .to = to, .scale = total > 0 ? (double)*n->out->grad / total : 0
    };
    for (; p.token0 < V; p.token0 += p.z.cols) {
        const int64_t width = V - p.token0 < most ? V - p.token0 : most;
        p.z = (matrix){ n->save[LOGITS]->data, rows(x), width, width, 0, { 0 } };
        fn(r, n, &p);
    }
}

static void parts_backward(run *r, const node *n)
{
    if (rows(n->in[X]) == 0) { /* no row has a target */
        for (int64_t i = W; i < n_input(n); i++)
            grad_clear(node_input(n, i));
        return;
    }
    each_strip(r, n, push_back, NULL);
}

/* ---- shown */

static void show_strip(run *r, const node *n, const part *p)
{
    const loss_open_to *to = p->to;
    const weight_strip s = strip_of(n, p);
    slope_strip(r, n, p, &s);
    for (int64_t i = 0; i < to->n; i++)
        memcpy(to->dz + i * rows(n->in[W]) + p->token0, p->z.at + to->row[i] * p->z.stride,
               (size_t)p->z.cols * sizeof *to->dz);
}

void loss_open(run *r, const node *n, const loss_open_to *to)
{
    const side_stack before = side_begin(r->side);
    for (int64_t i = 0; i < rows(n->in[X]); i++)
        to->loss[i] = row(n->save[SUMS], i)[SUM_LOSS];
    if (to->n > 0)
        each_strip(r, n, show_strip, to);
    side_end(before);
}

static cost parts_cost(const run *r, const node *n)
{
    (void)r;
    const double x = (double)rows(n->in[X]), V = (double)rows(n->in[W]), D = (double)cols(n->in[X]);
    return (cost){ .flops = 2 * x * V * D + 10 * x * V, .bytes = (x * D + V * D) * sizeof(real) };
}

const op linear_cross_entropy_op = { "linear_cross_entropy",
                                     "loss = sum w (-log softmax(x W^T + b)[target]) / sum w",
                                     parts_forward, parts_backward, parts_cost };

tensor *linear_cross_entropy_capped(run *r, tensor *x, const weight *w, real smoothing, real cap)
{
    assert(rows(x) == r->at.batch->n_wanted && cols(x) == cols(w->w));
    const int64_t N = rows(x), V = rows(w->w);
    const int64_t some = rows_at_once(r, x, w->w), strip = strip_width(r, x, V);
    const int64_t most = r->tape && N * strip > some * V ? N * strip : some * V;
    const bool copied = r->tape && product_has_gain(r, w->w);
    const tensor part_of = tensor_rows(w->w, 0, strip);
    node n = { .op = &linear_cross_entropy_op, .local = "loss", .in = { x, w->w, w->b } };
    n.f[0] = smoothing;
    n.f[1] = cap;
    n.out = tensor_new(r, 1, 1);
    n.i[0] = most;
    n.save[LOGITS] = tensor_new(r, 1, copied ? 2 * most : most);
    n.save[SUMS] = tensor_new(r, N, 2);
    product_plan(r, r->tape ? N : some, &part_of);
    adapt_inputs(r, &n, w->w, false);
    n.arg = index_new(r);
    return apply(r, &n);
}

tensor *linear_cross_entropy(run *r, tensor *x, const weight *w, real smoothing)
{
    return linear_cross_entropy_capped(r, x, w, smoothing, 0);
}
