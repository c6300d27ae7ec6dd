/* gpt2.c - decoder: LayerNorm, fused query-key-value projection, GELU; positions learned or rotary.
 *
 * GPT-2, and weft's own "decoder", whose config.json changes one thing at a time to compare it:
 *
 *     positions     a learned table, sines, rotary, or none
 *     norms         before attention and feed forward, or behind the residual; LayerNorm, RMSNorm
 *     feed forward  one matrix and an activation, or two and a gate
 *     heads         keys and values for each head, for groups of heads, or from a latent (latent.c)
 *
 * What a model lacks has a NULL weight. train/design.c has the words that `weft train` knows. */
#include "models/latent.h"
#include "models/sines.h"

#include <string.h>

/* Where w is NULL, there is none. */
typedef struct gpt2_layer {
    weight attn_norm; /* [D] */
    weight qkv;       /* [(H + 2 K) E, D]; or, with latents, ... */
    weight q;         /* ... [H (P + S), D] */
    latent_layer kv;
    weight o;                /* [D, H E] */
    weight attn_norm_behind; /* [D] */
    weight ffn_norm;         /* [D] */
    weight gate, up, down;   /* [F, D]  [F, D]  [D, F] */
    weight ffn_norm_behind;  /* [D] */
} gpt2_layer;

typedef struct gpt2 {
    tensor *token_embd;    /* [V, D] */
    tensor *position_embd; /* [T, D], or NULL */
    weight output_norm;    /* [D], or none: the last block has ended with one */
    weight output;         /* [V, D] */
    gpt2_layer *layer;
    const rope_table *rope; /* or NULL */
    attn attn;
    latent latent; /* d_latent 0: there is none */
    act_kind act;
    bool rms;        /* norms divide by the root mean square, and have no bias */
    real embd_scale; /* with sines, as in 2017; or 1 */
    real eps;
} gpt2;

static tensor *norm(run *r, const gpt2 *m, tensor *x, const weight *w)
{
    if (!w->w)
        return x;
    return m->rms ? rmsnorm(r, x, w->w, m->eps) : layernorm(r, x, w, m->eps);
}

static tensor *gpt2_attend(run *r, const gpt2 *m, const gpt2_layer *w, int l, tensor *h)
{
    const int64_t E = m->attn.d_key, Q = m->attn.n_head * E, K = m->attn.n_head_kv * E;
    tensor *qkv = linear(r, h, &w->qkv); /* [N, (H + 2 K) E] */
    tensor *q = slice(r, qkv, "attn_q", 0, Q);
    tensor *k = slice(r, qkv, "attn_k", Q, K);
    tensor *v = slice(r, qkv, "attn_v", Q + K, K);
    if (m->rope) {
        q = rope(r, q, m->rope);
        k = rope(r, k, m->rope);
    }
    return attention(r, q, k, v, &m->attn, l); /* [N, H E] */
}

static tensor *attend_latent(run *r, const gpt2 *m, const gpt2_layer *w, int l, tensor *h)
{
    tensor *q = linear(r, h, &w->q);                      /* [N, H (P + S)] */
    return latent_attend(r, &m->latent, &w->kv, l, q, h); /* [N, H E] */
}

static tensor *gpt2_feed_forward(run *r, const gpt2 *m, const gpt2_layer *w, tensor *h)
{
    if (w->gate.w)
        return glu(r, h, &w->gate, &w->up, m->act); /* [N, F] */
    h = linear(r, h, &w->up);
    return act(r, h, m->act);
}

static tensor *gpt2_block(run *r, const void *self, int l, tensor *x)
{
    const gpt2 *m = self;
    const gpt2_layer *w = &m->layer[l];

    tensor *h = norm(r, m, x, &w->attn_norm); /* [N, D] */
    h = m->latent.d_latent ? attend_latent(r, m, w, l, h) : gpt2_attend(r, m, w, l, h);
    h = linear(r, h, &w->o);
    residual(r, &x, h);
    x = norm(r, m, x, &w->attn_norm_behind);

    h = norm(r, m, x, &w->ffn_norm);
    h = gpt2_feed_forward(r, m, w, h); /* [N, F] */
    h = linear(r, h, &w->down);
    residual(r, &x, h);
    return norm(r, m, x, &w->ffn_norm_behind);
}

static tensor *gpt2_body(run *r, const model *of)
{
    const gpt2 *m = of->self;
    tensor *x = embed(r, m->token_embd, EMBED_TOKEN); /* [N, D] */
    if (m->embd_scale != 1)
        x = scale(r, x, m->embd_scale);
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
    return norm(r, m, x, &m->output_norm);
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
    { "attn_q", "transformer.h.%d.attn.q_proj" },
    { "attn_kv_a_mqa", "transformer.h.%d.attn.kv_a_proj_with_mqa" },
    { "attn_kv_a_norm", "transformer.h.%d.attn.kv_a_layernorm" },
    { "attn_kv_b", "transformer.h.%d.attn.kv_b_proj" },
    { "attn_output", "transformer.h.%d.attn.c_proj" },
    { "attn_output_norm", "transformer.h.%d.ln_1" },
    { "ffn_norm", "transformer.h.%d.ln_2" },
    { "ffn_gate", "transformer.h.%d.mlp.c_gate" },
    { "ffn_up", "transformer.h.%d.mlp.c_fc" },
    { "ffn_down", "transformer.h.%d.mlp.c_proj" },
    { "layer_output_norm", "transformer.h.%d.ln_2" },
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

/* ---- keys of weft's own ---------------------------------------------------------------------- */

/* What config.json says about the norms, the gate and the heads of a decoder. */
typedef struct gpt2_design {
    bool post, rms, gated;
    latent_sizes head; /* R 0: no latent */
} gpt2_design;

/* The key is one of two words; true: the second. Without it, the first. */
static bool second_word(bind *b, const char *key, const char *first, const char *second)
{
    const char *word = bind_text(b, NULL, key);
    if (word && strcmp(word, first) != 0 && strcmp(word, second) != 0)
        bind_fail(b, WEFT_EUNSUPPORTED, "%s is \"%.40s\"; expected %s or %s", key, word, first,
                  second);
    return word && strcmp(word, second) == 0;
}

/* Gated activations have names of their own. */
static act_kind gpt2_bind_act(bind *b, bool *gated)
{
    static const char key[] = "activation_function";
    const char *name = b->m->arch->designed ? bind_peek_text(b, NULL, key) : NULL;
    const bool swiglu = name && strcmp(name, "swiglu") == 0;
    *gated = swiglu || (name && strcmp(name, "geglu") == 0);
    if (!*gated)
        return bind_act(b, key, ACT_GELU_TANH);
    bind_text(b, NULL, key);
    return swiglu ? ACT_SILU : ACT_GELU_TANH;
}

/* Heads share keys and values, or compute them from a latent of R, next to S elements of a key that
 * all share. */
static void gpt2_read_heads(bind *b, gpt2_design *d)
{
    model *m = b->m;
    latent_sizes *n = &d->head;
    m->n_head_kv = bind_int(b, NULL, "num_key_value_heads", m->n_head, 1, m->n_head);
    if (m->n_head % m->n_head_kv != 0)
        bind_fail(b, WEFT_EFORMAT, "%lld heads cannot share %lld key-value heads",
                  (long long)m->n_head, (long long)m->n_head_kv);
    n->P = n->E = m->d_head;
    n->R = bind_int(b, NULL, "kv_lora_rank", 0, 0, MAX_HEAD / 2);
    n->S = n->R ? bind_int(b, NULL, "qk_rope_head_dim", REQUIRED, 2, MAX_HEAD / 2) : 0;
    if (n->R && m->n_head_kv != m->n_head)
        bind_fail(b, WEFT_EFORMAT, "kv_lora_rank with num_key_value_heads; expected one of them");
    if (n->P + n->S > MAX_HEAD)
        bind_fail(b, WEFT_EFORMAT, "keys of %lld elements; expected at most %d",
                  (long long)(n->P + n->S), MAX_HEAD);
    m->d_head = n->P + n->S;
}

static void gpt2_read_design(bind *b, gpt2_design *d)
{
    *d = (gpt2_design){ 0 };
    if (!b->m->arch->designed)
        return;
    d->post = second_word(b, "norm_placement", "pre", "post");
    d->rms = second_word(b, "norm_kind", "layernorm", "rmsnorm");
    gpt2_read_heads(b, d);
}

static bool is_word(const char *word, const char *name)
{
    return word && strcmp(word, name) == 0;
}

static void gpt2_bind_rope(bind *b, gpt2 *m, const gpt2_design *d)
{
    const int64_t E = b->m->d_head, turned = d->head.R > 0 ? d->head.S : E;
    if (turned % 2 != 0)
        bind_fail(b, WEFT_EUNSUPPORTED,
                  "position_embedding_type \"rope\" with %lld columns of a head to rotate; pairs "
                  "rotate, so give an even number",
                  (long long)turned);
    else if (d->head.R > 0)
        latent_bind_rope(b, &m->latent, &d->head);
    else
        m->rope = bind_rope(b, &(rope_spec){ .d_head = E, .n_rot = E });
}

static void gpt2_bind_positions(bind *b, gpt2 *m, const gpt2_design *d)
{
    const model *of = b->m;
    const char *kind = bind_text(b, "position_embedding_type", "position_embedding_type");
    m->embd_scale = 1;
    if (!kind || is_word(kind, "learned") || is_word(kind, "absolute")) {
        m->position_embd = bind_table(b, "position_embd", of->n_ctx, of->d_model);
    } else if (is_word(kind, "rope")) {
        gpt2_bind_rope(b, m, d);
    } else if (of->arch->designed && is_word(kind, "sinusoidal")) {
        m->embd_scale = sqrt((real)of->d_model);
        m->position_embd = bind_sines(b, &(sines){ POSITION_INTERLEAVED, 0, of->d_model },
                                      of->n_ctx);
    } else if (!of->arch->designed || !is_word(kind, "none")) {
        bind_fail(b, WEFT_EUNSUPPORTED,
                  "position_embedding_type is \"%.40s\"; expected learned, rope%s", kind,
                  of->arch->designed ? ", sinusoidal or none" : " or absolute");
    }
}

/* ---- weights --------------------------------------------------------------------------------- */

static void gpt2_bind_attention(bind *b, gpt2_layer *w, const gpt2_design *d)
{
    const model *m = b->m;
    const int64_t D = m->d_model, E = m->d_head;
    if (d->head.R > 0) {
        w->q = bind_linear(b, "attn_q", m->n_head * E, D, NO_BIAS);
        latent_bind_layer(b, &w->kv, &d->head);
    } else {
        w->qkv = bind_conv1d(b, "attn_qkv", (m->n_head + 2 * m->n_head_kv) * E, D);
    }
    w->o = bind_conv1d(b, "attn_output", D, D);
}

static void gpt2_bind_layer(bind *b, gpt2_layer *w, const gpt2_design *d)
{
    const int64_t D = b->m->d_model, F = b->m->d_ff;
    if (!d->post)
        w->attn_norm = bind_norm(b, "attn_norm", D, !d->rms);
    gpt2_bind_attention(b, w, d);
    if (d->post)
        w->attn_norm_behind = bind_norm(b, "attn_output_norm", D, !d->rms);
    else
        w->ffn_norm = bind_norm(b, "ffn_norm", D, !d->rms);
    if (d->gated)
        w->gate = bind_conv1d(b, "ffn_gate", F, D);
    w->up = bind_conv1d(b, "ffn_up", F, D);
    w->down = bind_conv1d(b, "ffn_down", D, F);
    if (d->post)
        w->ffn_norm_behind = bind_norm(b, "layer_output_norm", D, !d->rms);
}

static void gpt2_bind_ends(bind *b, gpt2 *m, const gpt2_design *d)
{
    model *of = b->m;
    m->token_embd = bind_table(b, "token_embd", of->n_vocab, of->d_model);
    gpt2_bind_positions(b, m, d);
    if (!d->post)
        m->output_norm = bind_norm(b, "output_norm", of->d_model, !d->rms);
    const bool tied = bind_ties_head(b, true);
    m->output = tied ? bind_tied(b, "output", m->token_embd, NO_BIAS)
                     : bind_linear(b, "output", of->n_vocab, of->d_model, NO_BIAS);
    if (tied)
        bind_ignore(b, "lm_head.weight");
}

/* What attention caches. */
static void gpt2_layout(bind *b, gpt2 *m, const gpt2_design *d)
{
    model *of = b->m;
    if (d->head.R > 0) {
        latent_layout(b, &m->latent, &d->head);
        return;
    }
    m->attn = attn_of(ATTN_CAUSAL, of->n_head, of->n_head_kv, of->d_head);
    of->stream[0] = (stream_spec){ "k", of->n_head_kv * of->d_head };
    of->stream[1] = (stream_spec){ "v", of->n_head_kv * of->d_head };
    of->n_stream = 2;
}

static void *bind_gpt2(bind *b)
{
    model *of = b->m;
    gpt2_design d;
    b->names = names;
    b->hf_prefix = "transformer.";
    gpt2_read_sizes(b);
    gpt2_refuse_options(b);
    gpt2_read_design(b, &d);
    gpt2 *m = bind_alloc(b, 1, sizeof *m);
    if (!m)
        return NULL;
    m->layer = bind_alloc(b, of->n_layer, sizeof *m->layer);
    m->eps = (real)bind_epsilon(b, "attention.layer_norm_epsilon", "layer_norm_epsilon", 1e-5);
    m->act = gpt2_bind_act(b, &d.gated);
    m->rms = d.rms;
    of->pool = bind_decoder_pooling(b);

    gpt2_bind_ends(b, m, &d);
    gpt2_layout(b, m, &d);
    for (b->layer = 0; b->layer < of->n_layer && b->status == WEFT_OK; b->layer++)
        gpt2_bind_layer(b, &m->layer[b->layer], &d);
    b->layer = -1;
    bind_ignore(b, ".attn.bias");
    bind_ignore(b, ".attn.masked_bias");
    return m;
}

const family gpt2_family = {
    .name = "gpt2", .bind = bind_gpt2, .body = gpt2_body, .end = gpt2_end, .states = gpt2_states
};
