/* attention_tile.c - finds the keys of queries in caches or rows, and scores tiles of queries with
 * pages of them. Used by attention's forward, its backward and its maps, so that all get the same
 * scores, bit for bit. */
#include "ops/attention_tile.h"

#include <string.h>

/* ---- which keys a query sees, and where they are --------------------------------------------- */

static view row_view(const tensor *t, const batch *b, const sequence *s)
{
    const int64_t first = s->n > 0 ? b->row[s->first].pos : 0;
    return (view){ .type = &dtype_real,
                   .first = first,
                   .end = first + s->n,
                   .row_bytes = (size_t)t->stride * sizeof(real),
                   .base = (const char *)row(t, s->first) };
}

const batch *key_batch(const run *r, const attn *a)
{
    return a->kind == ATTN_CROSS ? r->at.src : r->at.batch;
}

const sequence *key_sequence(const run *r, const attn *a, const batch_row *q)
{
    const sequence *s = &r->at.batch->seq[q->seq];
    return a->kind == ATTN_CROSS ? &r->at.src->seq[s->source] : s;
}

int64_t key_end(const run *r, const attn *a, const batch_row *q)
{
    const sequence *s = key_sequence(r, a, q);
    const batch *b = key_batch(r, a);
    if (a->kind == ATTN_CAUSAL)
        return q->pos + 1;
    return s->n > 0 ? b->row[s->first].pos + s->n : s->cache ? s->cache->length : 0;
}

bool values_in_keys(const node *n)
{
    const attn *a = n->arg;
    return !n->in[V] && a->kind != ATTN_CROSS;
}

key_range keys_of(const run *r, const node *n, const batch_row *q)
{
    const attn *a = n->arg;
    const int layer = (int)n->i[0];
    const sequence *s = key_sequence(r, a, q);
    key_range g = { .hi = key_end(r, a, q) };
    if (s->cache && a->kind != ATTN_FULL) {
        g.k = cache_view(s->cache, layer, STREAM_K, g.hi);
        g.v = values_in_keys(n) ? g.k : cache_view(s->cache, layer, STREAM_V, g.hi);
    } else {
        g.k = row_view(n->in[K], key_batch(r, a), s);
        g.v = values_in_keys(n) ? g.k : row_view(n->in[V], key_batch(r, a), s);
    }
    g.lo = g.k.first;
    if (a->window > 0 && g.lo < q->pos + 1 - a->window)
        g.lo = q->pos + 1 - a->window;
    return g;
}

int64_t bias_bucket(int64_t distance, int64_t n_bucket, const attn_bias *b)
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

double attention_keys_seen(const run *r, const attn *a)
{
    double seen = 0;
    for (int64_t i = 0; i < r->at.batch->n_row; i++) {
        const int64_t end = key_end(r, a, &r->at.batch->row[i]);
        seen += (double)(a->window > 0 && a->window < end ? a->window : end);
    }
    return seen;
}

/* ---- tiles ----------------------------------------------------------------------------------- */

int64_t tile_size(const attn *a)
{
    const int64_t width = a->d_key > a->d_value ? a->d_key : a->d_value;
    return QUERY_FLOATS / width < QUERY_TILE ? QUERY_FLOATS / width : QUERY_TILE;
}

query_tile tile_make(const run *r, const node *n, int64_t first, int64_t group, int64_t h0,
                     int64_t p0, int64_t count)
{
    const attn *a = n->arg;
    const int64_t kv = h0 * a->n_head_kv / a->n_head;
    query_tile c = { first, group, h0, p0, count, .first_key = INT64_MAX };
    const bool alike = a->kind != ATTN_CAUSAL && a->window == 0;
    key_range g = { 0 };
    for (int64_t p = 0; p < count; p++) {
        if (p == 0 || !alike)
            g = keys_of(r, n, &r->at.batch->row[pair_row(&c, p)]);
        c.lo[p] = g.lo;
        c.hi[p] = g.hi;
        c.first_key = g.lo < c.first_key ? g.lo : c.first_key;
        c.end_key = g.hi > c.end_key ? g.hi : c.end_key;
        c.k = g.k;
        c.v = g.v;
    }
    c.k_at = kv * a->d_key;
    c.v_at = kv * (values_in_keys(n) ? a->d_key : a->d_value);
    return c;
}

void tile_gather(const query_tile *c, const real *t, int64_t stride, int64_t width, real *to)
{
    for (int64_t p = 0; p < c->n; p++)
        memcpy(to + p * width, t + pair_row(c, p) * stride + pair_head(c, p) * width,
               (size_t)width * sizeof(real));
}

void tile_pack(const run *r, const query_tile *c, const real *t, int64_t stride, int64_t width,
               real *packed)
{
    real *rows_of = side_take((size_t)(c->n * width) * sizeof *rows_of);
    tile_gather(c, t, stride, width, rows_of);
    r->kern->pack(packed, rows_of, width, 1, c->n, width, 0, row_blocks(c->n, r->kern->rows));
    side_give(rows_of);
}

void tile_buckets(const run *r, const node *n, const query_tile *c, int64_t k0, int64_t k1,
                  int64_t at[QUERY_TILE + PAGE_ROWS])
{
    const attn *a = n->arg;
    const int64_t first = r->at.batch->row[pair_row(c, 0)].pos;
    const int64_t last = r->at.batch->row[pair_row(c, c->n - 1)].pos;
    for (int64_t d = 0; d < last - first + k1 - k0; d++)
        at[d] = bias_bucket(k0 - last + d, rows(n->in[BIAS]), &a->bias) * a->n_head;
}

static void cap_scores(const run *r, real *s, int64_t n, real cap)
{
    for (int64_t j = 0; j < n; j++)
        s[j] /= cap;
    r->kern->activate(s, s, ACT_TANH, n);
    for (int64_t j = 0; j < n; j++)
        s[j] *= cap;
}

int64_t tile_block(const run *r, const query_tile *c, int64_t k0)
{
    const row_cut blocks = cut_rows(c->n, r->kern->rows);
    int64_t b = 0;
    while (b + 1 < blocks.n && c->hi[block_row(&blocks, b + 1) - 1] <= k0)
        b++;
    return b;
}

void tile_dots(const run *r, const node *n, const query_tile *c, const real *packed_q, int64_t k0,
               int64_t k1, real *s, int64_t stride)
{
    const attn *a = n->arg;
    const row_set keys = tile_keys(r, &c->k, k0, c->k_at, a->d_key);
    r->kern->product(s, stride, false, packed_q, c->n, a->d_key, &keys, true, tile_block(r, c, k0),
                     row_blocks(c->n, r->kern->rows), 0, k1 - k0);
}

void tile_score(const run *r, const node *n, const query_tile *c, const real *packed_q, int64_t k0,
                int64_t k1, real *s, int64_t stride)
{
    const attn *a = n->arg;
    const tensor *bias = n->in[BIAS];
    int64_t at[QUERY_TILE + PAGE_ROWS];
    const int64_t last = r->at.batch->row[pair_row(c, c->n - 1)].pos;
    const row_cut blocks = cut_rows(c->n, r->kern->rows);
    if (bias)
        tile_buckets(r, n, c, k0, k1, at);
    tile_dots(r, n, c, packed_q, k0, k1, s, stride);
    for (int64_t p = block_row(&blocks, tile_block(r, c, k0)); p < c->n; p++) {
        real *row_of = s + p * stride;
        for (int64_t j = 0; j < k1 - k0; j++)
            row_of[j] *= a->scale;
        const int64_t pos = r->at.batch->row[pair_row(c, p)].pos, h = pair_head(c, p);
        for (int64_t j = 0; bias && j < k1 - k0; j++)
            row_of[j] += values(bias)[at[j + last - pos] + h];
        if (a->cap > 0)
            cap_scores(r, row_of, k1 - k0, a->cap);
    }
}

/* Pairs of a tile in forward: as many as fit, if that leaves every thread some tiles. The size
 * changes no bit. */
static int64_t tile_pairs(const run *r, const attn *a)
{
    const int64_t most = tile_size(a), least = most < 24 ? most : 24;
    const int64_t threads = r->pool ? pool_threads(r->pool) : 1;
    const int64_t share = r->at.batch->n_row * a->n_head / (4 * threads);
    return share < least ? least : share < most ? share : most;
}

static int64_t tiles_of(const run *r, const attn *a, const sequence *s)
{
    return row_blocks(s->n * (a->n_head / a->n_head_kv), tile_pairs(r, a));
}

int64_t attention_tiles(const run *r, const attn *a)
{
    int64_t all = 0;
    for (int64_t s = 0; s < r->at.batch->n_seq; s++)
        all += tiles_of(r, a, &r->at.batch->seq[s]) * a->n_head_kv;
    return all;
}

void attention_each_tile(const run *r, const node *n, int64_t u0, int64_t u1, query_tile_fn *fn)
{
    const attn *a = n->arg;
    const int64_t group = a->n_head / a->n_head_kv;
    int64_t before = 0;
    for (int64_t i = 0; i < r->at.batch->n_seq; i++) {
        const sequence *s = &r->at.batch->seq[i];
        const int64_t tiles = tiles_of(r, a, s), pairs = s->n * group;
        for (int64_t u = 0; u < tiles * a->n_head_kv; u++) {
            if (before + u < u0 || before + u >= u1)
                continue;
            const int64_t at = tiles - 1 - u / a->n_head_kv, kv = u % a->n_head_kv;
            const row_cut even = cut_rows(pairs, tile_pairs(r, a));
            const int64_t p0 = block_row(&even, at);
            const query_tile c = tile_make(r, n, s->first, group, kv * group, p0,
                                           block_row(&even, at + 1) - p0);
            fn(r, n, &c);
        }
        before += tiles * a->n_head_kv;
    }
}
