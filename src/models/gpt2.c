/* gpt2.c - pre-norm decoder: LayerNorm, fused query-key-value projection, GELU; positions learned
 * or rotary. */
#include "models/bind.h"

#include <string.h>

typedef struct gpt2_layer {
    weight attn_norm; /* [D] */
    weight qkv;       /* [3 D, D] */
    weight o;         /* [D, D] */
    weight ffn_norm;  /* [D] */
    weight up, down;  /* [F, D]  [D, F] */
} gpt2_layer;

typedef struct gpt2 {
    tensor *token_embd;    /* [V, D] */
    tensor *position_embd; /* [T, D], or NULL with rotary positions */
    weight output_norm;    /* [D] */
    weight output;         /* [V, D] */
    gpt2_layer *layer;
    const rope_table *rope; /* or NULL with learned positions */
    attn attn;
    act_kind act;
    real eps;
} gpt2;

static tensor *gpt2_block(run *r, const void *self, int l, tensor *x)
{
    const gpt2 *m = self;
    const gpt2_layer *w = &m->layer[l];
    const int64_t D = cols(x);

    tensor *h = layernorm(r, x, &w->attn_norm, m->eps); /* [N, D] */
    tensor *qkv = linear(r, h, &w->qkv);                /* [N, 3 D] */
    tensor *q = slice(r, qkv, "attn_q", 0, D);
    tensor *k = slice(r, qkv, "attn_k", D, D);
    tensor *v = slice(r, qkv, "attn_v", 2 * D, D);
    if (m->rope) {
        q = rope(r, q, m->rope);
        k = rope(r, k, m->rope);
    }
    h = attention(r, q, k, v, &m->attn, l); /* [N, D] */
    h = linear(r, h, &w->o);
    residual(r, &x, h);

    h = layernorm(r, x, &w->ffn_norm, m->eps);
    h = linear(r, h, &w->up); /* [N, F] */
    h = act(r, h, m->act);
    h = linear(r, h, &w->down);
    residual(r, &x, h);
    return x;
}

static tensor *gpt2_body(run *r, const model *of)
{
    const gpt2 *m = of->self;
    tensor *x = embed(r, m->token_embd, EMBED_TOKEN); /* [N, D] */
    if (m->position_embd) {
        tensor *p = embed(r, m->position_embd, EMBED_POSITION);
        residual(r, &x, p);
    }
    for (int l = 0; l < of->n_layer; l++)
        x = run_block(r, gpt2_block, m, l, x);
    return x;
}

static tensor *gpt2_states(run *r, const model *of, tensor *x)
{
    const gpt2 *m = of->self;
    return layernorm(r, x, &m->output_norm, m->eps);
}

static tensor *gpt2_end(run *r, const model *of, tensor *x)
{
    const gpt2 *m = of->self;
    x = gpt2_states(r, of, take_rows(r, x));
    return head(r, x, &m->output); /* [n_wanted, V] */
}

/* ---- from the file --------------------------------------------------------------------------- */

static const bind_name names[] = {
    { "token_embd", "transformer.wte" },
    { "position_embd", "transformer.wpe" },
    { "output_norm", "transformer.ln_f" },
    { "output", "lm_head" },
    { "attn_norm", "transformer.h.%d.ln_1" },
    { "attn_qkv", "transformer.h.%d.attn.c_attn" },
    { "attn_output", "transformer.h.%d.attn.c_proj" },
    { "ffn_norm", "transformer.h.%d.ln_2" },
    { "ffn_up", "transformer.h.%d.mlp.c_fc" },
    { "ffn_down", "transformer.h.%d.mlp.c_proj" },
    { NULL, NULL },
};

static void gpt2_read_sizes(bind *b)
{
    model *m = b->m;
    const int64_t max = INT32_MAX;
    m->n_layer = bind_int(b, "block_count", "n_layer", REQUIRED, 1, b->most);
    m->d_model = bind_int(b, "embedding_length", "n_embd", REQUIRED, 1, max / 4);
    m->n_head = bind_int(b, "attention.head_count", "n_head", REQUIRED, 1, m->d_model);
    m->n_head_kv = m->n_head;
    m->d_head = m->d_model / m->n_head;
    m->d_ff = bind_int(b, "feed_forward_length", "n_inner", 4 * m->d_model, 1, max);
    m->n_ctx = bind_int(b, "context_length", "n_positions", REQUIRED, 1, 1 << 24);
    m->n_vocab = bind_int(b, "vocab_size", "vocab_size", bind_rows_of(b, "token_embd"), 1, max);
    if (m->d_model % m->n_head != 0 || m->d_head > MAX_HEAD)
        bind_fail(b, WEFT_EFORMAT, "%lld heads cannot divide a width of %lld, or are wider than %d",
                  (long long)m->n_head, (long long)m->d_model, MAX_HEAD);
}

/* Refuses options of Hugging Face's GPT-2 that change the mathematics and that no published model
 * uses. */
static void gpt2_refuse_options(bind *b)
{
    if (!bind_flag(b, NULL, "scale_attn_weights", true))
        bind_fail(b, WEFT_EUNSUPPORTED, "scale_attn_weights = false");
    if (bind_flag(b, NULL, "scale_attn_by_inverse_layer_idx", false))
        bind_fail(b, WEFT_EUNSUPPORTED, "scale_attn_by_inverse_layer_idx = true");
    if (bind_flag(b, NULL, "add_cross_attention", false))
        bind_fail(b, WEFT_EUNSUPPORTED, "add_cross_attention = true");
}

static void gpt2_bind_positions(bind *b, gpt2 *m)
{
    const model *of = b->m;
    const char *kind = bind_text(b, "position_embedding_type", "position_embedding_type");
    if (!kind || strcmp(kind, "learned") == 0 || strcmp(kind, "absolute") == 0) {
        m->position_embd = bind_table(b, "position_embd", of->n_ctx, of->d_model);
        return;
    }
    if (strcmp(kind, "rope") != 0 || of->d_head % 2 != 0)
        bind_fail(b, WEFT_EUNSUPPORTED,
                  "position_embedding_type \"%.40s\" with heads of width %lld", kind,
                  (long long)of->d_head);
    m->rope = bind_rope(b, &(rope_spec){ .d_head = of->d_head, .n_rot = of->d_head });
}

static void gpt2_bind_layer(bind *b, gpt2_layer *w)
{
    const int64_t D = b->m->d_model, F = b->m->d_ff;
    w->attn_norm = bind_norm(b, "attn_norm", D, true);
    w->qkv = bind_conv1d(b, "attn_qkv", 3 * D, D);
    w->o = bind_conv1d(b, "attn_output", D, D);
    w->ffn_norm = bind_norm(b, "ffn_norm", D, true);
    w->up = bind_conv1d(b, "ffn_up", F, D);
    w->down = bind_conv1d(b, "ffn_down", D, F);
}

static void *bind_gpt2(bind *b)
{
    model *of = b->m;
    b->names = names;
    b->hf_prefix = "transformer.";
    gpt2_read_sizes(b);
    gpt2_refuse_options(b);
    gpt2 *m = bind_alloc(b, 1, sizeof *m);
    if (!m)
        return NULL;
    m->layer = bind_alloc(b, of->n_layer, sizeof *m->layer);
    m->eps = (real)bind_epsilon(b, "attention.layer_norm_epsilon", "layer_norm_epsilon", 1e-5);
    m->act = bind_act(b, "activation_function", ACT_GELU_TANH);
    m->attn = attn_of(ATTN_CAUSAL, of->n_head, of->n_head, of->d_head);
    of->stream[0] = (stream_spec){ "k", of->d_model };
    of->stream[1] = (stream_spec){ "v", of->d_model };
    of->n_stream = 2;
    of->pool = bind_decoder_pooling(b);

    m->token_embd = bind_table(b, "token_embd", of->n_vocab, of->d_model);
    gpt2_bind_positions(b, m);
    m->output_norm = bind_norm(b, "output_norm", of->d_model, true);
    const bool tied = bind_ties_head(b, true);
    m->output = tied ? bind_tied(b, "output", m->token_embd, NO_BIAS)
                     : bind_linear(b, "output", of->n_vocab, of->d_model, NO_BIAS);
    for (b->layer = 0; b->layer < of->n_layer && b->status == WEFT_OK; b->layer++)
        gpt2_bind_layer(b, &m->layer[b->layer]);
    b->layer = -1;
    bind_ignore(b, ".attn.bias");
    bind_ignore(b, ".attn.masked_bias");
    if (tied)
        bind_ignore(b, "lm_head.weight");
    return m;
}

const family gpt2_family = {
    .name = "gpt2", .bind = bind_gpt2, .body = gpt2_body, .end = gpt2_end, .states = gpt2_states
};
