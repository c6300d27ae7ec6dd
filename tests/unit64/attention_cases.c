/* Cases of attention for gradient checks, at any number of rows. */
#include "rig.h"

static tensor *with_attention(rig *g, attn a, int64_t keys, attn_bias bias)
{
    static attn kept; /* outlives the call, as an op's parameters must */
    kept = a;
    kept.bias = bias;
    tensor *q = leaf(g, g->batch.n_row, a.n_head * a.d_key),
           *k = leaf(g, keys, a.n_head_kv * a.d_key);
    tensor *v = leaf(g, keys, a.n_head_kv * a.d_value);
    return attention(&g->run, q, k, v, &kept, 0);
}

tensor *build_attention(rig *g)
{
    return with_attention(g, (attn){ ATTN_CAUSAL, 4, 2, 3, 5, 0.6, 0, { 0 }, 0, NULL },
                          g->batch.n_row, (attn_bias){ 0 });
}

tensor *build_window(rig *g)
{
    return with_attention(g,
                          (attn){ ATTN_CAUSAL, 3, 1, 3, 3, 0.6, g->size->window, { 0 }, 0, NULL },
                          g->batch.n_row, (attn_bias){ 0 });
}

/* Scores far beyond the cap and below it. */
tensor *build_cap(rig *g)
{
    return with_attention(g,
                          (attn){ .kind = ATTN_CAUSAL,
                                  .n_head = 4,
                                  .n_head_kv = 2,
                                  .d_key = 3,
                                  .d_value = 5,
                                  .scale = 0.6,
                                  .cap = 0.8 },
                          g->batch.n_row, (attn_bias){ 0 });
}

tensor *build_sink(rig *g)
{
    return with_attention(g,
                          (attn){ .kind = ATTN_CAUSAL,
                                  .n_head = 4,
                                  .n_head_kv = 2,
                                  .d_key = 3,
                                  .d_value = 2,
                                  .scale = 0.6,
                                  .window = g->size->window,
                                  .sink = vector_leaf(g, 4) },
                          g->batch.n_row, (attn_bias){ 0 });
}

tensor *build_in_keys(rig *g)
{
    static const attn a = { ATTN_CAUSAL, 4, 2, 5, 3, 0.6, 0, { 0 }, 0, NULL };
    tensor *q = leaf(g, g->batch.n_row, 20);
    return attention(&g->run, q, leaf(g, g->batch.n_row, 10), NULL, &a, 0);
}

tensor *build_full(rig *g)
{
    return with_attention(g, (attn){ ATTN_FULL, 2, 2, 3, 3, 0.6, 0, { 0 }, 0, NULL },
                          g->batch.n_row, (attn_bias){ 0 });
}

tensor *build_bias(rig *g)
{
    tensor *table = leaf(g, 8, 3);
    return with_attention(g, (attn){ ATTN_FULL, 3, 3, 3, 3, 1, 0, { 0 }, 0, NULL }, g->batch.n_row,
                          (attn_bias){ table, true, g->size->max_distance });
}

tensor *build_cross(rig *g)
{
    sources_of(g);
    return with_attention(g, (attn){ ATTN_CROSS, 4, 2, 3, 2, 0.6, 0, { 0 }, 0, NULL }, g->src.n_row,
                          (attn_bias){ 0 });
}

tensor *build_additive(rig *g)
{
    sources_of(g);
    const int64_t n = g->batch.n_row, keys = g->src.n_row;
    tensor *q = leaf(g, n, 4), *k = leaf(g, keys, 4), *v = leaf(g, keys, 5);
    return additive(&g->run, q, k, v, leaf(g, 1, 4));
}
