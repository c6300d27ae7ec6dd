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
 * and y = o / l. Within a block, values are summed by pages of 64 positions. No row of scores
 * longer than a block exists, and the order of every sum depends on positions only: a prompt at
 * once, in chunks, or token by token gives the same bits. Keys and values are read through the
 * cache's format, this call's rows included, for the same reason.
 *
 * Queries are worked on in crowds, the heads of a group together, as products of matrices: scores Q
 * K^T and outputs P V of a page. What a query does not see gets probability 0. A query that sees no
 * key gives zeros. */
#include "ops/maps.h"
#include "ops/ops.h"

#include "tensor/tape.h"

#include <assert.h>
#include <string.h>

#define KEY_BLOCK 256
#define CROWD     24         /* pairs of query and head that are worked on together, at most ... */
#define NUMBERS   (24 * 128) /* ... and their numbers, MAX_HEAD of which must fit */

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

/* Are values the first numbers of keys? */
static bool in_keys(const node *n)
{
    const attn *a = n->arg;
    return !n->in[V] && a->kind != ATTN_CROSS;
}

static sight look(const run *r, const node *n, const batch_row *q)
{
    const attn *a = n->arg;
    const int layer = (int)n->i[0];
    const sequence *s = key_sequence(r, a, q);
    sight g = { .hi = key_end(r, a, q) };
    if (s->cache && a->kind != ATTN_FULL) {
        g.k = cache_view(s->cache, layer, STREAM_K, g.hi);
        g.v = in_keys(n) ? g.k : cache_view(s->cache, layer, STREAM_V, g.hi);
    } else {
        g.k = row_view(n->in[K], key_batch(r, a), s);
        g.v = in_keys(n) ? g.k : row_view(n->in[V], key_batch(r, a), s);
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

/* ---- crowds ---------------------------------------------------------------------------------- */

/* Pairs of a query and one of the `group` heads from h0, all of one sequence: pair p is row first +
 * p / group, head h0 + p % group. */
typedef struct crowd {
    int64_t first, group, h0, p0, n;
    int64_t lo[CROWD], hi[CROWD]; /* what each sees */
    int64_t least, most;          /* what any of them sees */
    view k, v;
    int64_t k_at, v_at; /* the first column of their head of keys and values */
} crowd;

static int64_t pair_row(const crowd *c, int64_t p)
{
    return c->first + (c->p0 + p) / c->group;
}

static int64_t pair_head(const crowd *c, int64_t p)
{
    return c->h0 + (c->p0 + p) % c->group;
}

static int64_t crowd_size(const attn *a)
{
    const int64_t width = a->d_key > a->d_value ? a->d_key : a->d_value;
    return NUMBERS / width < CROWD ? NUMBERS / width : CROWD;
}

static crowd gather(const run *r, const node *n, int64_t first, int64_t group, int64_t h0,
                    int64_t p0, int64_t count)
{
    const attn *a = n->arg;
    const int64_t kv = h0 * a->n_head_kv / a->n_head;
    crowd c = { first, group, h0, p0, count, .least = INT64_MAX };
    const bool alike = a->kind != ATTN_CAUSAL && a->window == 0;
    sight g = { 0 };
    for (int64_t p = 0; p < count; p++) {
        if (p == 0 || !alike)
            g = look(r, n, &r->batch->row[pair_row(&c, p)]);
        c.lo[p] = g.lo;
        c.hi[p] = g.hi;
        c.least = g.lo < c.least ? g.lo : c.least;
        c.most = g.hi > c.most ? g.hi : c.most;
        c.k = g.k;
        c.v = g.v;
    }
    c.k_at = kv * a->d_key;
    c.v_at = kv * (in_keys(n) ? a->d_key : a->d_value);
    return c;
}

/* Their rows of t, `width` numbers a head, packed. */
static void pack_pairs(const run *r, const crowd *c, const real *t, int64_t stride, int64_t width,
                       real *packed)
{
    real *rows_of = side_take(NUMBERS * sizeof *rows_of);
    const bool apart = c->group > 1; /* the heads of a row do not follow one another as rows do */
    const real *from = apart ? rows_of : t + pair_row(c, 0) * stride + c->h0 * width;
    for (int64_t p = 0; apart && p < c->n; p++)
        memcpy(rows_of + p * width, t + pair_row(c, p) * stride + pair_head(c, p) * width,
               (size_t)width * sizeof(real));
    r->kern->pack(packed, from, apart ? width : stride, 1, c->n, width, false, 0,
                  row_blocks(c->n, r->kern->rows));
    side_give(rows_of);
}

/* Positions from pos on, columns from `at`, as the right side of a product. A head that begins
 * inside a stored block is produced by the format itself. */
static row_set view_rows(const run *r, const view *v, int64_t pos, int64_t at, int64_t width)
{
    row_set s = dtype_rows(v->type, r->kern, view_row(v, pos), v->type->block);
    s.row_bytes = v->row_bytes;
    s.k0 = at;
    if (at % v->type->block != 0 || width % v->type->block != 0) {
        s.tile = v->type->tile;
        s.kind = TILE_OTHER;
    }
    return s;
}

static int64_t page_end(int64_t pos, int64_t most)
{
    const int64_t end = pos / PAGE_ROWS * PAGE_ROWS + PAGE_ROWS;
    return end < most ? end : most;
}

/* Buckets of all distances between the pairs and the keys of a page, from the last pair to the first
 * key on: a logarithm each, and far fewer than there are scores. */
static void bucket_distances(const run *r, const node *n, const crowd *c, int64_t k0, int64_t k1,
                             int64_t at[CROWD + PAGE_ROWS])
{
    const attn *a = n->arg;
    const int64_t first = r->batch->row[pair_row(c, 0)].pos;
    const int64_t last = r->batch->row[pair_row(c, c->n - 1)].pos;
    for (int64_t d = 0; d < last - first + k1 - k0; d++)
        at[d] = bucket(k0 - last + d, rows(n->in[BIAS]), &a->bias) * a->n_head;
}

/* Scores with the keys [k0, k1) of one page, rows `stride` apart. */
static void score(const run *r, const node *n, const crowd *c, const real *packed_q, int64_t k0,
                  int64_t k1, real *s, int64_t stride)
{
    const attn *a = n->arg;
    const tensor *bias = n->in[BIAS];
    const row_set keys = view_rows(r, &c->k, k0, c->k_at, a->d_key);
    int64_t at[CROWD + PAGE_ROWS];
    const int64_t last = r->batch->row[pair_row(c, c->n - 1)].pos;
    if (bias)
        bucket_distances(r, n, c, k0, k1, at);
    r->kern->product(s, stride, false, packed_q, c->n, a->d_key, &keys, true, 0,
                     row_blocks(c->n, r->kern->rows), 0, k1 - k0);
    for (int64_t p = 0; p < c->n; p++) {
        real *row_of = s + p * stride;
        for (int64_t j = 0; j < k1 - k0; j++)
            row_of[j] *= a->scale;
        const int64_t pos = r->batch->row[pair_row(c, p)].pos, h = pair_head(c, p);
        for (int64_t j = 0; bias && j < k1 - k0; j++)
            row_of[j] += values(bias)[at[j + last - pos] + h];
    }
}

/* ---- forward --------------------------------------------------------------------------------- */

/* What a crowd has of some blocks of keys. */
typedef struct collected {
    real o[NUMBERS], m[CROWD], l[CROWD];
} collected;

static void merge(real *o, real *l, real *m, const real *o_b, real l_b, real m_b, int64_t n)
{
    const real top = m_b > *m ? m_b : *m;
    const real keep = exp(*m - top), take = exp(m_b - top);
    for (int64_t k = 0; k < n; k++)
        o[k] = o[k] * keep + o_b[k] * take;
    *l = *l * keep + l_b * take;
    *m = top;
}

/* Scores of the block [b, end) become e^(s - max), 0 where a pair does not look; l and m are
 * filled. A pair that sees nothing here has l = 0 and m = -inf. */
static void weigh(const run *r, const crowd *c, int64_t b, int64_t end, real *s, real *l, real *m)
{
    for (int64_t p = 0; p < c->n; p++) {
        const int64_t j0 = (c->lo[p] > b ? c->lo[p] : b) - b;
        const int64_t j1 = (c->hi[p] < end ? c->hi[p] : end) - b;
        real *row_of = s + p * KEY_BLOCK;
        const bool sees = j0 < j1;
        m[p] = -INFINITY;
        l[p] = sees ? r->kern->exp_block(row_of + j0, j1 - j0, &m[p]) : 0;
        for (int64_t j = 0; j < (sees ? j0 : end - b); j++)
            row_of[j] = 0;
        for (int64_t j = sees ? j1 : end - b; j < end - b; j++)
            row_of[j] = 0;
    }
}

/* One block of keys for all pairs. */
static void attend_block(const run *r, const node *n, const crowd *c, const real *packed_q,
                         int64_t b, collected *to)
{
    const attn *a = n->arg;
    const int64_t E = a->d_value, R = row_blocks(c->n, r->kern->rows);
    const int64_t page = c->least / PAGE_ROWS * PAGE_ROWS, begin = b > page ? b : page;
    const int64_t first = begin > c->k.first ? begin : c->k.first;
    const int64_t end = b + KEY_BLOCK < c->most ? b + KEY_BLOCK : c->most;
    real *s = side_take(CROWD * KEY_BLOCK * sizeof *s);
    real *packed = side_take(CROWD * PAGE_ROWS * sizeof *packed);
    for (int64_t k0 = first; k0 < end; k0 = page_end(k0, end))
        score(r, n, c, packed_q, k0, page_end(k0, end), s + (k0 - b), KEY_BLOCK);
    weigh(r, c, b, end, s, to->l, to->m);
    for (int64_t k0 = first; k0 < end; k0 = page_end(k0, end)) {
        const int64_t keys = page_end(k0, end) - k0;
        const row_set v = view_rows(r, &c->v, k0, c->v_at, E);
        r->kern->pack(packed, s + (k0 - b), KEY_BLOCK, 1, c->n, keys, false, 0, R);
        r->kern->product(to->o, E, k0 > first, packed, c->n, keys, &v, false, 0, R, 0, E);
    }
    for (int64_t p = 0; p < c->n; p++)
        if (to->l[p] == 0) /* what it does not see may be no numbers */
            memset(to->o + p * E, 0, (size_t)E * sizeof(real));
    side_give(s);
}

static void attend(const run *r, const node *n, const crowd *c)
{
    const attn *a = n->arg;
    const int64_t E = a->d_value, b0 = c->least / KEY_BLOCK * KEY_BLOCK;
    real *packed_q = side_take(NUMBERS * sizeof *packed_q);
    collected *all = side_take(sizeof *all), *next = side_take(sizeof *next);
    for (int64_t p = 0; p < c->n; p++) {
        all->m[p] = -INFINITY;
        all->l[p] = 0;
    }
    pack_pairs(r, c, row(n->in[Q], 0), n->in[Q]->stride, a->d_key, packed_q);
    for (int64_t b = b0; b < c->most; b += KEY_BLOCK) {
        attend_block(r, n, c, packed_q, b, b == b0 ? all : next);
        for (int64_t p = 0; b > b0 && p < c->n; p++)
            if (next->l[p] > 0 || isnan(next->l[p]))
                merge(all->o + p * E, &all->l[p], &all->m[p], next->o + p * E, next->l[p],
                      next->m[p], E);
    }
    for (int64_t p = 0; p < c->n; p++) {
        const int64_t i = pair_row(c, p), h = pair_head(c, p);
        real *y = row(n->out, i) + h * E;
        const real l = all->l[p];
        for (int64_t k = 0; k < E; k++)
            y[k] = l > 0 || isnan(l) ? all->o[p * E + k] / l : 0;
        if (n->save[LSE])
            row(n->save[LSE], i)[h] = all->m[p] + log(l);
    }
    side_give(packed_q);
}

/* ---- work in parts: crowds of each sequence, for each head of keys --------------------------- */

typedef void crowd_fn(const run *r, const node *n, const crowd *c);

static int64_t n_crowd(const attn *a, const sequence *s)
{
    return row_blocks(s->n * (a->n_head / a->n_head_kv), crowd_size(a));
}

static int64_t all_crowds(const run *r, const attn *a)
{
    int64_t all = 0;
    for (int64_t s = 0; s < r->batch->n_seq; s++)
        all += n_crowd(a, &r->batch->seq[s]) * a->n_head_kv;
    return all;
}

/* Calls fn for crowds [u0, u1). Later queries see more: they come first. */
static void over_crowds(const run *r, const node *n, int64_t u0, int64_t u1, crowd_fn *fn)
{
    const attn *a = n->arg;
    const int64_t group = a->n_head / a->n_head_kv;
    int64_t before = 0;
    for (int64_t i = 0; i < r->batch->n_seq; i++) {
        const sequence *s = &r->batch->seq[i];
        const int64_t crowds = n_crowd(a, s), pairs = s->n * group;
        for (int64_t u = 0; u < crowds * a->n_head_kv; u++) {
            if (before + u < u0 || before + u >= u1)
                continue;
            const int64_t at = crowds - 1 - u / a->n_head_kv, kv = u % a->n_head_kv;
            const row_cut even = cut_rows(pairs, crowd_size(a));
            const int64_t p0 = block_row(&even, at);
            const crowd c = gather(r, n, s->first, group, kv * group, p0,
                                   block_row(&even, at + 1) - p0);
            fn(r, n, &c);
        }
        before += crowds * a->n_head_kv;
    }
}

static void attend_crowds(const run *r, const node *n, int64_t u0, int64_t u1)
{
    over_crowds(r, n, u0, u1, attend);
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
        if (n->in[V])
            cache_store(c, (int)n->i[0], STREAM_V, b->row[i].pos, row(n->in[V], i));
    }
}

/* ---- backward -------------------------------------------------------------------------------- */

/* With p_j = exp(s_j - lse) made again page by page and delta = dy . y, for every query and key
 *
 *     ds_j = p_j (dy . v_j - delta)   dv_j += p_j dy   dq += scale ds_j k_j   dk_j += scale ds_j q
 *
 * Queries own dq and keys own dk and dv, so there are two passes and no two threads add to one
 * number; the bias table, summed over all pairs, is a third, a head to a thread. */

/* p, and ds times `by`, of a crowd for the keys [k0, k1) of one page, rows PAGE_ROWS apart. */
static void slopes(const run *r, const node *n, const crowd *c, int64_t k0, int64_t k1, real by,
                   real *p, real *ds)
{
    const attn *a = n->arg;
    real *packed = side_take(NUMBERS * sizeof *packed);
    pack_pairs(r, c, row(n->in[Q], 0), n->in[Q]->stride, a->d_key, packed);
    score(r, n, c, packed, k0, k1, p, PAGE_ROWS);
    pack_pairs(r, c, grad_row(n->out, 0), n->out->stride, a->d_value, packed);
    const row_set v = view_rows(r, &c->v, k0, c->v_at, a->d_value);
    r->kern->product(ds, PAGE_ROWS, false, packed, c->n, a->d_value, &v, true, 0,
                     row_blocks(c->n, r->kern->rows), 0, k1 - k0);
    side_give(packed);
    for (int64_t i = 0; i < c->n; i++) {
        const int64_t h = pair_head(c, i);
        const real lse = row(n->save[LSE], pair_row(c, i))[h];
        const real delta = row(n->save[DELTA], pair_row(c, i))[h];
        real *p_i = p + i * PAGE_ROWS, *ds_i = ds + i * PAGE_ROWS;
        r->kern->exp_less(p_i, k1 - k0, lse);
        for (int64_t j = 0; j < k1 - k0; j++) {
            const bool seen = k0 + j >= c->lo[i] && k0 + j < c->hi[i];
            p_i[j] = seen ? p_i[j] : 0;
            ds_i[j] = seen ? by * p_i[j] * (ds_i[j] - delta) : 0;
        }
    }
}

static void query_grad(const run *r, const node *n, const crowd *c)
{
    const attn *a = n->arg;
    const tensor *q = n->in[Q];
    const int64_t E = a->d_key, R = row_blocks(c->n, r->kern->rows);
    real *p = side_take(CROWD * PAGE_ROWS * sizeof *p);
    real *ds = side_take(CROWD * PAGE_ROWS * sizeof *ds);
    real *packed = side_take(CROWD * PAGE_ROWS * sizeof *packed);
    real *dq = side_take(NUMBERS * sizeof *dq);
    memset(dq, 0, NUMBERS * sizeof *dq);
    for (int64_t k0 = c->least; k0 < c->most; k0 = page_end(k0, c->most)) {
        const int64_t k1 = page_end(k0, c->most);
        slopes(r, n, c, k0, k1, a->scale, p, ds);
        const row_set k = view_rows(r, &c->k, k0, c->k_at, E);
        r->kern->pack(packed, ds, PAGE_ROWS, 1, c->n, k1 - k0, false, 0, R);
        r->kern->product(dq, E, true, packed, c->n, k1 - k0, &k, false, 0, R, 0, E);
    }
    for (int64_t i = 0; i < c->n; i++)
        for (int64_t e = 0; e < E; e++)
            grad_put(grad_row(q, pair_row(c, i)) + pair_head(c, i) * E + e, q->grad_written,
                     dq[i * E + e]);
    side_give(p);
}

static void query_grads(const run *r, const node *n, int64_t u0, int64_t u1)
{
    over_crowds(r, n, u0, u1, query_grad);
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

/* grad of t[first key + j, at + e] += sum over the crowd of w[i, j] x[i, e]: what queries of one
 * head send to the keys of a page. */
static void send(const run *r, const tensor *t, int64_t k_row, int64_t at, const real *w,
                 const crowd *c, int64_t keys, const real *x, int64_t x_stride, int64_t width)
{
    real *packed = side_take(CROWD * PAGE_ROWS * sizeof *packed);
    row_set x_rows = dtype_rows(&dtype_real, r->kern, x, width);
    x_rows.row_bytes = (size_t)x_stride * sizeof(real);
    r->kern->pack(packed, w, 1, PAGE_ROWS, keys, c->n, false, 0, row_blocks(keys, r->kern->rows));
    r->kern->product(grad_row(t, k_row) + at, t->stride, true, packed, keys, c->n, &x_rows, false,
                     0, row_blocks(keys, r->kern->rows), 0, width);
    side_give(packed);
}

/* What the queries of one sequence send to key and value head kv of the page [k0, k1), in ascending
 * order; `first` is the row of its first key. */
static void collect(const run *r, const node *n, const sequence *s, int64_t kv, int64_t first,
                    int64_t k0, int64_t k1)
{
    const attn *a = n->arg;
    const tensor *k = n->in[K], *v = in_keys(n) ? k : n->in[V];
    const int64_t group = a->n_head / a->n_head_kv, most = crowd_size(a);
    real *p = side_take(CROWD * PAGE_ROWS * sizeof *p);
    real *ds = side_take(CROWD * PAGE_ROWS * sizeof *ds);
    for (int64_t u = 0; u < group * row_blocks(s->n, most); u++) {
        const int64_t h = kv * group + u % group, i = u / group * most, q_row = s->first + i;
        const crowd c = gather(r, n, q_row, 1, h, 0, s->n - i < most ? s->n - i : most);
        const int64_t end = k1 < c.most ? k1 : c.most;
        if (end <= k0 || c.least >= k1)
            continue;
        slopes(r, n, &c, k0, end, a->scale, p, ds);
        if (k->needs_grad)
            send(r, k, first, kv * a->d_key, ds, &c, end - k0, row(n->in[Q], q_row) + h * a->d_key,
                 n->in[Q]->stride, a->d_key);
        if (v->needs_grad)
            send(r, v, first, c.v_at, p, &c, end - k0, grad_row(n->out, q_row) + h * a->d_value,
                 n->out->stride, a->d_value);
    }
    side_give(p);
}

/* Columns [at, at + width) of some rows' gradient, empty unless somebody has stored there. */
static void clear_columns(const tensor *t, int64_t first, int64_t count, int64_t at, int64_t width)
{
    for (int64_t i = 0; t->needs_grad && !t->grad_written && i < count; i++)
        memset(grad_row(t, first + i) + at, 0, (size_t)width * sizeof(real));
}

static void page_grads(const run *r, const node *n, int64_t u0, int64_t u1)
{
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
                for (int64_t s = 0; s < r->batch->n_seq; s++) {
                    const sequence *q = &r->batch->seq[s];
                    if (q->n > 0 && key_sequence(r, a, &r->batch->row[q->first]) == ks)
                        collect(r, n, q, kv, first, k0, k0 + keys);
                }
            }
}

/* What a crowd of one head sends to the bias table. */
static void bias_grad(const run *r, const node *n, const crowd *c)
{
    real *p = side_take(CROWD * PAGE_ROWS * sizeof *p), *to = n->in[BIAS]->grad + c->h0;
    real *ds = side_take(CROWD * PAGE_ROWS * sizeof *ds);
    const int64_t last = r->batch->row[pair_row(c, c->n - 1)].pos;
    for (int64_t k0 = c->least; k0 < c->most; k0 = page_end(k0, c->most)) {
        int64_t at[CROWD + PAGE_ROWS];
        const int64_t k1 = page_end(k0, c->most);
        slopes(r, n, c, k0, k1, 1, p, ds);
        bucket_distances(r, n, c, k0, k1, at);
        for (int64_t i = 0; i < c->n; i++) {
            const int64_t shift = last - r->batch->row[pair_row(c, i)].pos;
            for (int64_t j = 0; j < k1 - k0; j++)
                to[at[j + shift]] += ds[i * PAGE_ROWS + j];
        }
    }
    side_give(p);
}

static void bias_grads(const run *r, const node *n, int64_t h0, int64_t h1)
{
    const attn *a = n->arg;
    const tensor *t = n->in[BIAS];
    const int64_t most = crowd_size(a);
    for (int64_t h = h0; h < h1; h++) {
        for (int64_t b = 0; !t->grad_written && b < rows(t); b++)
            t->grad[b * a->n_head + h] = 0;
        for (const sequence *s = r->batch->seq; s < r->batch->seq + r->batch->n_seq; s++)
            for (int64_t i = 0; i < s->n; i += most) {
                const int64_t left = s->n - i;
                const crowd c = gather(r, n, s->first + i, 1, h, 0, left < most ? left : most);
                bias_grad(r, n, &c);
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
    const int64_t crowds = all_crowds(r, a);
    if (crowds == 0)
        return;
    const double each = keys_seen(r, a) * (double)(a->d_key + a->d_value) * (double)a->n_head;
    parallel(r, n, crowds, (int64_t)(each / (double)crowds), attend_crowds);
}

static void backward(run *r, const node *n)
{
    const attn *a = n->arg;
    const batch *b = key_batch(r, a);
    if (rows(n->out) == 0) {
        for (int i = K; i <= BIAS; i++)
            grad_clear(n->in[i]);
        return;
    }
    const double work = 3 * keys_seen(r, a) * (double)(a->d_key + a->d_value) * (double)a->n_head;
    const int64_t crowds = all_crowds(r, a);
    int64_t pages = 0;
    for (const sequence *s = b->seq; s < b->seq + b->n_seq; s++)
        pages += row_blocks(s->n, PAGE_ROWS) * a->n_head_kv;
    parallel(r, n, rows(n->out) * a->n_head, a->d_value, deltas);
    if (n->in[Q]->needs_grad)
        parallel(r, n, crowds, (int64_t)(work / (double)crowds), query_grads);
    if (n->in[K]->needs_grad || (n->in[V] && n->in[V]->needs_grad))
        parallel(r, n, pages, (int64_t)(work / (double)pages), page_grads);
    if (n->in[BIAS] && n->in[BIAS]->needs_grad)
        parallel(r, n, a->n_head, (int64_t)(work / (double)a->n_head), bias_grads);
}

static cost attention_cost(const run *r, const node *n)
{
    const attn *a = n->arg;
    const double seen = keys_seen(r, a);
    const double width = (double)(a->d_key + a->d_value);
    const double stored_width = in_keys(n) ? (double)a->d_key : width;
    return (cost){ .flops = 2 * seen * (double)a->n_head * width,
                   .bytes = seen * (double)a->n_head_kv * stored_width * sizeof(real) };
}

extern const op attention_op;
const op attention_op = { "attention", "y = sum_j p_j v_j,  p = softmax(scale q . k_j)", forward,
                          backward, attention_cost };

/* ---- maps, only for a trace ------------------------------------------------------------------ */

static void scores_forward(run *r, const node *n)
{
    const attn *a = n->arg;
    const int64_t H = a->n_head;
    for (int64_t u = 0; u < rows(n->out); u++) {
        const sight g = look(r, n, &r->batch->row[u / H]);
        real *s = row(n->out, u);
        for (int64_t j = 0; j < cols(n->out); j++)
            s[j] = -INFINITY;
        real *packed = side_take(NUMBERS * sizeof *packed);
        const crowd c = gather(r, n, u / H, 1, u % H, 0, 1);
        pack_pairs(r, &c, row(n->in[Q], 0), n->in[Q]->stride, a->d_key, packed);
        for (int64_t k0 = g.lo; k0 < g.hi; k0 = page_end(k0, g.hi))
            score(r, n, &c, packed, k0, page_end(k0, g.hi), s + k0, cols(n->out));
        side_give(packed);
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
const op attention_scores_op = { "scores", "s_j = scale q . k_j", scores_forward, NULL, map_cost };
const op attention_probs_op = { "probs", "p = softmax(s)", probs_forward, NULL, map_cost };

void attention_maps(run *r, const node *of, const op *scores_op, int64_t n_row, int64_t n_key,
                    bool cross)
{
    tape *recording = r->tape; /* maps are looked at, not learned from */
    const bool counting = r->counting;
    r->tape = NULL;
    r->counting = false;
    node scores = *of;
    scores.op = scores_op;
    scores.local = cross ? "cross_attention.scores" : "attention.scores";
    scores.out = tensor_new(r, n_row, n_key);
    tensor *s = apply(r, &scores);

    node probs = { .op = &attention_probs_op, .in = { s } };
    probs.local = cross ? "cross_attention.probs" : "attention.probs";
    probs.out = tensor_new(r, n_row, n_key);
    apply(r, &probs);
    r->tape = recording;
    r->counting = counting;
}

static void show_maps(run *r, const node *of)
{
    const attn *a = of->arg;
    int64_t T = 1;
    for (int64_t i = 0; i < r->batch->n_row; i++) {
        const int64_t end = key_end(r, a, &r->batch->row[i]);
        T = end > T ? end : T;
    }
    attention_maps(r, of, &attention_scores_op, rows(of->out) * a->n_head, T,
                   a->kind == ATTN_CROSS);
}

tensor *attention(run *r, tensor *q, tensor *k, tensor *v, const attn *a, int layer)
{
    assert(cols(q) == a->n_head * a->d_key && rows(q) == r->batch->n_row);
    assert(!k || cols(k) == a->n_head_kv * a->d_key);
    assert(!v || cols(v) == a->n_head_kv * a->d_value);
    assert(v || a->kind == ATTN_CROSS || a->d_value <= a->d_key);
    assert(k || a->kind == ATTN_CROSS);
    assert(!r->tape || r->batch->n_seq == 0 || !r->batch->seq[0].cache);
    node n = { .op = &attention_op, .in = { q, k, v, a->bias.table }, .arg = a };
    n.local = a->kind == ATTN_CROSS ? "cross_attention" : "attention";
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
