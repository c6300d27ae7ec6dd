#include "ops/ops.h"

extern const op embed_op, features_op, put_row_op, scale_op, rmsnorm_op, layernorm_op, linear_op,
    linear_heads_op, join_heads_op, moe_op, slice_op, rope_op, attention_op, attention_scores_op,
    attention_probs_op, kernel_pool_op, additive_op, additive_scores_op, gru_op, gru_attend_op,
    residual_op, relu_op, silu_op, gelu_op, gelu_tanh_op, tanh_op, glu_op, take_rows_op,
    pool_rows_op, l2norm_op, softmax_op, dropout_op, cross_entropy_op, linear_cross_entropy_op;

const op *const all_ops[] = {
    &embed_op,
    &features_op,
    &put_row_op,
    &scale_op,
    &rmsnorm_op,
    &layernorm_op,
    &linear_op,
    &linear_heads_op,
    &join_heads_op,
    &slice_op,
    &rope_op,
    &attention_op,
    &attention_scores_op,
    &attention_probs_op,
    &kernel_pool_op,
    &additive_op,
    &additive_scores_op,
    &gru_op,
    &gru_attend_op,
    &residual_op,
    &relu_op,
    &silu_op,
    &gelu_op,
    &gelu_tanh_op,
    &tanh_op,
    &glu_op,
    &moe_op,
    &take_rows_op,
    &pool_rows_op,
    &l2norm_op,
    &softmax_op,
    &dropout_op,
    &cross_entropy_op,
    &linear_cross_entropy_op,
    NULL,
};

static double bytes_of(const tensor *t)
{
    double n = 1;
    for (int d = 0; d < t->n_dim; d++)
        n *= (double)t->shape[d];
    return n / t->type->block * t->type->bytes;
}

cost cost_streaming(const node *n, double per)
{
    cost c = { .flops = per * (double)(rows(n->out) * cols(n->out)), .bytes = bytes_of(n->out) };
    for (int i = 0; i < MAX_INPUT; i++)
        if (n->in[i])
            c.bytes += bytes_of(n->in[i]);
    return c;
}

void parallel_rows(const run *r, const node *n, range_fn *fn)
{
    parallel(r, n, rows(n->out), cols(n->out), fn);
}
