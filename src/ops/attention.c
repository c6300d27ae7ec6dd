/* attention: y_i,h = sum_j p_j v_j,h'    p = softmax(s)    s_j = scale q_i,h . k_j,h' + bias(j - i)
 *
 * Query head h reads key and value head h' = floor(h K / H): the heads of a group share, nothing is
 * repeated.
 *
 * Keys are cut into blocks of 256 at absolute positions. Each block gives its maximum m, sum l =
 * sum exp(s - m) and output o = sum exp(s - m) v; blocks are merged in ascending order,
 *
 *     m' = max(m, m_b)    l' = l e^(m - m') + l_b e^(m_b - m')    o' likewise
 *
 * and y = o / l. No row of scores longer than a block exists, and the order of every sum depends on
 * positions only: a prompt at once, in chunks, or token by token gives the same bits. Keys and
 * values are read through the cache's format, this call's rows included, for the same reason. Keys
 * out of sight are never touched: masking is by index. A query that sees no key gives zeros. */
#include "ops/ops.h"

#include "tensor/tape.h"

#include <assert.h>
#include <string.h>

#define KEY_BLOCK 256

enum { Q, K, V, BIAS };
enum { STREAM_K, STREAM_V };
enum { LSE, DELTA }; /* saved when recording, [N, H]: log sum exp of the scores; dy . y */

/* ---- which keys a query sees, and where they are --------------------------------------------- */

typedef struct sight {
    view k, v;
    int64_t lo, hi; /* positions of the keys it sees */
} sight;

static view row_view(const tensor *t, const batch *b, const sequence *s)
{
    const int64_t first = s->n > 0 ? b->row[s->first].pos : 0;
    return (view){ .type = &dtype_real,
                   .first = first,
                   .end = first + s->n,
                   .row_bytes = (size_t)t->stride * sizeof(real),
                   .base = (const char *)row(t, s->first) };
}

/* The batch and sequence that hold the keys of a query's sequence. */
static const batch *key_batch(const run *r, const attn *a)
{
    return a->kind == ATTN_CROSS ? r->src : r->batch;
}

static const sequence *key_sequence(const run *r, const attn *a, const batch_row *q)
{
    const sequence *s = &r->batch->seq[q->seq];
    return a->kind == ATTN_CROSS ? &r->src->seq[s->source] : s;
}

static int64_t key_end(const run *r, const attn *a, const batch_row *q)
{
    const sequence *s = key_sequence(r, a, q);
    const batch *b = key_batch(r, a);
    if (a->kind == ATTN_CAUSAL)
        return q->pos + 1;
    return s->n > 0 ? b->row[s->first].pos + s->n : s->cache ? s->cache->length : 0;
}

static sight look(const run *r, const node *n, const batch_row *q)
{
    const attn *a = n->arg;
    const int layer = (int)n->i[0];
    const sequence *s = key_sequence(r, a, q);
    sight g = { .hi = key_end(r, a, q) };
    if (s->cache && a->kind != ATTN_FULL) {
        g.k = cache_view(s->cache, layer, STREAM_K, g.hi);
        g.v = cache_view(s->cache, layer, STREAM_V, g.hi);
    } else {
        g.k = row_view(n->in[K], key_batch(r, a), s);
        g.v = row_view(n->in[V], key_batch(r, a), s);
    }
    g.lo = g.k.first;
    if (a->window > 0 && g.lo < q->pos + 1 - a->window)
        g.lo = q->pos + 1 - a->window;
    return g;
}

/* T5: half of the buckets for near distances one by one, the rest for far ones on a log scale. */
static int64_t bucket(int64_t distance, int64_t n_bucket, const attn_bias *b)
{
    int64_t at = 0, d = -distance;
    if (b->two_sided) {
        n_bucket /= 2;
        at = distance > 0 ? n_bucket : 0;
        d = distance < 0 ? -distance : distance;
    }
    d = d < 0 ? 0 : d;
    const int64_t exact = n_bucket / 2;
    if (d < exact)
        return at + d;
    const float far = logf((float)d / (float)exact) /
                      (float)log((double)b->max_distance / (double)exact) *
                      (float)(n_bucket - exact);
    const int64_t far_at = exact + (int64_t)far;
    return at + (far_at < n_bucket - 1 ? far_at : n_bucket - 1);
}

/* Scores of query (row i, head h) with keys [j0, j1). */
static void score(const run *r, const node *n, int64_t i, int64_t h, const view *k, int64_t j0,
                  int64_t j1, real *s)
{
    const attn *a = n->arg;
    const real *q = row(n->in[Q], i) + h * a->d_key;
    const int64_t at = h * a->n_head_kv / a->n_head * a->d_key;
    real buffer[MAX_HEAD];
    for (int64_t j = j0; j < j1; j++) {
        const real *key = k->type->tile(buffer, view_row(k, j), at, a->d_key);
        s[j - j0] = a->scale * r->kern->dot(q, key, a->d_key);
        if (n->in[BIAS]) {
            const int64_t b = bucket(j - r->batch->row[i].pos, rows(n->in[BIAS]), &a->bias);
            s[j - j0] += values(n->in[BIAS])[b * a->n_head + h];
        }
    }
}

/* ---- forward --------------------------------------------------------------------------------- */

static void merge(real *o, real *l, real *m, const real *o_b, real l_b, real m_b, int64_t n)
{
    const real top = m_b > *m ? m_b : *m;
    const real keep = exp(*m - top), take = exp(m_b - top);
    for (int64_t k = 0; k < n; k++)
        o[k] = o[k] * keep + o_b[k] * take;
    *l = *l * keep + l_b * take;
    *m = top;
}

static void attend(const run *r, const node *n, int64_t i, int64_t h)
{
    const attn *a = n->arg;
    const sight g = look(r, n, &r->batch->row[i]);
    const int64_t E = a->d_value, at = h * a->n_head_kv / a->n_head * E;
    real s[KEY_BLOCK], o_b[MAX_HEAD], buffer[MAX_HEAD], m = -INFINITY, l = 0;
    real *o = row(n->out, i) + h * E;
    memset(o, 0, (size_t)E * sizeof *o);

    for (int64_t b = g.lo / KEY_BLOCK * KEY_BLOCK; b < g.hi; b += KEY_BLOCK) {
        const int64_t j0 = b > g.lo ? b : g.lo, j1 = b + KEY_BLOCK < g.hi ? b + KEY_BLOCK : g.hi;
        real m_b;
        score(r, n, i, h, &g.k, j0, j1, s);
        const real l_b = r->kern->exp_block(s, j1 - j0, &m_b);
        memset(o_b, 0, (size_t)E * sizeof *o_b);
        for (int64_t j = j0; j < j1; j++) {
            const real *v = g.v.type->tile(buffer, view_row(&g.v, j), at, E);
            r->kern->axpy(o_b, s[j - j0], v, E);
        }
        merge(o, &l, &m, o_b, l_b, m_b, E);
    }
    for (int64_t k = 0; l > 0 && k < E; k++)
        o[k] /= l;
    if (n->save[LSE])
        row(n->save[LSE], i)[h] = m + log(l);
}

static void queries(const run *r, const node *n, int64_t u0, int64_t u1)
{
    const int64_t H = ((const attn *)n->arg)->n_head;
    for (int64_t u = u0; u < u1; u++)
        attend(r, n, u / H, u % H);
}

/* This call's keys and values go into the caches before anybody looks. */
static void remember(const run *r, const node *n)
{
    const attn *a = n->arg;
    const batch *b = key_batch(r, a);
    if (!n->in[K] || a->kind == ATTN_FULL)
        return;
    for (int64_t i = 0; i < rows(n->in[K]); i++) {
        const cache *c = b->seq[b->row[i].seq].cache;
        if (!c)
            continue;
        cache_store(c, (int)n->i[0], STREAM_K, b->row[i].pos, row(n->in[K], i));
        cache_store(c, (int)n->i[0], STREAM_V, b->row[i].pos, row(n->in[V], i));
    }
}

/* ---- backward -------------------------------------------------------------------------------- */

/* With p_j = exp(s_j - lse) made again block by block and delta = dy . y, for every query and key
 *
 *     ds_j = p_j (dy . v_j - delta)   dv_j += p_j dy   dq += scale ds_j k_j   dk_j += scale ds_j q
 *
 * Queries own dq and keys own dk and dv, so there are two passes and no two threads add to one
 * number; the bias table, summed over all pairs, is a third, a head to a thread. */

/* p and ds of query (i, h) for keys [j0, j1). */
static void slopes(const run *r, const node *n, int64_t i, int64_t h, const sight *g, int64_t j0,
                   int64_t j1, real *p, real *ds)
{
    const attn *a = n->arg;
    const real *dy = grad_row(n->out, i) + h * a->d_value;
    const int64_t at = h * a->n_head_kv / a->n_head * a->d_value;
    score(r, n, i, h, &g->k, j0, j1, p);
    for (int64_t j = j0; j < j1; j++) {
        const real *v = (const real *)view_row(&g->v, j) + at;
        p[j - j0] = exp(p[j - j0] - row(n->save[LSE], i)[h]);
        ds[j - j0] = p[j - j0] * (r->kern->dot(dy, v, a->d_value) - row(n->save[DELTA], i)[h]);
    }
}

static void query_grad(const run *r, const node *n, int64_t i, int64_t h)
{
    const attn *a = n->arg;
    const tensor *q = n->in[Q];
    const sight g = look(r, n, &r->batch->row[i]);
    const int64_t at = h * a->n_head_kv / a->n_head * a->d_key;
    real p[KEY_BLOCK], ds[KEY_BLOCK], dq[MAX_HEAD] = { 0 };
    for (int64_t j0 = g.lo; j0 < g.hi; j0 += KEY_BLOCK) {
        const int64_t j1 = j0 + KEY_BLOCK < g.hi ? j0 + KEY_BLOCK : g.hi;
        slopes(r, n, i, h, &g, j0, j1, p, ds);
        for (int64_t j = j0; j < j1; j++)
            r->kern->axpy(dq, a->scale * ds[j - j0], (const real *)view_row(&g.k, j) + at,
                          a->d_key);
    }
    for (int64_t e = 0; e < a->d_key; e++)
        grad_put(grad_row(q, i) + h * a->d_key + e, q->grad_written, dq[e]);
}

static void query_grads(const run *r, const node *n, int64_t u0, int64_t u1)
{
    const int64_t H = ((const attn *)n->arg)->n_head;
    for (int64_t u = u0; u < u1; u++)
        query_grad(r, n, u / H, u % H);
}

static void deltas(const run *r, const node *n, int64_t u0, int64_t u1)
{
    const attn *a = n->arg;
    for (int64_t u = u0; u < u1; u++) {
        const int64_t i = u / a->n_head, h = u % a->n_head, at = h * a->d_value;
        row(n->save[DELTA], i)[h] = r->kern->dot(grad_row(n->out, i) + at, row(n->out, i) + at,
                                                 a->d_value);
    }
}

/* Adds what query (i, h) sends to the key and value at position pos, if it sees them. */
static void collect(const run *r, const node *n, int64_t i, int64_t h, int64_t pos, real *dk,
                    real *dv)
{
    const attn *a = n->arg;
    const sight g = look(r, n, &r->batch->row[i]);
    real p, ds;
    if (pos < g.lo || pos >= g.hi)
        return;
    slopes(r, n, i, h, &g, pos, pos + 1, &p, &ds);
    r->kern->axpy(dk, a->scale * ds, row(n->in[Q], i) + h * a->d_key, a->d_key);
    r->kern->axpy(dv, p, grad_row(n->out, i) + h * a->d_value, a->d_value);
}

/* Key and value head g of row k_row, from all queries in ascending order. */
static void key_grad(const run *r, const node *n, int64_t k_row, int64_t g)
{
    const attn *a = n->arg;
    const batch_row *key = &key_batch(r, a)->row[k_row];
    const tensor *k = n->in[K], *v = n->in[V];
    const int64_t group = a->n_head / a->n_head_kv;
    real dk[MAX_HEAD] = { 0 }, dv[MAX_HEAD] = { 0 };
    for (int64_t i = 0; i < r->batch->n_row; i++) {
        const sequence *s = key_sequence(r, a, &r->batch->row[i]);
        if (s != &key_batch(r, a)->seq[key->seq])
            continue;
        for (int64_t h = g * group; h < (g + 1) * group; h++)
            collect(r, n, i, h, key->pos, dk, dv);
    }
    for (int64_t e = 0; k->needs_grad && e < a->d_key; e++)
        grad_put(grad_row(k, k_row) + g * a->d_key + e, k->grad_written, dk[e]);
    for (int64_t e = 0; v->needs_grad && e < a->d_value; e++)
        grad_put(grad_row(v, k_row) + g * a->d_value + e, v->grad_written, dv[e]);
}

static void key_grads(const run *r, const node *n, int64_t u0, int64_t u1)
{
    const int64_t heads = ((const attn *)n->arg)->n_head_kv;
    for (int64_t u = u0; u < u1; u++)
        key_grad(r, n, u / heads, u % heads);
}

static void bias_grads(const run *r, const node *n, int64_t h0, int64_t h1)
{
    const attn *a = n->arg;
    const tensor *t = n->in[BIAS];
    real p[KEY_BLOCK], ds[KEY_BLOCK];
    for (int64_t h = h0; h < h1; h++) {
        for (int64_t b = 0; !t->grad_written && b < rows(t); b++)
            t->grad[b * a->n_head + h] = 0;
        for (int64_t i = 0; i < rows(n->out); i++) {
            const sight g = look(r, n, &r->batch->row[i]);
            for (int64_t j0 = g.lo; j0 < g.hi; j0 += KEY_BLOCK) {
                const int64_t j1 = j0 + KEY_BLOCK < g.hi ? j0 + KEY_BLOCK : g.hi;
                slopes(r, n, i, h, &g, j0, j1, p, ds);
                for (int64_t j = j0; j < j1; j++) {
                    const int64_t b = bucket(j - r->batch->row[i].pos, rows(t), &a->bias);
                    t->grad[b * a->n_head + h] += ds[j - j0];
                }
            }
        }
    }
}

/* Keys seen by all queries together. */
static double keys_seen(const run *r, const attn *a)
{
    double seen = 0;
    for (int64_t i = 0; i < r->batch->n_row; i++) {
        const int64_t end = key_end(r, a, &r->batch->row[i]);
        seen += (double)(a->window > 0 && a->window < end ? a->window : end);
    }
    return seen;
}

static void forward(run *r, const node *n)
{
    const attn *a = n->arg;
    remember(r, n);
    if (rows(n->out) == 0)
        return;
    const double each = keys_seen(r, a) * (double)(a->d_key + a->d_value) / (double)rows(n->out);
    parallel(r, n, rows(n->out) * a->n_head, (int64_t)each, queries);
}

static void backward(run *r, const node *n)
{
    const attn *a = n->arg;
    const int64_t N = rows(n->out), keys = rows(n->in[K]);
    if (N == 0) {
        for (int i = K; i <= BIAS; i++)
            grad_clear(n->in[i]);
        return;
    }
    const int64_t each = (int64_t)(keys_seen(r, a) / (double)N) * 2 * (a->d_key + a->d_value);
    parallel(r, n, N * a->n_head, a->d_value, deltas);
    if (n->in[Q]->needs_grad)
        parallel(r, n, N * a->n_head, each, query_grads);
    if (n->in[K]->needs_grad || n->in[V]->needs_grad)
        parallel(r, n, keys * a->n_head_kv, each, key_grads);
    if (n->in[BIAS] && n->in[BIAS]->needs_grad)
        parallel(r, n, a->n_head, N * each, bias_grads);
}

static cost attention_cost(const run *r, const node *n)
{
    const attn *a = n->arg;
    const double seen = keys_seen(r, a);
    const double width = (double)(a->d_key + a->d_value);
    return (cost){ 2 * seen * (double)a->n_head * width,
                   seen * (double)a->n_head_kv * width * sizeof(real) };
}

extern const op attention_op;
const op attention_op = { "attention", forward, backward, attention_cost };

/* ---- maps, only for a trace ------------------------------------------------------------------ */

static void scores_forward(run *r, const node *n)
{
    const int64_t H = ((const attn *)n->arg)->n_head;
    for (int64_t u = 0; u < rows(n->out); u++) {
        const sight g = look(r, n, &r->batch->row[u / H]);
        real *s = row(n->out, u);
        for (int64_t j = 0; j < cols(n->out); j++)
            s[j] = -INFINITY;
        score(r, n, u / H, u % H, &g.k, g.lo, g.hi, s + g.lo);
    }
}

static void probs_forward(run *r, const node *n)
{
    for (int64_t u = 0; u < rows(n->out); u++) {
        real *p = row(n->out, u), max;
        memcpy(p, row(n->in[0], u), (size_t)cols(n->out) * sizeof *p);
        const real sum = r->kern->exp_block(p, cols(n->out), &max);
        for (int64_t j = 0; j < cols(n->out); j++)
            p[j] = max > -INFINITY ? p[j] / sum : 0;
    }
}

static cost map_cost(const run *r, const node *n)
{
    (void)r;
    return cost_streaming(n, 10);
}

extern const op attention_scores_op, attention_probs_op;
const op attention_scores_op = { "scores", scores_forward, NULL, map_cost };
const op attention_probs_op = { "probs", probs_forward, NULL, map_cost };

/* Scores and probabilities as [N H, T]: row i H + h is query i, head h; column j is the key at
 * position j. */
static void show_maps(run *r, const node *of)
{
    const attn *a = of->arg;
    int64_t T = 1;
    for (int64_t i = 0; i < r->batch->n_row; i++) {
        const int64_t end = key_end(r, a, &r->batch->row[i]);
        T = end > T ? end : T;
    }
    tape *recording = r->tape; /* maps are looked at, not learned from */
    const bool counting = r->counting;
    r->tape = NULL;
    r->counting = false;
    node scores = *of;
    scores.op = &attention_scores_op;
    scores.local = "attention.scores";
    scores.out = tensor_new(r, rows(of->out) * a->n_head, T);
    tensor *s = apply(r, &scores);

    node probs = { .op = &attention_probs_op, .local = "attention.probs", .in = { s } };
    probs.out = tensor_new(r, rows(s), cols(s));
    apply(r, &probs);
    r->tape = recording;
    r->counting = counting;
}

tensor *attention(run *r, tensor *q, tensor *k, tensor *v, const attn *a, int layer)
{
    assert(cols(q) == a->n_head * a->d_key && rows(q) == r->batch->n_row);
    assert(!k || cols(k) == a->n_head_kv * a->d_key);
    assert(!v || cols(v) == a->n_head_kv * a->d_value);
    assert(k || a->kind == ATTN_CROSS);
    assert(!r->tape || r->batch->n_seq == 0 || !r->batch->seq[0].cache);
    node n = {
        .op = &attention_op, .local = "attention", .in = { q, k, v, a->bias.table }, .arg = a
    };
    n.i[0] = layer;
    n.out = tensor_new(r, rows(q), a->n_head * a->d_value);
    if (r->tape) {
        n.save[LSE] = tensor_new(r, rows(q), a->n_head);
        n.save[DELTA] = tensor_new(r, rows(q), a->n_head);
    }
    tensor *y = apply(r, &n);
    if (r->trace_maps)
        show_maps(r, &n);
    return y;
}
