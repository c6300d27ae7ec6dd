/* llama.c - decoder: rotary positions, grouped-query attention, gated feed forward.
 *
 * Llama 2 and 3, Mistral, Qwen2 and 3, SmolLM, TinyLlama, Gemma 2 and 3, Granite, OLMo 2 and 3,
 * Phi-3 and 4, EXAONE 4, GLM-4, Ministral 3, Mixtral, Qwen3-MoE, gpt-oss. Where they differ, a weight is NULL
 * or a number has a value that changes nothing; llama_bind.c reads them from the file. */
#include "models/llama.h"

static tensor *norm(run *r, tensor *x, tensor *w, real eps)
{
    return w ? rmsnorm(r, x, w, eps) : x;
}

static tensor *turn(run *r, tensor *x, const rope_table *t)
{
    return t ? rope(r, x, t) : x;
}

static tensor *times(run *r, tensor *x, real c)
{
    return c != 1 ? scale(r, x, c) : x;
}

static tensor *feed_forward(run *r, const llama *m, const llama_layer *w, tensor *h)
{
    h = glu(r, h, &w->gate, &w->up, m->act); /* [N, F] */
    return linear(r, h, &w->down);
}

static tensor *llama_block(run *r, const void *self, int l, tensor *x)
{
    const llama *m = self;
    const llama_layer *w = &m->layer[l];

    tensor *h = norm(r, x, w->attn_norm, m->eps); /* [N, D] */
    tensor *q = linear(r, h, &w->q);              /* [N, H E] */
    tensor *k = linear(r, h, &w->k);              /* [N, K E] */
    tensor *v = linear(r, h, &w->v);              /* [N, K E] */
    q = norm(r, q, w->q_norm, m->eps);
    k = norm(r, k, w->k_norm, m->eps);
    q = turn(r, q, w->q_rope);
    k = turn(r, k, w->k_rope);
    h = attention(r, q, k, v, &w->attn, l); /* [N, H E] */
    h = linear(r, h, &w->o);
    h = norm(r, h, w->attn_norm_behind, m->eps);
    h = times(r, h, m->branch_scale);
    residual(r, &x, h);

    h = norm(r, x, w->ffn_norm, m->eps);
    h = w->experts.part ? moe(r, h, &w->experts, &m->routing, l) : feed_forward(r, m, w, h);
    h = norm(r, h, w->ffn_norm_behind, m->eps);
    h = times(r, h, m->branch_scale);
    residual(r, &x, h);
    return x;
}

static tensor *llama_body(run *r, const model *of)
{
    const llama *m = of->self;
    tensor *x = embed(r, m->token_embd, EMBED_TOKEN); /* [N, D] */
    x = times(r, x, m->embd_scale);
    for (int l = 0; l < of->n_layer; l++)
        x = run_block(r, llama_block, m, l, x);
    return x;
}

static tensor *llama_states(run *r, const model *of, tensor *x)
{
    const llama *m = of->self;
    return rmsnorm(r, x, m->output_norm, m->eps);
}

static tensor *llama_end(run *r, const model *of, tensor *x)
{
    const llama *m = of->self;
    x = m->scores ? pool_rows(r, x, POOL_LAST) : take_rows(r, x);
    x = llama_states(r, of, x);
    x = times(r, x, m->logit_scale);
    return head_capped(r, x, &m->output, m->cap); /* [n_wanted, V] */
}

int64_t llama_hidden_width(int64_t d_model, double multiplier, int64_t multiple_of)
{
    const int64_t two_thirds = 2 * (4 * d_model) / 3;
    const int64_t scaled = (int64_t)(multiplier * (double)two_thirds);
    return (scaled + multiple_of - 1) / multiple_of * multiple_of;
}

const family llama_family = { .name = "llama",
                              .bind = llama_bind,
                              .body = llama_body,
                              .end = llama_end,
                              .states = llama_states };
