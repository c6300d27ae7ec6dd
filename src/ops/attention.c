/* attention.c - attention, forward, over keys and values in caches or in this batch.
 *
 *     y_i,h = sum_j p_j v_j,h'    p = softmax(s)    s_j = scale q_i,h . k_j,h' + bias(j - i)
 *
 * Query head h reads key and value head h' = floor(h K / H): the heads of a group share it without
 * copies.
 *
 * Keys are cut into blocks of 256 at absolute positions. Each block gives its maximum m, sum l =
 * sum exp(s - m) and output o = sum exp(s - m) v; blocks are merged in ascending order,
 *
 *     m' = max(m, m_b)    l' = l e^(m - m') + l_b e^(m_b - m')    o' likewise
 *
 * and y = o / l. Within a block, values are summed by pages of 64 positions. No row of scores
 * longer than a block exists, and the order of every sum depends on positions only: a prompt at
 * once, in chunks, or token by token gives the same bits. Keys and values are read through the
 * cache's format, this call's rows included, for the same reason.
 *
 * A cap bends each score, s' = cap tanh(s / cap). A sink is one more score of a head, merged last: m'
 * = max(m, sink), l' = l e^(m - m') + e^(sink - m'), o' = o e^(m - m').
 *
 * Queries are processed in tiles, the heads of a group together, as matrix products: scores Q K^T
 * and outputs P V of a page (attention_tile.h). A masked key gets probability 0. A query without
 * keys gives zeros. */
#include "ops/attention_backward.h"
#include "ops/attention_tile.h"
#include "ops/maps.h"

#include <assert.h>
#include <string.h>

/* Partial result of a tile over some blocks of keys. */
typedef struct collected {
    real *o, m[QUERY_TILE], l[QUERY_TILE];
} collected;

/* Merges the block `next` of n pairs, E values each, into `all`. Pairs that saw nothing in it have
 * nothing to merge. */
static void attention_merge(const kernels *kern, collected *all, const collected *next, int64_t n,
                            int64_t E)
{
    real share[2 * QUERY_TILE], top[QUERY_TILE];
    for (int64_t p = 0; p < n; p++) {
        top[p] = next->m[p] > all->m[p] ? next->m[p] : all->m[p];
        share[p] = all->m[p] - top[p];
        share[n + p] = next->m[p] - top[p];
    }
    kern->exp_less(share, 2 * n, 0);
    for (int64_t p = 0; p < n; p++) {
        const real keep = share[p], take = share[n + p];
        if (!(next->l[p] > 0 || isnan(next->l[p])))
            continue;
        kern->blend(all->o + p * E, keep, next->o + p * E, take, E);
        all->l[p] = all->l[p] * keep + next->l[p] * take;
        all->m[p] = top[p];
    }
}

/* A query without keys keeps its zeros. */
static void merge_sink(const kernels *kern, real *o, real *l, real *m, real sink, int64_t n)
{
    const real top = sink > *m ? sink : *m;
    real share[] = { *m, sink };
    if (*l == 0)
        return;
    kern->exp_less(share, 2, top);
    for (int64_t k = 0; k < n; k++)
        o[k] *= share[0];
    *l = *l * share[0] + share[1];
    *m = top;
}

/* Replaces the scores of the block [b, end), to be multiplied by `scale`, by e^(s - max), 0 if masked;
 * fills l and m. A pair that sees nothing here has l = 0 and m = -inf. */
static void weigh_keys(const run *r, const query_tile *c, int64_t b, int64_t end, real scale,
                       real *s, real *l, real *m)
{
    for (int64_t p = 0; p < c->n; p++) {
        const int64_t j0 = (c->lo[p] > b ? c->lo[p] : b) - b;
        const int64_t j1 = (c->hi[p] < end ? c->hi[p] : end) - b;
        real *row_of = s + p * KEY_BLOCK;
        const bool sees = j0 < j1;
        m[p] = -INFINITY;
        l[p] = sees ? r->kern->exp_block(row_of + j0, j1 - j0, scale, &m[p]) : 0;
        for (int64_t j = 0; j < (sees ? j0 : end - b); j++)
            row_of[j] = 0;
        for (int64_t j = sees ? j1 : end - b; j < end - b; j++)
            row_of[j] = 0;
    }
}

/* One block of keys for all pairs. */
static void attend_block(const run *r, const node *n, const query_tile *c, const real *packed_q,
                         int64_t b, collected *to)
{
    const attn *a = n->arg;
    const int64_t E = a->d_value, R = row_blocks(c->n, r->kern->rows);
    const int64_t page = c->first_key / PAGE_ROWS * PAGE_ROWS, begin = b > page ? b : page;
    const int64_t first = begin > c->k.first ? begin : c->k.first;
    const int64_t end = b + KEY_BLOCK < c->end_key ? b + KEY_BLOCK : c->end_key;
    const bool plain = !n->in[BIAS] && a->cap == 0 && a->scale > 0;
    real *s = side_take((size_t)(c->n * KEY_BLOCK) * sizeof *s);
    real *packed = side_take((size_t)(c->n * PAGE_ROWS) * sizeof *packed);
    for (int64_t k0 = first; k0 < end; k0 = page_end(k0, end))
        (plain ? tile_dots : tile_score)(r, n, c, packed_q, k0, page_end(k0, end), s + (k0 - b),
                                         KEY_BLOCK);
    weigh_keys(r, c, b, end, plain ? a->scale : 1, s, to->l, to->m);
    for (int64_t k0 = first; k0 < end; k0 = page_end(k0, end)) {
        const int64_t keys = page_end(k0, end) - k0, sees = tile_block(r, c, k0);
        const row_set v = tile_keys(r, &c->v, k0, c->v_at, E);
        r->kern->pack(packed, s + (k0 - b), KEY_BLOCK, 1, c->n, keys, sees, R);
        r->kern->product(to->o, E, k0 > first, packed, c->n, keys, &v, false, sees, R, 0, E);
    }
    for (int64_t p = 0; p < c->n; p++)
        if (to->l[p] == 0) /* masked keys may hold NaN */
            memset(to->o + p * E, 0, (size_t)E * sizeof(real));
    side_give(s);
}

static void attend_tile(const run *r, const node *n, const query_tile *c)
{
    const attn *a = n->arg;
    const int64_t E = a->d_value, b0 = c->first_key / KEY_BLOCK * KEY_BLOCK;
    real *packed_q = side_take((size_t)(c->n * a->d_key) * sizeof *packed_q);
    collected *all = side_take(sizeof *all), *next = side_take(sizeof *next);
    all->o = side_take((size_t)(c->n * E) * sizeof(real));
    next->o = side_take((size_t)(c->n * E) * sizeof(real));
    for (int64_t p = 0; p < c->n; p++) {
        all->m[p] = -INFINITY;
        all->l[p] = 0;
    }
    tile_pack(r, c, row(n->in[Q], 0), n->in[Q]->stride, a->d_key, packed_q);
    for (int64_t b = b0; b < c->end_key; b += KEY_BLOCK) {
        attend_block(r, n, c, packed_q, b, b == b0 ? all : next);
        if (b > b0)
            attention_merge(r->kern, all, next, c->n, E);
    }
    for (int64_t p = 0; n->in[SINK] && p < c->n; p++)
        merge_sink(r->kern, all->o + p * E, &all->l[p], &all->m[p],
                   values(n->in[SINK])[pair_head(c, p)], E);
    for (int64_t p = 0; p < c->n; p++) {
        const int64_t i = pair_row(c, p), h = pair_head(c, p);
        real *y = row(n->out, i) + h * E;
        const real l = all->l[p];
        for (int64_t k = 0; k < E; k++)
            y[k] = l > 0 || isnan(l) ? all->o[p * E + k] / l : 0;
        if (n->save[LSE])
            row(n->save[LSE], i)[h] = all->m[p] + r->kern->log_of(l);
    }
    side_give(packed_q);
}

static void attend_tiles(const run *r, const void *ctx, int64_t u0, int64_t u1)
{
    const node *n = ctx;
    attention_each_tile(r, n, u0, u1, attend_tile);
}

/* Writes this call's keys and values to the caches before any are read. */
static void attention_store_keys(const run *r, const node *n)
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
        if (n->in[V])
            cache_store(c, (int)n->i[0], STREAM_V, b->row[i].pos, row(n->in[V], i));
    }
}

static void attention_forward(run *r, const node *n)
{
    const attn *a = n->arg;
    attention_store_keys(r, n);
    const int64_t tiles = attention_tiles(r, a);
    if (tiles == 0)
        return;
    const double each = attention_keys_seen(r, a) * (double)(a->d_key + a->d_value) *
                        (double)a->n_head;
    parallel(r, tiles, (int64_t)(each / (double)tiles), attend_tiles, n);
}

static cost attention_cost(const run *r, const node *n)
{
    const attn *a = n->arg;
    const double seen = attention_keys_seen(r, a);
    const double width = (double)(a->d_key + a->d_value);
    const double stored_width = values_in_keys(n) ? (double)a->d_key : width;
    return (cost){ .flops = 2 * seen * (double)a->n_head * width,
                   .bytes = seen * (double)a->n_head_kv * stored_width * sizeof(real) };
}

extern const op attention_op;
const op attention_op = { "attention", "y = sum_j p_j v_j,  p = softmax(scale q . k_j)",
                          attention_forward, attention_backward, attention_cost };

tensor *attention(run *r, tensor *q, tensor *k, tensor *v, const attn *a, int layer)
{
    assert(cols(q) == a->n_head * a->d_key && rows(q) == r->at.batch->n_row);
    assert(!k || cols(k) == a->n_head_kv * a->d_key);
    assert(!v || cols(v) == a->n_head_kv * a->d_value);
    assert(v || a->kind == ATTN_CROSS || a->d_value <= a->d_key);
    assert(k || a->kind == ATTN_CROSS);
    assert(!a->sink || cols(a->sink) == a->n_head);
    assert(!r->tape || r->at.batch->n_seq == 0 || !r->at.batch->seq[0].cache);
    node n = { .op = &attention_op, .in = { q, k, v, a->bias.table, a->sink }, .arg = a };
    n.local = a->kind == ATTN_CROSS ? "cross_attention" : v ? "attention" : "attention.latent";
    n.i[0] = layer;
    n.out = tensor_new(r, rows(q), a->n_head * a->d_value);
    if (r->tape) {
        n.save[LSE] = tensor_new(r, rows(q), a->n_head);
        n.save[DELTA] = tensor_new(r, rows(q), a->n_head);
    }
    tensor *y = apply(r, &n);
    if (r->show.maps)
        attention_show(r, &n);
    return y;
}
