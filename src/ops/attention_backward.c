/* attention_backward.c - gradients of attention, without a matrix of scores.
 *
 * With p_j = exp(s_j - lse) recomputed page by page and delta = dy . y, for every query and key
 *
 *     ds_j = p_j (dy . v_j - delta)   dv_j += p_j dy   dq += scale ds_j k_j   dk_j += scale ds_j q
 *
 * With a cap, ds_j is multiplied by 1 - (s_j / cap)^2. A sink has p = exp(sink - lse) and no value,
 * so its gradient is -p delta, summed over all rows.
 *
 * A thread takes one key-value head of a sequence, all of this picture, tile by tile:
 *
 *              pages of keys
 *              0    1    2    3
 *     tile 0  [x]                     a row of it sums dq, page by page
 *     tile 1  [x]  [x]                a column sums dk and dv, tile by tile
 *     tile 2  [x]  [x]  [x]
 *
 * With too few heads and sequences for the threads, one pass takes rows and another one columns:
 * that computes p and ds twice, but the sums run in the same order. So does the number of threads
 * change no bit. A last pass sums the bias table over all pairs, one head per thread. */
#include "ops/attention_backward.h"

#include "ops/attention_tile.h"
#include "tensor/tape.h"

#include <string.h>

/* A tile, its rows of q and dy, both also packed as left sides of products, and its dq. */
typedef struct query_rows {
    query_tile tile;
    real *q, *dy, *packed_q, *packed_dy, *dq;
} query_rows;

/* The sums a pass makes. */
typedef enum sums { SUM_DQ = 1, SUM_DK_DV = 2 } sums;

static real *side_rows(const query_tile *c, int64_t width)
{
    return side_take((size_t)(c->n * width) * sizeof(real));
}

/* Fills t->q, which side_give releases with all that follows. */
static void query_rows_take(const run *r, const node *n, query_rows *t)
{
    const attn *a = n->arg;
    const query_tile *c = &t->tile;
    const int64_t R = row_blocks(c->n, r->kern->rows);
    t->q = side_rows(c, a->d_key);
    t->packed_q = side_rows(c, a->d_key);
    t->dy = side_rows(c, a->d_value);
    t->packed_dy = side_rows(c, a->d_value);
    t->dq = side_rows(c, a->d_key);
    tile_gather(c, row(n->in[Q], 0), n->in[Q]->stride, a->d_key, t->q);
    tile_gather(c, grad_row(n->out, 0), n->out->stride, a->d_value, t->dy);
    r->kern->pack(t->packed_q, t->q, a->d_key, 1, c->n, a->d_key, 0, R);
    r->kern->pack(t->packed_dy, t->dy, a->d_value, 1, c->n, a->d_value, 0, R);
    memset(t->dq, 0, (size_t)(c->n * a->d_key) * sizeof *t->dq);
}

/* 1 - (s / cap)^2, or 1 without a cap. */
static void cap_slopes(real cap, const real *s, real *bend, int64_t n)
{
    for (int64_t j = 0; j < n; j++)
        bend[j] = cap > 0 ? 1 - s[j] / cap * (s[j] / cap) : 1;
}

/* Zeroes what lies outside [j0, j1) of a row of `keys` numbers. */
static void keep_between(real *x, int64_t j0, int64_t j1, int64_t keys)
{
    memset(x, 0, (size_t)j0 * sizeof *x);
    memset(x + j1, 0, (size_t)(keys - j1) * sizeof *x);
}

/* p, and ds times `by`, of a tile for the keys [k0, k1) of one page, rows PAGE_ROWS apart; and dp of
 * its first row, unless NULL. */
static void slopes(const run *r, const node *n, const query_rows *t, int64_t k0, int64_t k1,
                   real by, real *p, real *ds, real *dp)
{
    const attn *a = n->arg;
    const query_tile *c = &t->tile;
    const int64_t keys = k1 - k0;
    const row_set v = tile_keys(r, &c->v, k0, c->v_at, a->d_value);
    tile_score(r, n, c, t->packed_q, k0, k1, p, PAGE_ROWS);
    r->kern->product(ds, PAGE_ROWS, false, t->packed_dy, c->n, a->d_value, &v, true,
                     tile_block(r, c, k0), row_blocks(c->n, r->kern->rows), 0, keys);
    for (int64_t i = 0; i < c->n; i++) {
        const int64_t h = pair_head(c, i), at = pair_row(c, i);
        const int64_t j0 = c->lo[i] <= k0 ? 0 : min64(c->lo[i] - k0, keys);
        const int64_t end = c->hi[i] >= k1 ? keys : c->hi[i] - k0, j1 = end > j0 ? end : j0;
        real *p_i = p + i * PAGE_ROWS, *ds_i = ds + i * PAGE_ROWS, bend[PAGE_ROWS];
        keep_between(p_i, j0, j1, keys);
        keep_between(ds_i, j0, j1, keys);
        if (a->cap > 0)
            cap_slopes(a->cap, p_i + j0, bend, j1 - j0);
        if (dp && i == 0)
            memcpy(dp, ds_i, (size_t)keys * sizeof *dp);
        r->kern->exp_less(p_i + j0, j1 - j0, row(n->save[LSE], at)[h]);
        r->kern->softmax_back(ds_i + j0, p_i + j0, by, row(n->save[DELTA], at)[h], j1 - j0);
        if (a->cap > 0)
            r->kern->mul(ds_i + j0, ds_i + j0, bend, j1 - j0);
    }
}

/* dq += ds k over a page. */
static void sum_dq(const run *r, const node *n, const query_rows *t, int64_t k0, int64_t k1,
                   const real *ds)
{
    const attn *a = n->arg;
    const query_tile *c = &t->tile;
    const int64_t E = a->d_key, R = row_blocks(c->n, r->kern->rows), sees = tile_block(r, c, k0);
    const row_set k = tile_keys(r, &c->k, k0, c->k_at, E);
    real *packed = side_rows(c, PAGE_ROWS);
    r->kern->pack(packed, ds, PAGE_ROWS, 1, c->n, k1 - k0, sees, R);
    r->kern->product(t->dq, E, true, packed, c->n, k1 - k0, &k, false, sees, R, 0, E);
    side_give(packed);
}

/* grad of the page's rows of k or v, from column `at`, += sum over pairs of w[i, j] x[i, e]. */
static void sum_keys(const run *r, const query_tile *c, int64_t k0, int64_t keys, const real *w,
                     const real *x, int64_t width, real *to, int64_t stride)
{
    const row_cut blocks = cut_rows(c->n, r->kern->rows);
    const int64_t i0 = block_row(&blocks, tile_block(r, c, k0));
    const int64_t R = row_blocks(keys, r->kern->rows);
    real *packed = side_rows(c, PAGE_ROWS);
    const row_set right = dtype_rows(&dtype_real, r->kern, x + i0 * width, width);
    r->kern->pack(packed, w + i0 * PAGE_ROWS, 1, PAGE_ROWS, keys, c->n - i0, 0, R);
    r->kern->product(to, stride, true, packed, keys, c->n - i0, &right, false, 0, R, 0, width);
    side_give(packed);
}

/* What the keys [k0, k1) of a page and a tile give each other; `first` is the row of k0. */
static void meet(const run *r, const node *n, const query_rows *t, sums what, int64_t k0,
                 int64_t k1, int64_t first)
{
    const attn *a = n->arg;
    const query_tile *c = &t->tile;
    const tensor *k = n->in[K], *v = values_in_keys(n) ? k : n->in[V];
    const int64_t begin = k0 > c->first_key ? k0 : c->first_key;
    const int64_t end = k1 < c->end_key ? k1 : c->end_key;
    if (end <= begin)
        return;
    first += begin - k0;
    real *p = side_rows(c, PAGE_ROWS), *ds = side_rows(c, PAGE_ROWS);
    slopes(r, n, t, begin, end, a->scale, p, ds, NULL);
    if (what & SUM_DQ && n->in[Q]->needs_grad)
        sum_dq(r, n, t, begin, end, ds);
    if (what & SUM_DK_DV && k->needs_grad)
        sum_keys(r, c, begin, end - begin, ds, t->q, a->d_key, grad_row(k, first) + c->k_at,
                 k->stride);
    if (what & SUM_DK_DV && v->needs_grad)
        sum_keys(r, c, begin, end - begin, p, t->dy, a->d_value, grad_row(v, first) + c->v_at,
                 v->stride);
    side_give(p);
}

/* A tile and the page or pages of the keys [k0, k1), whose first row is `first`. */
static void tile_grads(const run *r, const node *n, const query_tile *c, sums what, int64_t k0,
                       int64_t k1, int64_t first)
{
    const attn *a = n->arg;
    const tensor *q = n->in[Q];
    query_rows t = { .tile = *c };
    if (what == SUM_DK_DV && (c->end_key <= k0 || c->first_key >= k1))
        return;
    query_rows_take(r, n, &t);
    for (int64_t at = k0; at < k1; at = page_end(at, k1))
        meet(r, n, &t, what, at, page_end(at, k1), first + at - k0);
    for (int64_t i = 0; what & SUM_DQ && q->needs_grad && i < c->n; i++)
        for (int64_t e = 0; e < a->d_key; e++)
            grad_put(grad_row(q, pair_row(c, i)) + pair_head(c, i) * a->d_key + e, q->grad_written,
                     t.dq[i * a->d_key + e]);
    side_give(t.q);
}

static void query_grad(const run *r, const node *n, const query_tile *c)
{
    tile_grads(r, n, c, SUM_DQ, c->k.first, c->end_key, 0);
}

static void query_grads(const run *r, const void *ctx, int64_t u0, int64_t u1)
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

/* Zeroes columns [at, at + width) of some rows' gradient, unless it has been written. */
static void clear_columns(const tensor *t, int64_t first, int64_t count, int64_t at, int64_t width)
{
    for (int64_t i = 0; t->needs_grad && !t->grad_written && i < count; i++)
        memset(grad_row(t, first + i) + at, 0, (size_t)width * sizeof(real));
}

/* Head kv of the keys [k0, k1) of a sequence, whose first row is `first`, with all queries that read
 * them, in tiles that depend on nothing but their number. */
static void key_grads(const run *r, const node *n, const sequence *keys, int64_t kv, sums what,
                      int64_t k0, int64_t k1, int64_t first)
{
    const attn *a = n->arg;
    const int64_t group = a->n_head / a->n_head_kv;
    clear_columns(n->in[K], first, k1 - k0, kv * a->d_key, a->d_key);
    if (n->in[V])
        clear_columns(n->in[V], first, k1 - k0, kv * a->d_value, a->d_value);
    for (const sequence *s = r->at.batch->seq; s < r->at.batch->seq + r->at.batch->n_seq; s++) {
        const row_cut even = cut_rows(s->n * group, tile_size(a));
        if (s->n == 0 || key_sequence(r, a, &r->at.batch->row[s->first]) != keys)
            continue;
        for (int64_t u = 0; u < even.n; u++) {
            const int64_t p0 = block_row(&even, u);
            const query_tile c = tile_make(r, n, s->first, group, kv * group, p0,
                                           block_row(&even, u + 1) - p0);
            tile_grads(r, n, &c, what, k0, k1, first);
        }
    }
}

/* Item u is a key-value head of a sequence of keys. */
static void head_grads(const run *r, const void *ctx, int64_t u0, int64_t u1)
{
    const node *n = ctx;
    const attn *a = n->arg;
    const batch *b = key_batch(r, a);
    for (int64_t u = u0; u < u1; u++) {
        const sequence *s = &b->seq[u / a->n_head_kv];
        const int64_t k0 = s->n > 0 ? b->row[s->first].pos : 0;
        key_grads(r, n, s, u % a->n_head_kv, SUM_DQ | SUM_DK_DV, k0, k0 + s->n, s->first);
    }
}

/* The same for one page of keys at a time. */
static void page_grads(const run *r, const void *ctx, int64_t u0, int64_t u1)
{
    const node *n = ctx;
    const attn *a = n->arg;
    const batch *b = key_batch(r, a);
    int64_t u = 0; /* pages of all sequences of keys, a head each */
    for (const sequence *s = b->seq; s < b->seq + b->n_seq; s++) {
        const int64_t start = s->n > 0 ? b->row[s->first].pos : 0, end = start + s->n;
        for (int64_t k0 = start; k0 < end; k0 = page_end(k0, end))
            for (int64_t kv = 0; kv < a->n_head_kv; kv++, u++)
                if (u >= u0 && u < u1)
                    key_grads(r, n, s, kv, SUM_DK_DV, k0, page_end(k0, end), s->first + k0 - start);
    }
}

/* The contribution of a tile of one head to the bias table. */
static void bias_grad(const run *r, const node *n, const query_tile *c)
{
    query_rows t = { .tile = *c };
    query_rows_take(r, n, &t);
    real *p = side_rows(c, PAGE_ROWS), *ds = side_rows(c, PAGE_ROWS);
    real *to = n->in[BIAS]->grad + c->h0;
    const int64_t last = r->at.batch->row[pair_row(c, c->n - 1)].pos;
    for (int64_t k0 = c->first_key; k0 < c->end_key; k0 = page_end(k0, c->end_key)) {
        int64_t at[QUERY_TILE + PAGE_ROWS];
        const int64_t k1 = page_end(k0, c->end_key);
        slopes(r, n, &t, k0, k1, 1, p, ds, NULL);
        tile_buckets(r, n, c, k0, k1, at);
        for (int64_t i = 0; i < c->n; i++) {
            const int64_t shift = last - r->at.batch->row[pair_row(c, i)].pos;
            for (int64_t j = 0; j < k1 - k0; j++)
                to[at[j + shift]] += ds[i * PAGE_ROWS + j];
        }
    }
    side_give(t.q);
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

/* dq, dk and dv, in one pass if there are enough heads: 5 products for each page and tile, against 7
 * in two passes, whose items are many. */
static void input_grads(const run *r, const node *n, double work)
{
    const attn *a = n->arg;
    const batch *b = key_batch(r, a);
    const int64_t threads = r->pool ? pool_threads(r->pool) : 1, heads = b->n_seq * a->n_head_kv;
    const int64_t tiles = attention_tiles(r, a);
    int64_t pages = 0;
    if (5 * threads * row_blocks(heads, threads) <= 7 * heads) {
        parallel(r, heads, (int64_t)(work / (double)heads), head_grads, n);
        return;
    }
    for (const sequence *s = b->seq; s < b->seq + b->n_seq; s++) {
        const int64_t k0 = s->n > 0 ? b->row[s->first].pos : 0;
        const int64_t before = k0 % PAGE_ROWS;
        pages += row_blocks(before + s->n, PAGE_ROWS) * a->n_head_kv;
    }
    parallel(r, tiles, (int64_t)(work / (double)tiles), query_grads, n);
    if (pages > 0)
        parallel(r, pages, (int64_t)(work / (double)pages), page_grads, n);
}

void attention_backward(run *r, const node *n)
{
    const attn *a = n->arg;
    if (rows(n->out) == 0) {
        for (int i = K; i <= SINK; i++)
            grad_clear(n->in[i]);
        return;
    }
    const double work = 3 * attention_keys_seen(r, a) * (double)(a->d_key + a->d_value) *
                        (double)a->n_head;
    parallel(r, rows(n->out) * a->n_head, a->d_value, deltas, n);
    if (n->in[Q]->needs_grad || n->in[K]->needs_grad || (n->in[V] && n->in[V]->needs_grad))
        input_grads(r, n, work);
    if (n->in[BIAS] && n->in[BIAS]->needs_grad)
        parallel(r, a->n_head, (int64_t)(work / (double)a->n_head), bias_grads, n);
    if (n->in[SINK] && n->in[SINK]->needs_grad)
        parallel(r, a->n_head, 8 * rows(n->out), sink_grads, n);
}

/* ---- shown ----------------------------------------------------------------------------------- */

void attention_open(run *r, const node *n, int64_t i, int64_t h, attention_slopes to)
{
    const attn *a = n->arg;
    const side_stack before = side_begin(r->side);
    query_rows t = { .tile = tile_make(r, n, i, 1, h, 0, 1) };
    const query_tile *c = &t.tile;
    real *p = side_take(PAGE_ROWS * sizeof *p), *ds = side_take(PAGE_ROWS * sizeof *ds);
    const size_t end = (size_t)c->end_key * sizeof(real);
    memset(to.p, 0, end);
    memset(to.dp, 0, end);
    memset(to.ds, 0, end);
    query_rows_take(r, n, &t);
    for (int64_t at = c->k.first; at < c->end_key; at = page_end(at, c->end_key)) {
        const int64_t k1 = page_end(at, c->end_key), k0 = at > c->first_key ? at : c->first_key;
        if (k1 <= k0)
            continue;
        slopes(r, n, &t, k0, k1, 1, to.p + k0, to.ds + k0, to.dp + k0);
        slopes(r, n, &t, k0, k1, a->scale, p, ds, NULL);
        sum_dq(r, n, &t, k0, k1, ds);
    }
    memcpy(to.dq, t.dq, (size_t)a->d_key * sizeof *to.dq);
    side_end(before);
}
