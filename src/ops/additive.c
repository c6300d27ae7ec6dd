/* additive: y_i = sum_j p_j v_j    p = softmax(s)    s_j = w . tanh(q_i + k_j)
 *
 * Bahdanau's attention, over all rows of the source: query and key are first projected to a common
 * width A, so they may come from states of different widths. (Dot products replaced it because the
 * scores of all queries are then one matrix product; here each pair costs A tanh.)
 *
 * With u_j = tanh(q + k_j), p_j recomputed from the saved log sum exp, and delta = dy . y
 *
 *     ds_j = p_j (dy . v_j - delta)    dv_j += p_j dy    dw += ds_j u_j
 *     dq += g_j,  dk_j += g_j,         g_j = ds_j w (1 - u_j^2)
 *
 * Keys are taken in blocks of 256 in ascending order, as in attention. */
#include "ops/additive.h"
#include "ops/product.h"

#include "tensor/tape.h"

#include <assert.h>
#include <string.h>

#define KEY_BLOCK 256

enum { Q, K, V, SCORE };

/* ---- one query ------------------------------------------------------------------------------- */

static view sequence_view(const tensor *t, const sequence *s)
{
    return (view){ .type = &dtype_real,
                   .end = s->n,
                   .row_bytes = (size_t)t->stride * sizeof(real),
                   .base = (const char *)row(t, s->first) };
}

source_view source_rows(const sequence *s, const tensor *k, const tensor *v)
{
    return (source_view){ sequence_view(k, s), sequence_view(v, s), s->n, cols(k), cols(v) };
}

real additive_score(const run *r, const real *q, const real *score, const source_view *s, int64_t j)
{
    real room[MAX_HEAD], u[MAX_HEAD];
    const real *k = view_part(&s->k, j, 0, s->d_key, room);
    r->kern->add(u, q, k, s->d_key);
    r->kern->activate(room, u, ACT_TANH, s->d_key);
    return r->kern->dot(score, room, s->d_key);
}

/* y += p v_j */
static void add_value(const run *r, const source_view *s, int64_t j, real p, real *y)
{
    real room[MAX_HEAD];
    for (int64_t c = 0; c < s->d_value; c += MAX_HEAD) {
        const int64_t n = s->d_value - c < MAX_HEAD ? s->d_value - c : MAX_HEAD;
        r->kern->axpy(y + c, p, view_part(&s->v, j, c, n, room), n);
    }
}

real additive_pool(const run *r, const real *q, const real *score, const source_view *s, real *y)
{
    real p[KEY_BLOCK], m = -INFINITY, l = 0;
    memset(y, 0, (size_t)s->d_value * sizeof *y);
    for (int64_t b = 0; b < s->n; b += KEY_BLOCK) {
        const int64_t n = s->n - b < KEY_BLOCK ? s->n - b : KEY_BLOCK;
        for (int64_t j = 0; j < n; j++)
            p[j] = additive_score(r, q, score, s, b + j);
        real m_b;
        const real l_b = r->kern->exp_block(p, n, 1, &m_b);
        const real top = m_b > m ? m_b : m;
        real share[] = { m, m_b };
        r->kern->exp_less(share, 2, top);
        const real keep = share[0], take = share[1];
        for (int64_t c = 0; c < s->d_value; c++)
            y[c] *= keep;
        for (int64_t j = 0; j < n; j++)
            add_value(r, s, b + j, p[j] * take, y);
        l = l * keep + l_b * take;
        m = top;
    }
    for (int64_t c = 0; s->n > 0 && c < s->d_value; c++)
        y[c] /= l;
    return m + r->kern->log_of(l);
}

void additive_back(const run *r, const additive_grad *g)
{
    const int64_t A = cols(g->k), D = cols(g->v);
    const real delta = r->kern->dot(g->dy, g->y, D);
    real sum[MAX_HEAD], u[MAX_HEAD];
    memset(g->dq, 0, (size_t)A * sizeof *g->dq);
    memset(g->dscore, 0, (size_t)A * sizeof *g->dscore);
    for (int64_t j = g->first; j < g->first + g->n; j++) {
        r->kern->add(sum, g->q, row(g->k, j), A);
        r->kern->activate(u, sum, ACT_TANH, A);
        real p = r->kern->dot(g->score, u, A);
        r->kern->exp_less(&p, 1, g->lse); /* as in forward */
        const real ds = p * (r->kern->dot(g->dy, row(g->v, j), D) - delta);
        if (g->v->needs_grad)
            r->kern->axpy(grad_row(g->v, j), p, g->dy, D);
        r->kern->axpy(g->dscore, ds, u, A);
        for (int64_t c = 0; c < A; c++)
            u[c] = ds * g->score[c] * (1 - u[c] * u[c]);
        r->kern->add(g->dq, g->dq, u, A);
        if (g->k->needs_grad)
            r->kern->add(grad_row(g->k, j), grad_row(g->k, j), u, A);
    }
}

/* ---- the op ---------------------------------------------------------------------------------- */

static const sequence *additive_source(const run *r, int64_t i)
{
    return &r->at.src->seq[r->at.batch->seq[r->at.batch->row[i].seq].source];
}

static void additive_rows(const run *r, const void *ctx, int64_t i0, int64_t i1)
{
    const node *n = ctx;
    for (int64_t i = i0; i < i1; i++) {
        const source_view s = source_rows(additive_source(r, i), n->in[K], n->in[V]);
        const real lse = additive_pool(r, row(n->in[Q], i), values(n->in[SCORE]), &s,
                                       row(n->out, i));
        if (n->save[0])
            row(n->save[0], i)[2 * s.d_key] = lse;
    }
}

static int64_t additive_row_cost(const node *n)
{
    return rows(n->in[K]) * (8 * cols(n->in[K]) + cols(n->in[V]));
}

static void additive_forward(run *r, const node *n)
{
    parallel(r, rows(n->out), additive_row_cost(n), additive_rows, n);
}

/* One thread owns a source's keys and values, with all queries that attend to it. */
static void additive_sources_back(const run *r, const void *ctx, int64_t s0, int64_t s1)
{
    const node *n = ctx;
    const int64_t A = cols(n->in[K]);
    for (int64_t i = 0; i < rows(n->out); i++) {
        const sequence *s = additive_source(r, i);
        if (s - r->at.src->seq < s0 || s - r->at.src->seq >= s1)
            continue;
        real *kept = row(n->save[0], i);
        const additive_grad g = { row(n->in[Q], i),
                                  values(n->in[SCORE]),
                                  row(n->out, i),
                                  grad_row(n->out, i),
                                  kept[2 * A],
                                  kept,
                                  kept + A,
                                  n->in[K],
                                  n->in[V],
                                  s->first,
                                  s->n };
        additive_back(r, &g);
    }
}

static void additive_backward(run *r, const node *n)
{
    const tensor *q = n->in[Q], *score = n->in[SCORE];
    const int64_t A = cols(q);
    const matrix kept = whole(n->save[0]);
    grad_clear(n->in[K]);
    grad_clear(n->in[V]);
    parallel(r, r->at.src->n_seq, 3 * additive_row_cost(n), additive_sources_back, n);
    for (int64_t i = 0; q->needs_grad && i < rows(q); i++)
        for (int64_t c = 0; c < A; c++)
            grad_put(grad_row(q, i) + c, q->grad_written, row(n->save[0], i)[c]);
    if (score->needs_grad)
        product_db(r, score, score->grad_written,
                   (matrix){ kept.at + A, kept.rows, A, kept.stride, 0, { 0 } });
}

static cost additive_cost(const run *r, const node *n)
{
    (void)r;
    return (cost){ .flops = (double)rows(n->out) * (double)additive_row_cost(n),
                   .bytes = cost_streaming(n, 0).bytes };
}

extern const op additive_op;
const op additive_op = { "additive", "y = sum_j p_j v_j,  p = softmax(w . tanh(q + k_j))",
                         additive_forward, additive_backward, additive_cost };

tensor *additive(run *r, tensor *q, tensor *k, tensor *v, tensor *score)
{
    assert(cols(q) == cols(k) && cols(q) == cols(score) && cols(q) <= MAX_HEAD);
    assert(rows(q) == r->at.batch->n_row && rows(k) == r->at.src->n_row &&
           rows(v) == r->at.src->n_row);
    node n = { .op = &additive_op, .local = "additive", .in = { q, k, v, score } };
    n.out = tensor_new(r, rows(q), cols(v));
    if (r->tape)
        n.save[0] = tensor_new(r, rows(q), 2 * cols(q) + 1); /* dq, dw, log sum exp */
    return apply(r, &n);
}
