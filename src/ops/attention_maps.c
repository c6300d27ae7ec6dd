/* attention_maps.c - scores and probabilities as separate tensors, for tracing. Attention itself
 * never builds them: they grow with the square of the length. */
#include "ops/maps.h"

#include "ops/attention_tile.h"

#include <string.h>

static void map_scores_rows(const run *r, const void *ctx, int64_t u0, int64_t u1)
{
    const node *n = ctx;
    const attn *a = n->arg;
    const int64_t H = a->n_head;
    for (int64_t u = u0; u < u1; u++) {
        const key_range g = keys_of(r, n, &r->at.batch->row[u / H]);
        real *s = row(n->out, u);
        for (int64_t j = 0; j < cols(n->out); j++)
            s[j] = -INFINITY;
        real *packed = side_take(QUERY_FLOATS * sizeof *packed);
        const query_tile c = tile_make(r, n, u / H, 1, u % H, 0, 1);
        tile_pack(r, &c, row(n->in[Q], 0), n->in[Q]->stride, a->d_key, packed);
        for (int64_t k0 = g.lo; k0 < g.hi; k0 = page_end(k0, g.hi))
            tile_score(r, n, &c, packed, k0, page_end(k0, g.hi), s + k0, cols(n->out));
        side_give(packed);
    }
}

static void map_scores_forward(run *r, const node *n)
{
    const attn *a = n->arg;
    parallel(r, rows(n->out), 2 * a->d_key * cols(n->out), map_scores_rows, n);
}

static void map_probs_rows(const run *r, const void *ctx, int64_t u0, int64_t u1)
{
    const node *n = ctx;
    for (int64_t u = u0; u < u1; u++) {
        real *p = row(n->out, u), max;
        memcpy(p, row(n->in[0], u), (size_t)cols(n->out) * sizeof *p);
        real sum = r->kern->exp_block(p, cols(n->out), 1, &max);
        if (n->in[1]) {
            real sink = values(n->in[1])[u % cols(n->in[1])];
            r->kern->exp_less(&sink, 1, max);
            sum += sink;
        }
        for (int64_t j = 0; j < cols(n->out); j++)
            p[j] = max > -INFINITY ? p[j] / sum : 0;
    }
}

static void map_probs_forward(run *r, const node *n)
{
    parallel(r, rows(n->out), 8 * cols(n->out), map_probs_rows, n);
}

static cost map_cost(const run *r, const node *n)
{
    (void)r;
    return cost_streaming(n, 10);
}

extern const op attention_probs_op;
const op attention_scores_op = { "scores", "s_j = scale q . k_j", map_scores_forward, NULL,
                                 map_cost };
const op attention_probs_op = { "probs", "p = softmax(s)", map_probs_forward, NULL, map_cost };

void attention_maps(run *r, const node *of, const op *scores_op, int64_t n_row, int64_t n_key,
                    bool cross, tensor *sink)
{
    const aside was = aside_begin(r);
    node scores = *of;
    scores.op = scores_op;
    scores.local = cross ? "cross_attention.scores" : "attention.scores";
    scores.out = tensor_new(r, n_row, n_key);
    tensor *s = apply(r, &scores);

    node probs = { .op = &attention_probs_op, .in = { s, sink } };
    probs.local = cross ? "cross_attention.probs" : "attention.probs";
    probs.out = tensor_new(r, n_row, n_key);
    apply(r, &probs);
    aside_end(r, was);
}

void attention_show(run *r, const node *of)
{
    const attn *a = of->arg;
    int64_t T = 1;
    for (int64_t i = 0; i < r->at.batch->n_row; i++) {
        const int64_t end = key_end(r, a, &r->at.batch->row[i]);
        T = end > T ? end : T;
    }
    attention_maps(r, of, &attention_scores_op, rows(of->out) * a->n_head, T, a->kind == ATTN_CROSS,
                   of->in[SINK]);
}
