/* llama.c - pre-norm decoder: rotary positions, grouped-query attention, SwiGLU.
 *
 * Llama 2 and 3, Mistral (sliding window), Qwen2 (biases on q, k, v), Qwen3 (norms on the heads of
 * q and k), SmolLM, TinyLlama. The differences are in the file: an optional tensor, a key that is
 * set. */
#include "models/bind.h"

#include <string.h>

typedef struct llama_layer {
    tensor *attn_norm;       /* [D] */
    weight q, k, v, o;       /* [H E, D]  [K E, D]  [K E, D]  [D, H E] */
    tensor *q_norm, *k_norm; /* [E], Qwen3 */
    tensor *ffn_norm;        /* [D] */
    weight gate, up, down;   /* [F, D]  [F, D]  [D, F] */
} llama_layer;

typedef struct llama {
    tensor *token_embd;  /* [V, D] */
    tensor *output_norm; /* [D] */
    weight output;       /* [V, D] */
    llama_layer *layer;
    const rope_table *rope;
    attn attn;
    real eps;
} llama;

static tensor *llama_block(run *r, const void *self, int l, tensor *x)
{
    const llama *m = self;
    const llama_layer *w = &m->layer[l];

    tensor *h = rmsnorm(r, x, w->attn_norm, m->eps); /* [N, D] */
    tensor *q = linear(r, h, &w->q);                 /* [N, H E] */
    tensor *k = linear(r, h, &w->k);                 /* [N, K E] */
    tensor *v = linear(r, h, &w->v);                 /* [N, K E] */
    if (w->q_norm) {
        q = rmsnorm(r, q, w->q_norm, m->eps);
        k = rmsnorm(r, k, w->k_norm, m->eps);
    }
    q = rope(r, q, m->rope);
    k = rope(r, k, m->rope);
    h = attention(r, q, k, v, &m->attn, l); /* [N, H E] */
    h = linear(r, h, &w->o);
    residual(r, &x, h);

    h = rmsnorm(r, x, w->ffn_norm, m->eps);
    h = glu(r, h, &w->gate, &w->up, ACT_SILU); /* [N, F] */
    h = linear(r, h, &w->down);
    residual(r, &x, h);
    return x;
}

static tensor *llama_body(run *r, const model *of)
{
    const llama *m = of->self;
    tensor *x = embed(r, m->token_embd, EMBED_TOKEN); /* [N, D] */
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
    x = llama_states(r, of, take_rows(r, x));
    return head(r, x, &m->output); /* [n_wanted, V] */
}

int64_t llama_hidden_width(int64_t d_model, double multiplier, int64_t multiple_of)
{
    const int64_t two_thirds = 2 * (4 * d_model) / 3;
    const int64_t scaled = (int64_t)(multiplier * (double)two_thirds);
    return (scaled + multiple_of - 1) / multiple_of * multiple_of;
}

/* ---- from the file --------------------------------------------------------------------------- */

static const bind_name names[] = {
    { "token_embd", "model.embed_tokens" },
    { "output_norm", "model.norm" },
    { "output", "lm_head" },
    { "attn_norm", "model.layers.%d.input_layernorm" },
    { "attn_q", "model.layers.%d.self_attn.q_proj" },
    { "attn_k", "model.layers.%d.self_attn.k_proj" },
    { "attn_v", "model.layers.%d.self_attn.v_proj" },
    { "attn_output", "model.layers.%d.self_attn.o_proj" },
    { "attn_q_norm", "model.layers.%d.self_attn.q_norm" },
    { "attn_k_norm", "model.layers.%d.self_attn.k_norm" },
    { "ffn_norm", "model.layers.%d.post_attention_layernorm" },
    { "ffn_gate", "model.layers.%d.mlp.gate_proj" },
    { "ffn_up", "model.layers.%d.mlp.up_proj" },
    { "ffn_down", "model.layers.%d.mlp.down_proj" },
    { NULL, NULL },
};

static void llama_read_sizes(bind *b)
{
    model *m = b->m;
    const int64_t max = INT32_MAX;
    m->n_layer = bind_int(b, "block_count", "num_hidden_layers", REQUIRED, 1, b->most);
    m->d_model = bind_int(b, "embedding_length", "hidden_size", REQUIRED, 1, max);
    m->n_head = bind_int(b, "attention.head_count", "num_attention_heads", REQUIRED, 1, 65536);
    m->n_head_kv = bind_int(b, "attention.head_count_kv", "num_key_value_heads", m->n_head, 1,
                            m->n_head);
    m->d_head = bind_int(b, "attention.key_length", "head_dim", m->d_model / m->n_head, 2,
                         MAX_HEAD);
    bind_int(b, "attention.value_length", NULL, m->d_head, m->d_head, m->d_head);
    m->d_ff = bind_int(b, "feed_forward_length", "intermediate_size", REQUIRED, 1, max);
    m->n_ctx = bind_int(b, "context_length", "max_position_embeddings", REQUIRED, 1, 1 << 24);
    m->n_vocab = bind_int(b, "vocab_size", "vocab_size", bind_rows_of(b, "token_embd"), 1, max);
    if (m->n_head % m->n_head_kv != 0)
        bind_fail(b, WEFT_EFORMAT, "%lld heads cannot share %lld key-value heads",
                  (long long)m->n_head, (long long)m->n_head_kv);
}

/* Only Mistral uses its window for all layers; in others the key exists but is switched off. */
static int64_t read_window(bind *b)
{
    if (!b->gguf_keys && !b->m->arch->hf_window) {
        if (bind_flag(b, NULL, "use_sliding_window", false))
            bind_fail(b, WEFT_EUNSUPPORTED, "use_sliding_window: windows on some layers only");
        bind_unused_int(b, "sliding_window", 0, INT32_MAX);
        return 0;
    }
    return bind_int(b, "attention.sliding_window", "sliding_window", 0, 0, INT32_MAX);
}

static const rope_table *llama_read_rope(bind *b)
{
    const int64_t E = b->m->d_head;
    rope_spec s = { .d_head = E };
    s.n_rot = bind_int(b, "rope.dimension_count", NULL, E, 2, E);
    if (bind_real(b, NULL, "partial_rotary_factor", 1, 0, 1) != 1)
        bind_fail(b, WEFT_EUNSUPPORTED, "partial_rotary_factor other than 1");
    return bind_rope(b, &s);
}

static void llama_bind_layer(bind *b, llama_layer *w)
{
    const int64_t D = b->m->d_model, E = b->m->d_head, F = b->m->d_ff;
    const int64_t H = b->m->n_head, K = b->m->n_head_kv;
    const bind_bias qkv = b->m->arch->hf_qkv_bias ? WITH_BIAS : NO_BIAS;
    w->attn_norm = bind_norm(b, "attn_norm", D, false).w;
    w->q = bind_heads(b, "attn_q", H, E, D, qkv);
    w->k = bind_heads(b, "attn_k", K, E, D, qkv);
    w->v = bind_linear(b, "attn_v", K * E, D, qkv);
    w->o = bind_linear(b, "attn_output", D, H * E, NO_BIAS);
    if (bind_has(b, "attn_q_norm")) {
        w->q_norm = bind_head_norm(b, "attn_q_norm", E);
        w->k_norm = bind_head_norm(b, "attn_k_norm", E);
    }
    w->ffn_norm = bind_norm(b, "ffn_norm", D, false).w;
    w->gate = bind_linear(b, "ffn_gate", F, D, NO_BIAS);
    w->up = bind_linear(b, "ffn_up", F, D, NO_BIAS);
    w->down = bind_linear(b, "ffn_down", D, F, NO_BIAS);
}

/* config.json has one flag for the biases of attention, and one for those of the feed forward. */
static void imply_biases(bind *b, const llama_layer *w)
{
    bind_implied(b, "attention_bias", w->o.b);
    bind_implied(b, "mlp_bias", w->up.b);
    if (b->gguf_keys && !w->q.b == (w->o.b || b->m->arch->hf_qkv_bias))
        bind_not_convertible(b, "biases on some of q, k, v and o");
}

static void *bind_llama(bind *b)
{
    model *of = b->m;
    b->names = names;
    b->hf_prefix = "model.";
    llama_read_sizes(b);
    llama *m = bind_alloc(b, 1, sizeof *m);
    if (!m)
        return NULL;
    m->layer = bind_alloc(b, of->n_layer, sizeof *m->layer);
    m->eps = (real)bind_epsilon(b, "attention.layer_norm_rms_epsilon", "rms_norm_eps", 1e-6);
    if (bind_act(b, "hidden_act", ACT_SILU) != ACT_SILU)
        bind_fail(b, WEFT_EUNSUPPORTED, "hidden_act other than silu");
    m->attn = (attn){ ATTN_CAUSAL,    of->n_head, of->n_head_kv,
                      of->d_head,     of->d_head, 1 / sqrt((real)of->d_head),
                      read_window(b), { 0 } };
    of->stream[0] = (stream_spec){ "k", of->n_head_kv * of->d_head };
    of->stream[1] = (stream_spec){ "v", of->n_head_kv * of->d_head };
    of->n_stream = 2;
    of->pool = bind_decoder_pooling(b);
    m->rope = llama_read_rope(b);

    m->token_embd = bind_table(b, "token_embd", of->n_vocab, of->d_model);
    m->output_norm = bind_norm(b, "output_norm", of->d_model, false).w;
    const bool tied = bind_ties_head(b, false);
    m->output = tied ? bind_tied(b, "output", m->token_embd, NO_BIAS)
                     : bind_linear(b, "output", of->n_vocab, of->d_model, NO_BIAS);
    for (b->layer = 0; b->layer < of->n_layer && b->status == WEFT_OK; b->layer++)
        llama_bind_layer(b, &m->layer[b->layer]);
    b->layer = -1;
    if (b->status == WEFT_OK)
        imply_biases(b, &m->layer[0]);
    bind_ignore(b, ".rotary_emb.inv_freq");
    if (tied)
        bind_ignore(b, "lm_head.weight");
    return m;
}

const family llama_family = { .name = "llama",
                              .bind = bind_llama,
                              .body = llama_body,
                              .end = llama_end,
                              .states = llama_states };
