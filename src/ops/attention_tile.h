/* attention_tile.h - the keys each query attends to, and tiles of queries.
 *
 * A tile is up to 256 pairs of a query and a head, all of one sequence and of one key-value head, so
 * that their scores with a page of keys are one matrix product. The page becomes a panel of floats
 * once for all of them:
 *
 *                     keys of the sequence, at absolute positions
 *            |<-------- block of 256 -------->|<-------- block of 256 -------->|
 *            | page 64 | page 64 | 64 | 64    | page 64 | ...
 *     tile 0  q K^T      q K^T     ...          one softmax state (m, l, o) per block,
 *     tile 1   ...                              blocks merged from left to right
 *
 * In forward, threads take whole tiles; attention_backward.c draws what they take there. */
#ifndef WEFT_OPS_ATTENTION_TILE_H
#define WEFT_OPS_ATTENTION_TILE_H

#include "ops/ops.h"

#define KEY_BLOCK 256 /* keys whose scores are summed at once; blocks begin at multiples of it */

#define QUERY_TILE   256        /* most pairs of query and head ... */
#define QUERY_FLOATS (256 * 64) /* ... and floats in a tile; MAX_HEAD must fit */

enum { Q, K, V, BIAS, SINK };
enum { STREAM_K, STREAM_V };
enum { LSE, DELTA }; /* saved when recording, [N, H]: log sum exp of the scores; dy . y */

/* The keys of a query. */
typedef struct key_range {
    view k, v;
    int64_t lo, hi; /* positions of the keys it sees */
} key_range;

/* Pairs of a query and one of the `group` heads from h0, all of one sequence: pair p is row first +
 * p / group, head h0 + p % group. */
typedef struct query_tile {
    int64_t first, group, h0, p0, n;
    int64_t lo[QUERY_TILE], hi[QUERY_TILE]; /* what each sees */
    int64_t first_key, end_key;             /* union of their key ranges */
    view k, v;
    int64_t k_at, v_at; /* the first column of their head of keys and values */
} query_tile;

static inline int64_t pair_row(const query_tile *c, int64_t p)
{
    return c->first + (c->p0 + p) / c->group;
}

static inline int64_t pair_head(const query_tile *c, int64_t p)
{
    return c->h0 + (c->p0 + p) % c->group;
}

/* The end of the page of position pos, or `end_key` if that comes first. */
static inline int64_t page_end(int64_t pos, int64_t end_key)
{
    const int64_t end = pos / PAGE_ROWS * PAGE_ROWS + PAGE_ROWS;
    return end < end_key ? end : end_key;
}

/* The batch and sequence that hold the keys of a query's sequence, and where they end for it. */
const batch *key_batch(const run *r, const attn *a);
const sequence *key_sequence(const run *r, const attn *a, const batch_row *q);
int64_t key_end(const run *r, const attn *a, const batch_row *q);
key_range keys_of(const run *r, const node *n, const batch_row *q);

/* Are values the first columns of keys? */
bool values_in_keys(const node *n);

/* Keys attended to, summed over all queries. */
double attention_keys_seen(const run *r, const attn *a);

/* Pairs of a full tile, and one of `count` pairs from p0 on. */
int64_t tile_size(const attn *a);
query_tile tile_make(const run *r, const node *n, int64_t first, int64_t group, int64_t h0,
                     int64_t p0, int64_t count);

/* The pairs' rows of t, `width` values per head, one after the other. */
void tile_gather(const query_tile *c, const real *t, int64_t stride, int64_t width, real *to);

/* They, packed as the left side of a product. */
void tile_pack(const run *r, const query_tile *c, const real *t, int64_t stride, int64_t width,
               real *packed);

/* Positions from pos on, columns from `at`, as the right side of a product. A head that begins
 * inside a stored block uses the format's own producer. */
static inline row_set tile_keys(const run *r, const view *v, int64_t pos, int64_t at, int64_t width)
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

/* The row of T5's table for a distance j - i: half of the buckets for near distances one by one, the rest
 * for far ones on a log scale. */
int64_t bias_bucket(int64_t distance, int64_t n_bucket, const attn_bias *b);

/* Buckets of the bias table for all distances between the pairs and the keys [k0, k1) of a page,
 * from the last pair to the first key on. Each takes a logarithm, but there are far fewer distances
 * than scores. */
void tile_buckets(const run *r, const node *n, const query_tile *c, int64_t k0, int64_t k1,
                  int64_t at[QUERY_TILE + PAGE_ROWS]);

/* The first block of pairs, as products cut them, that may see keys from k0 on. Positions ascend, so
 * no pair before it does: products leave those out. */
int64_t tile_block(const run *r, const query_tile *c, int64_t k0);

/* q . k of the keys [k0, k1) of one page, rows `stride` apart, from tile_block on. */
void tile_dots(const run *r, const node *n, const query_tile *c, const real *packed_q, int64_t k0,
               int64_t k1, real *s, int64_t stride);

/* The same as scores: scaled, with bias and cap. */
void tile_score(const run *r, const node *n, const query_tile *c, const real *packed_q, int64_t k0,
                int64_t k1, real *s, int64_t stride);

/* All tiles of the batch, for each key-value head; calls fn for [u0, u1) of them. Later queries
 * have more keys, so they come first. */
typedef void query_tile_fn(const run *r, const node *n, const query_tile *c);
int64_t attention_tiles(const run *r, const attn *a);
void attention_each_tile(const run *r, const node *n, int64_t u0, int64_t u1, query_tile_fn *fn);

#endif
