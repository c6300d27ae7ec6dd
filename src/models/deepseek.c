/* deepseek.c - pre-norm decoder with multi-head latent attention and a mixture of experts.
 *
 * DeepSeek-V2 and V3, GLM-4.7-Flash: attention is in latent.c, experts in ops/moe.c. */
#include "models/latent.h"

#include <stdio.h>
#include <string.h>

typedef struct deepseek_layer {
    tensor *attn_norm; /* [D] */
    weight q_a;        /* [Q, D], or none */
    tensor *q_a_norm;  /* [Q] */
    weight q;          /* [H (P + S), Q], or [H (P + S), D] */
    latent_layer kv;
    weight o;              /* [D, H E] */
    tensor *ffn_norm;      /* [D] */
    weight gate, up, down; /* [F, D]  [F, D]  [D, F]: dense or shared experts; or none */
    experts experts;       /* or none */
} deepseek_layer;

typedef struct deepseek {
    tensor *token_embd;  /* [V, D] */
    tensor *output_norm; /* [D] */
    weight output;       /* [V, D] */
    deepseek_layer *layer;
    latent latent;
    routing routing;
    real eps;
} deepseek;

static tensor *deepseek_attend(run *r, const deepseek *m, const deepseek_layer *w, int l, tensor *h)
{
    tensor *q = h;
    if (w->q_a.w) {
        q = linear(r, q, &w->q_a); /* [N, Q] */
        q = rmsnorm(r, q, w->q_a_norm, LATENT_EPS);
    }
    q = linear(r, q, &w->q);                           /* [N, H (P + S)] */
    h = latent_attend(r, &m->latent, &w->kv, l, q, h); /* [N, H E] */
    return linear(r, h, &w->o);
}

static tensor *deepseek_block(run *r, const void *self, int l, tensor *x)
{
    const deepseek *m = self;
    const deepseek_layer *w = &m->layer[l];

    tensor *h = rmsnorm(r, x, w->attn_norm, m->eps); /* [N, D] */
    h = deepseek_attend(r, m, w, l, h);
    residual(r, &x, h);

    tensor *in = rmsnorm(r, x, w->ffn_norm, m->eps);
    if (w->experts.part) {
        h = moe(r, in, &w->experts, &m->routing, l);
        residual(r, &x, h);
    }
    if (w->gate.w) {
        h = glu(r, in, &w->gate, &w->up, ACT_SILU); /* [N, F] */
        h = linear(r, h, &w->down);
        residual(r, &x, h);
    }
    return x;
}

static tensor *deepseek_body(run *r, const model *of)
{
    const deepseek *m = of->self;
    tensor *x = embed(r, m->token_embd, EMBED_TOKEN); /* [N, D] */
    for (int l = 0; l < of->n_layer; l++)
        x = run_block(r, deepseek_block, m, l, x);
    return x;
}

static tensor *deepseek_end(run *r, const model *of, tensor *x)
{
    const deepseek *m = of->self;
    x = take_rows(r, x);
    x = rmsnorm(r, x, m->output_norm, m->eps);
    return head(r, x, &m->output); /* [n_wanted, V] */
}

/* ---- from the file --------------------------------------------------------------------------- */

static const bind_name names[] = {
    { "token_embd", "model.embed_tokens" },
    { "output_norm", "model.norm" },
    { "output", "lm_head" },
    { "attn_norm", "model.layers.%d.input_layernorm" },
    { "attn_q", "model.layers.%d.self_attn.q_proj" },
    { "attn_q_a", "model.layers.%d.self_attn.q_a_proj" },
    { "attn_q_a_norm", "model.layers.%d.self_attn.q_a_layernorm" },
    { "attn_q_b", "model.layers.%d.self_attn.q_b_proj" },
    { "attn_kv_a_mqa", "model.layers.%d.self_attn.kv_a_proj_with_mqa" },
    { "attn_kv_a_norm", "model.layers.%d.self_attn.kv_a_layernorm" },
    { "attn_kv_b", "model.layers.%d.self_attn.kv_b_proj" },
    { "attn_output", "model.layers.%d.self_attn.o_proj" },
    { "ffn_norm", "model.layers.%d.post_attention_layernorm" },
    { "ffn_gate", "model.layers.%d.mlp.gate_proj" },
    { "ffn_up", "model.layers.%d.mlp.up_proj" },
    { "ffn_down", "model.layers.%d.mlp.down_proj" },
    { "ffn_gate_inp", "model.layers.%d.mlp.gate" },
    { "exp_probs_b", "model.layers.%d.mlp.gate.e_score_correction_bias=" },
    { "ffn_gate_exps", "model.layers.%d.mlp.experts.%e.gate_proj" },
    { "ffn_up_exps", "model.layers.%d.mlp.experts.%e.up_proj" },
    { "ffn_down_exps", "model.layers.%d.mlp.experts.%e.down_proj" },
    { "ffn_gate_shexp", "model.layers.%d.mlp.shared_experts.gate_proj" },
    { "ffn_up_shexp", "model.layers.%d.mlp.shared_experts.up_proj" },
    { "ffn_down_shexp", "model.layers.%d.mlp.shared_experts.down_proj" },
    { NULL, NULL },
};

/* Per row, queries have a latent of Q, or 0. For experts: the number of leading layers without any,
 * and the hidden width F. */
typedef struct sizes {
    latent_sizes head;
    int64_t Q;
    int64_t n_dense, d_expert, n_shared;
    int64_t n_further; /* layers that are left out */
} sizes;

/* GGUF files of the first layout give the head widths. Those of the second use the same keys for
 * the cached widths and have other keys for the heads. */
static void read_head_sizes(bind *b, sizes *n)
{
    n->head.S = bind_int(b, "rope.dimension_count", "qk_rope_head_dim", REQUIRED, 2, MAX_HEAD / 2);
    const bool split = b->gguf_keys &&
                       bind_int(b, "attention.key_length_mla", NULL, 0, 0, MAX_HEAD) > 0;
    if (b->gguf_keys) {
        const char *key = split ? "attention.key_length_mla" : "attention.key_length";
        n->head.P = bind_int(b, key, NULL, REQUIRED, n->head.S + 1, MAX_HEAD) - n->head.S;
        bind_export_int(b, NULL, "qk_nope_head_dim", n->head.P);
    } else {
        n->head.P = bind_int(b, NULL, "qk_nope_head_dim", REQUIRED, 1, MAX_HEAD / 2);
        bind_export_int(b, "attention.key_length", NULL, n->head.P + n->head.S);
    }
    n->head.E = bind_int(b, split ? "attention.value_length_mla" : "attention.value_length",
                         "v_head_dim", REQUIRED, 1, MAX_HEAD);
    n->head.R = bind_int(b, "attention.kv_lora_rank", "kv_lora_rank", REQUIRED, 1,
                         MAX_HEAD - n->head.S);
    n->Q = bind_int(b, "attention.q_lora_rank", "q_lora_rank", 0, 0, INT32_MAX);
}

/* The number of layers; *further of them, at the end of a GGUF file and beyond the number that
 * config.json gives, predict further tokens and are left out. */
static int64_t read_layers(bind *b, int64_t *further)
{
    static const char key[] = "nextn_predict_layers";
    const int64_t all = (int64_t)bind_peek_real(b, "block_count", NULL, 1, 1, (double)b->most);
    *further = (int64_t)bind_peek_real(b, key, "num_nextn_predict_layers", 0, 0,
                                       b->gguf_keys ? (double)(all - 1) : 1 << 10);
    if (!b->gguf_keys || *further == 0)
        return bind_int(b, "block_count", "num_hidden_layers", REQUIRED, 1, b->most);
    bind_keep(
        b, "block_count", "num_hidden_layers", true,
        (meta){ .type = META_INT, .integer = all - *further, .number = (double)(all - *further) });
    return all - *further;
}

/* Layers without experts come first. transformers also writes a word for each layer. */
static int64_t read_dense(bind *b)
{
    const int64_t usual = strcmp(b->m->name, "glm4_moe_lite") == 0 ? 1 : 0;
    char key[40];
    if (!bind_entry(b, "mlp_layer_types.0"))
        return bind_int(b, "leading_dense_block_count", "first_k_dense_replace", usual, 0,
                        INT32_MAX);
    int64_t n = 0;
    for (int64_t l = 0; l < b->m->n_layer; l++) {
        snprintf(key, sizeof key, "mlp_layer_types.%lld", (long long)l);
        const char *kind = bind_peek_text(b, NULL, key);
        const bool dense = kind && strcmp(kind, "dense") == 0;
        n += dense;
        if ((dense && n <= l) || (!dense && (!kind || strcmp(kind, "sparse") != 0))) {
            bind_fail(b, WEFT_EUNSUPPORTED,
                      "%s is \"%.40s\"; expected dense layers and then sparse ones", key,
                      kind ? kind : "missing");
            return n;
        }
    }
    bind_export_int(b, "leading_dense_block_count", NULL, n);
    return n;
}

static void deepseek_read_sizes(bind *b, sizes *n)
{
    model *m = b->m;
    const int64_t max = INT32_MAX;
    m->n_layer = read_layers(b, &n->n_further);
    m->d_model = bind_int(b, "embedding_length", "hidden_size", REQUIRED, 1, max);
    m->n_head = bind_int(b, "attention.head_count", "num_attention_heads", REQUIRED, 1, 65536);
    bind_int(b, "attention.head_count_kv", "num_key_value_heads", m->n_head, 1, m->n_head);
    m->d_ff = bind_int(b, "feed_forward_length", "intermediate_size", REQUIRED, 1, max);
    m->n_ctx = bind_int(b, "context_length", "max_position_embeddings", REQUIRED, 1, 1 << 24);
    m->n_vocab = bind_int(b, "vocab_size", "vocab_size", bind_rows_of(b, "token_embd"), 1, max);
    read_head_sizes(b, n);
    m->n_head_kv = m->n_head;
    m->d_head = n->head.P + n->head.S;
    n->n_dense = read_dense(b);
}

/* V3 and GLM score with sigmoids, V2 with a softmax. Only V2's method says whether groups count. */
static void read_groups(bind *b, routing *how)
{
    const int64_t all = how->n_expert;
    bool grouped = true;
    how->n_group = how->n_group_used = 1;
    if (!b->gguf_keys && how->kind == ROUTE_SOFTMAX) {
        const char *method = bind_text(b, NULL, "topk_method");
        grouped = method && strcmp(method, "group_limited_greedy") == 0;
        if (method && !grouped && strcmp(method, "greedy") != 0)
            bind_fail(b, WEFT_EUNSUPPORTED,
                      "unsupported topk_method \"%.40s\"; expected greedy or group_limited_greedy",
                      method);
    }
    if (grouped) {
        how->n_group = bind_int(b, "expert_group_count", "n_group", 1, 1, all);
        how->n_group_used = bind_int(b, "expert_group_used_count", "topk_group", how->n_group, 1,
                                     how->n_group);
    }
    if (b->gguf_keys && how->kind == ROUTE_SOFTMAX)
        bind_export_text(b, NULL, "topk_method",
                         how->n_group > 1 ? "group_limited_greedy" : "greedy");
    if (all % how->n_group != 0 || how->n_used > all / how->n_group * how->n_group_used)
        bind_fail(b, WEFT_EFORMAT, "%lld of %lld experts from %lld of %lld groups",
                  (long long)how->n_used, (long long)all, (long long)how->n_group_used,
                  (long long)how->n_group);
}

/* GGUF has the same name for V2, V3 and GLM; the scoring function distinguishes V2. */
static route_kind read_kind(bind *b)
{
    enum { GATE_SOFTMAX = 1, GATE_SIGMOID };
    const bool v3 = !b->gguf_keys && strcmp(b->m->name, "deepseek_v2") != 0;
    bind_export_int(b, "expert_gating_func", NULL, v3 ? GATE_SIGMOID : GATE_SOFTMAX);
    if (!b->gguf_keys)
        return v3 ? ROUTE_SIGMOID : ROUTE_SOFTMAX;
    const bool sigmoid = bind_int(b, "expert_gating_func", NULL, GATE_SOFTMAX, GATE_SOFTMAX,
                                  GATE_SIGMOID) == GATE_SIGMOID;
    if (sigmoid)
        b->hf_arch = "deepseek_v3";
    return sigmoid ? ROUTE_SIGMOID : ROUTE_SOFTMAX;
}

static void read_experts(bind *b, deepseek *m, sizes *n)
{
    routing *how = &m->routing;
    how->kind = read_kind(b);
    if (n->n_dense >= b->m->n_layer)
        return;
    how->n_expert = bind_int(b, "expert_count", "n_routed_experts", REQUIRED, 1, MAX_EXPERT);
    how->n_used = bind_int(b, "expert_used_count", "num_experts_per_tok", REQUIRED, 1,
                           how->n_expert);
    n->d_expert = bind_int(b, "expert_feed_forward_length", "moe_intermediate_size", REQUIRED, 1,
                           1 << 24);
    n->n_shared = bind_int(b, "expert_shared_count", "n_shared_experts", 0, 0, 64);
    how->scale = (real)bind_real(b, "expert_weights_scale", "routed_scaling_factor", 1, 1e-6, 1e6);
    how->normalize = bind_flag(b, "expert_weights_norm", "norm_topk_prob",
                               strcmp(b->m->name, "glm4_moe_lite") == 0);
    how->epsilon = (real)1e-20; /* V3 adds this to the divisor */
    read_groups(b, how);
    if (!b->gguf_keys && how->kind == ROUTE_SOFTMAX && how->normalize)
        bind_fail(b, WEFT_EUNSUPPORTED,
                  "norm_topk_prob: DeepSeek's code and transformers disagree about it in V2");
    if (bind_int(b, NULL, "moe_layer_freq", 1, 1, INT32_MAX) != 1)
        bind_fail(b, WEFT_EUNSUPPORTED, "moe_layer_freq other than 1");
    b->m->n_expert = how->n_expert;
    b->m->expert_bias = bind_alloc(b, b->m->n_layer, sizeof *b->m->expert_bias);
}

/* Neighbours rotate as pairs in both formats. */
static void deepseek_read_rope(bind *b, deepseek *m, const sizes *n)
{
    b->hf_adjacent = true;
    if (bind_peek_real(b, NULL, "rope_parameters.partial_rotary_factor", 1, 0, 1) != 1)
        bind_fail(b, WEFT_EUNSUPPORTED, "partial_rotary_factor other than 1");
    if (!bind_flag(b, NULL, "rope_interleave", true))
        bind_fail(b, WEFT_EUNSUPPORTED, "rope_interleave is false");
    latent_bind_rope(b, &m->latent, &n->head);
}

static void bind_attention(bind *b, deepseek_layer *w, const sizes *n)
{
    const int64_t D = b->m->d_model, H = b->m->n_head, heads = H * (n->head.P + n->head.S);
    w->attn_norm = bind_norm(b, "attn_norm", D, false).w;
    if (n->Q > 0) {
        w->q_a = bind_linear(b, "attn_q_a", n->Q, D, NO_BIAS);
        w->q_a_norm = bind_norm(b, "attn_q_a_norm", n->Q, false).w;
        w->q = bind_linear(b, "attn_q_b", heads, n->Q, NO_BIAS);
    } else {
        w->q = bind_linear(b, "attn_q", heads, D, NO_BIAS);
    }
    latent_bind_layer(b, &w->kv, &n->head);
    w->o = bind_linear(b, "attn_output", D, H * n->head.E, NO_BIAS);
}

static void deepseek_bind_layer(bind *b, const deepseek *m, deepseek_layer *w, const sizes *n)
{
    const int64_t D = b->m->d_model;
    const bool dense = b->layer < n->n_dense;
    const int64_t F = dense ? b->m->d_ff : n->n_shared * n->d_expert;
    bind_attention(b, w, n);
    w->ffn_norm = bind_norm(b, "ffn_norm", D, false).w;
    if (!dense)
        bind_experts(b, &m->routing, &w->experts, n->d_expert);
    if (F > 0) {
        w->gate = bind_linear(b, dense ? "ffn_gate" : "ffn_gate_shexp", F, D, NO_BIAS);
        w->up = bind_linear(b, dense ? "ffn_up" : "ffn_up_shexp", F, D, NO_BIAS);
        w->down = bind_linear(b, dense ? "ffn_down" : "ffn_down_shexp", D, F, NO_BIAS);
    }
}

static bool has_split_heads(bind *b)
{
    b->layer = 0;
    const bool split = b->gguf_keys && bind_has(b, "attn_k_b");
    b->layer = -1;
    if (split)
        bind_not_convertible(b, "separate tensors for keys and values");
    return split;
}

static void *bind_deepseek(bind *b)
{
    model *of = b->m;
    sizes n = { 0 };
    b->names = names;
    b->hf_prefix = "model.";
    deepseek_read_sizes(b, &n);
    deepseek *m = bind_alloc(b, 1, sizeof *m);
    if (!m)
        return NULL;
    m->layer = bind_alloc(b, of->n_layer, sizeof *m->layer);
    m->eps = (real)bind_epsilon(b, "attention.layer_norm_rms_epsilon", "rms_norm_eps", 1e-6);
    if (bind_act(b, "hidden_act", ACT_SILU) != ACT_SILU)
        bind_fail(b, WEFT_EUNSUPPORTED, "hidden_act other than silu");
    read_experts(b, m, &n);
    deepseek_read_rope(b, m, &n);
    n.head.split = has_split_heads(b);
    latent_layout(b, &m->latent, &n.head);

    m->token_embd = bind_table(b, "token_embd", of->n_vocab, of->d_model);
    m->output_norm = bind_norm(b, "output_norm", of->d_model, false).w;
    const bool tied = bind_ties_head(b, false);
    m->output = tied ? bind_tied(b, "output", m->token_embd, NO_BIAS)
                     : bind_linear(b, "output", of->n_vocab, of->d_model, NO_BIAS);
    for (b->layer = 0; b->layer < of->n_layer && b->status == WEFT_OK; b->layer++)
        deepseek_bind_layer(b, m, &m->layer[b->layer], &n);
    b->layer = -1;
    if (tied)
        bind_ignore(b, "lm_head.weight");
    bind_ignore_layers(b, n.n_further);
    return m;
}

const family deepseek_family = {
    .name = "deepseek", .bind = bind_deepseek, .body = deepseek_body, .end = deepseek_end
};
