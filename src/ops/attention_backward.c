/* attention_backward.c - gradients of attention, without a matrix of scores.
 *
 * With p_j = exp(s_j - lse) recomputed page by page and delta = dy . y, for every query and key
 *
 *     ds_j = p_j (dy . v_j - delta)   dv_j += p_j dy   dq += scale ds_j k_j   dk_j += scale ds_j q
 *
 * With a cap, ds_j is multiplied by 1 - (s_j / cap)^2. A sink has p = exp(sink - lse) and no value,
 * so its gradient is -p delta, summed over all rows.
 *
 * Queries own dq and keys own dk and dv, so there are two passes and no two threads add to the same
 * value. A third pass sums the bias table over all pairs, one head per thread.
 *
 *              pages of keys
 *              0    1    2    3
 *     tile 0  [x]                     pass 1, a thread has a row of this picture:    dq
 *     tile 1  [x]  [x]                pass 2, a thread has a column of it:           dk, dv
 *     tile 2  [x]  [x]  [x]           pass 3, a thread has a head of all of it:      dbias
 */
#include "ops/attention_backward.h"

#include "ops/attention_tile.h"
#include "tensor/tape.h"

#include <string.h>

/* 1 - (s / cap)^2, or 1 without a cap. */
static void cap_slopes(real cap, const real *s, real *bend, int64_t n)
{
    for (int64_t j = 0; j < n; j++)
        bend[j] = cap > 0 ? 1 - s[j] / cap * (s[j] / cap) : 1;
}

/* p, and ds times `by`, of a tile for the keys [k0, k1) of one page, rows PAGE_ROWS apart. */
static void slopes(const run *r, const node *n, const query_tile *c, int64_t k0, int64_t k1,
                   real by, real *p, real *ds)
{
    const attn *a = n->arg;
    real *packed = side_take(QUERY_FLOATS * sizeof *packed);
    tile_pack(r, c, row(n->in[Q], 0), n->in[Q]->stride, a->d_key, packed);
    tile_score(r, n, c, packed, k0, k1, p, PAGE_ROWS);
    tile_pack(r, c, grad_row(n->out, 0), n->out->stride, a->d_value, packed);
    const row_set v = tile_keys(r, &c->v, k0, c->v_at, a->d_value);
    r->kern->product(ds, PAGE_ROWS, false, packed, c->n, a->d_value, &v, true, 0,
                     row_blocks(c->n, r->kern->rows), 0, k1 - k0);
    side_give(packed);
    for (int64_t i = 0; i < c->n; i++) {
        const int64_t h = pair_head(c, i);
        const real lse = row(n->save[LSE], pair_row(c, i))[h];
        const real delta = row(n->save[DELTA], pair_row(c, i))[h];
        real *p_i = p + i * PAGE_ROWS, *ds_i = ds + i * PAGE_ROWS, bend[PAGE_ROWS];
        cap_slopes(a->cap, p_i, bend, k1 - k0);
        r->kern->exp_less(p_i, k1 - k0, lse);
        for (int64_t j = 0; j < k1 - k0; j++) {
            const bool seen = k0 + j >= c->lo[i] && k0 + j < c->hi[i];
            p_i[j] = seen ? p_i[j] : 0;
            ds_i[j] = seen ? by * p_i[j] * (ds_i[j] - delta) * bend[j] : 0;
        }
    }
}

static void query_grad(const run *r, const node *n, const query_tile *c)
{
    const attn *a = n->arg;
    const tensor *q = n->in[Q];
    const int64_t E = a->d_key, R = row_blocks(c->n, r->kern->rows);
    real *p = side_take(QUERY_TILE * PAGE_ROWS * sizeof *p);
    real *ds = side_take(QUERY_TILE * PAGE_ROWS * sizeof *ds);
    real *packed = side_take(QUERY_TILE * PAGE_ROWS * sizeof *packed);
    real *dq = side_take(QUERY_FLOATS * sizeof *dq);
    memset(dq, 0, QUERY_FLOATS * sizeof *dq);
    for (int64_t k0 = c->first_key; k0 < c->end_key; k0 = page_end(k0, c->end_key)) {
        const int64_t k1 = page_end(k0, c->end_key);
        slopes(r, n, c, k0, k1, a->scale, p, ds);
        const row_set k = tile_keys(r, &c->k, k0, c->k_at, E);
        r->kern->pack(packed, ds, PAGE_ROWS, 1, c->n, k1 - k0, false, 0, R);
        r->kern->product(dq, E, true, packed, c->n, k1 - k0, &k, false, 0, R, 0, E);
    }
    for (int64_t i = 0; i < c->n; i++)
        for (int64_t e = 0; e < E; e++)
            grad_put(grad_row(q, pair_row(c, i)) + pair_head(c, i) * E + e, q->grad_written,
                     dq[i * E + e]);
    side_give(p);
}

static void attention_query_grads(const run *r, const void *ctx, int64_t u0, int64_t u1)
{
    const node *n = ctx;
    attention_each_tile(r, n, u0, u1, query_grad);
}

static void deltas(const run *r, const void *ctx, int64_t u0, int64_t u1)
{
    const node *n = ctx;
    const attn *a = n->arg;
    for (int64_t u = u0; u < u1; u++) {
        const int64_t i = u / a->n_head, h = u % a->n_head, at = h * a->d_value;
        row(n->save[DELTA], i)[h] = r->kern->dot(grad_row(n->out, i) + at, row(n->out, i) + at,
                                                 a->d_value);
    }
}

/* grad of t[first key + j, at + e] += sum over the tile of w[i, j] x[i, e]: the contribution of one
 * head's queries to the keys of a page. */
static void send_grads(const run *r, const tensor *t, int64_t k_row, int64_t at, const real *w,
                       const query_tile *c, int64_t keys, const real *x, int64_t x_stride,
                       int64_t width)
{
    real *packed = side_take(QUERY_TILE * PAGE_ROWS * sizeof *packed);
    row_set x_rows = dtype_rows(&dtype_real, r->kern, x, width);
    x_rows.row_bytes = (size_t)x_stride * sizeof(real);
    r->kern->pack(packed, w, 1, PAGE_ROWS, keys, c->n, false, 0, row_blocks(keys, r->kern->rows));
    r->kern->product(grad_row(t, k_row) + at, t->stride, true, packed, keys, c->n, &x_rows, false,
                     0, row_blocks(keys, r->kern->rows), 0, width);
    side_give(packed);
}

/* The contribution of one sequence's queries to key and value head kv of the page [k0, k1), in
 * ascending order; `first` is the row of its first key. */
static void collect_grads(const run *r, const node *n, const sequence *s, int64_t kv, int64_t first,
                          int64_t k0, int64_t k1)
{
    const attn *a = n->arg;
    const tensor *k = n->in[K], *v = values_in_keys(n) ? k : n->in[V];
    const int64_t group = a->n_head / a->n_head_kv, most = tile_size(a);
    real *p = side_take(QUERY_TILE * PAGE_ROWS * sizeof *p);
    real *ds = side_take(QUERY_TILE * PAGE_ROWS * sizeof *ds);
    for (int64_t u = 0; u < group * row_blocks(s->n, most); u++) {
        const int64_t h = kv * group + u % group, i = u / group * most, q_row = s->first + i;
        const query_tile c = tile_make(r, n, q_row, 1, h, 0, s->n - i < most ? s->n - i : most);
        const int64_t end = k1 < c.end_key ? k1 : c.end_key;
        if (end <= k0 || c.first_key >= k1)
            continue;
        slopes(r, n, &c, k0, end, a->scale, p, ds);
        if (k->needs_grad)
            send_grads(r, k, first, kv * a->d_key, ds, &c, end - k0,
                       row(n->in[Q], q_row) + h * a->d_key, n->in[Q]->stride, a->d_key);
        if (v->needs_grad)
            send_grads(r, v, first, c.v_at, p, &c, end - k0,
                       grad_row(n->out, q_row) + h * a->d_value, n->out->stride, a->d_value);
    }
    side_give(p);
}

/* Zeroes columns [at, at + width) of some rows' gradient, unless it has been written. */
static void clear_columns(const tensor *t, int64_t first, int64_t count, int64_t at, int64_t width)
{
    for (int64_t i = 0; t->needs_grad && !t->grad_written && i < count; i++)
        memset(grad_row(t, first + i) + at, 0, (size_t)width * sizeof(real));
}

static void page_grads(const run *r, const void *ctx, int64_t u0, int64_t u1)
{
    const node *n = ctx;
    const attn *a = n->arg;
    const batch *b = key_batch(r, a);
    int64_t u = 0; /* pages of all sequences of keys, a head each */
    for (const sequence *ks = b->seq; ks < b->seq + b->n_seq; ks++)
        for (int64_t page = 0; page < row_blocks(ks->n, PAGE_ROWS); page++)
            for (int64_t kv = 0; kv < a->n_head_kv; kv++, u++) {
                if (u < u0 || u >= u1)
                    continue;
                const int64_t first = ks->first + page * PAGE_ROWS, k0 = b->row[first].pos;
                const int64_t left = ks->n - page * PAGE_ROWS;
                const int64_t keys = left < PAGE_ROWS ? left : PAGE_ROWS;
                clear_columns(n->in[K], first, keys, kv * a->d_key, a->d_key);
                if (n->in[V])
                    clear_columns(n->in[V], first, keys, kv * a->d_value, a->d_value);
                for (int64_t s = 0; s < r->at.batch->n_seq; s++) {
                    const sequence *q = &r->at.batch->seq[s];
                    if (q->n > 0 && key_sequence(r, a, &r->at.batch->row[q->first]) == ks)
                        collect_grads(r, n, q, kv, first, k0, k0 + keys);
                }
            }
}

/* The contribution of a tile of one head to the bias table. */
static void bias_grad(const run *r, const node *n, const query_tile *c)
{
    real *p = side_take(QUERY_TILE * PAGE_ROWS * sizeof *p), *to = n->in[BIAS]->grad + c->h0;
    real *ds = side_take(QUERY_TILE * PAGE_ROWS * sizeof *ds);
    const int64_t last = r->at.batch->row[pair_row(c, c->n - 1)].pos;
    for (int64_t k0 = c->first_key; k0 < c->end_key; k0 = page_end(k0, c->end_key)) {
        int64_t at[QUERY_TILE + PAGE_ROWS];
        const int64_t k1 = page_end(k0, c->end_key);
        slopes(r, n, c, k0, k1, 1, p, ds);
        tile_buckets(r, n, c, k0, k1, at);
        for (int64_t i = 0; i < c->n; i++) {
            const int64_t shift = last - r->at.batch->row[pair_row(c, i)].pos;
            for (int64_t j = 0; j < k1 - k0; j++)
                to[at[j + shift]] += ds[i * PAGE_ROWS + j];
        }
    }
    side_give(p);
}

static void bias_grads(const run *r, const void *ctx, int64_t h0, int64_t h1)
{
    const node *n = ctx;
    const attn *a = n->arg;
    const tensor *t = n->in[BIAS];
    const int64_t most = tile_size(a);
    for (int64_t h = h0; h < h1; h++) {
        for (int64_t b = 0; !t->grad_written && b < rows(t); b++)
            t->grad[b * a->n_head + h] = 0;
        for (const sequence *s = r->at.batch->seq; s < r->at.batch->seq + r->at.batch->n_seq; s++)
            for (int64_t i = 0; i < s->n; i += most) {
                const int64_t left = s->n - i;
                const query_tile c = tile_make(r, n, s->first + i, 1, h, 0,
                                               left < most ? left : most);
                bias_grad(r, n, &c);
            }
    }
}

static void sink_grads(const run *r, const void *ctx, int64_t h0, int64_t h1)
{
    const node *n = ctx;
    const tensor *t = n->in[SINK];
    for (int64_t h = h0; h < h1; h++) {
        real sum = 0;
        for (int64_t i = 0; i < rows(n->out); i++) {
            real p = values(t)[h];
            const real lse = row(n->save[LSE], i)[h];
            r->kern->exp_less(&p, 1, lse);
            sum -= lse > -INFINITY ? p * row(n->save[DELTA], i)[h] : 0;
        }
        grad_put(&t->grad[h], t->grad_written, sum);
    }
}

void attention_backward(run *r, const node *n)
{
    const attn *a = n->arg;
    const batch *b = key_batch(r, a);
    if (rows(n->out) == 0) {
        for (int i = K; i <= SINK; i++)
            grad_clear(n->in[i]);
        return;
    }
    const double work = 3 * attention_keys_seen(r, a) * (double)(a->d_key + a->d_value) *
                        (double)a->n_head;
    const int64_t tiles = attention_tiles(r, a);
    int64_t pages = 0;
    for (const sequence *s = b->seq; s < b->seq + b->n_seq; s++)
        pages += row_blocks(s->n, PAGE_ROWS) * a->n_head_kv;
    parallel(r, rows(n->out) * a->n_head, a->d_value, deltas, n);
    if (n->in[Q]->needs_grad)
        parallel(r, tiles, (int64_t)(work / (double)tiles), attention_query_grads, n);
    if (n->in[K]->needs_grad || (n->in[V] && n->in[V]->needs_grad))
        parallel(r, pages, (int64_t)(work / (double)pages), page_grads, n);
    if (n->in[BIAS] && n->in[BIAS]->needs_grad)
        parallel(r, a->n_head, (int64_t)(work / (double)a->n_head), bias_grads, n);
    if (n->in[SINK] && n->in[SINK]->needs_grad)
        parallel(r, a->n_head, 8 * rows(n->out), sink_grads, n);
}
