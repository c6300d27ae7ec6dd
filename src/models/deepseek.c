/* deepseek.c - pre-norm decoder with multi-head latent attention and a mixture of experts.
 *
 * DeepSeek-V2 and V3, GLM-4.7-Flash. The keys and values of all heads are computed from one short latent per row,
 * next to one rotary key that all heads share:
 *
 *     c = norm(A x)    k_h = [Bk_h c, rope(a x)]    v_h = Bv_h c    q_h = [.., rope(..)]
 *
 * Inference never computes k_h and v_h. Since q . (Bk c) = (Bk^T q) . c, it maps the query to the
 * latent space instead. All heads attend to the same rows [c, k_rope], which is all that the cache
 * holds, and Bv is applied to the result:
 *
 *     score = (Bk_h^T q_h) . c + q_rope . k_rope        y_h = Bv_h sum_j p_j c_j
 *
 * Training computes keys and values: with many queries per sequence that takes fewer
 * multiplications. Both agree up to rounding. */
#include "models/bind.h"

#include <stdio.h>
#include <string.h>

typedef struct deepseek_layer {
    tensor *attn_norm;     /* [D] */
    weight q_a;            /* [Q, D], or none */
    tensor *q_a_norm;      /* [Q] */
    weight q;              /* [H (P + S), Q], or [H (P + S), D] */
    weight kv_a;           /* [R + S, D] */
    tensor *kv_a_norm;     /* [R] */
    tensor *k_b, *v_b;     /* the same tensor [H (P + E), R], or [H R, P] and [H E, R] */
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
    const rope_table *rope_q, *rope_k;
    int64_t d_latent, d_rope; /* R, S */
    head_map to_k, to_v;      /* latent -> keys, values */
    head_map to_latent;       /* queries -> latent */
    head_map from_latent;     /* latent -> values, from each head's result */
    join_map key, row, query; /* [k_h, k_rope]  [c, k_rope]  [latent of q_h, its rotary part] */
    attn naive, absorbed;
    routing routing;
    real eps;
} deepseek;

#define INNER_EPS (real)1e-6 /* of the norms on latents, whatever the other norms use */

static tensor *attend_naive(run *r, const deepseek *m, const deepseek_layer *w, int l, tensor *q,
                            tensor *c, tensor *k_rope)
{
    tensor *k = linear_heads(r, c, w->k_b, &m->to_k, "attn_k"); /* [N, H P] */
    tensor *v = linear_heads(r, c, w->v_b, &m->to_v, "attn_v"); /* [N, H E] */
    k = join_heads(r, k, k_rope, &m->key, "attn_k.join");       /* [N, H (P + S)] */
    return attention(r, q, k, v, &m->naive, l);
}

static tensor *attend_absorbed(run *r, const deepseek *m, const deepseek_layer *w, int l, tensor *q,
                               tensor *c, tensor *k_rope)
{
    tensor *to = linear_heads(r, q, w->k_b, &m->to_latent, "attn_q.latent"); /* [N, H R] */
    q = join_heads(r, to, q, &m->query, "attn_q.join");                      /* [N, H (R + S)] */
    c = join_heads(r, c, k_rope, &m->row, "latent.join");                    /* [N, R + S] */
    tensor *h = attention(r, q, c, NULL, &m->absorbed, l);                   /* [N, H R] */
    return linear_heads(r, h, w->v_b, &m->from_latent, "attention");         /* [N, H E] */
}

/* For a trace: the keys and values that inference does without. */
static void show_naive(run *r, const deepseek *m, const deepseek_layer *w, tensor *c,
                       tensor *k_rope)
{
    const aside was = aside_begin(r);
    tensor *k = linear_heads(r, c, w->k_b, &m->to_k, "attn_k"); /* [N, H P] */
    linear_heads(r, c, w->v_b, &m->to_v, "attn_v");             /* [N, H E] */
    join_heads(r, k, k_rope, &m->key, "attn_k.join");           /* [N, H (P + S)] */
    aside_end(r, was);
}

static tensor *deepseek_attend(run *r, const deepseek *m, const deepseek_layer *w, int l, tensor *h)
{
    tensor *q = h;
    if (w->q_a.w) {
        q = linear(r, q, &w->q_a); /* [N, Q] */
        q = rmsnorm(r, q, w->q_a_norm, INNER_EPS);
    }
    q = linear(r, q, &w->q); /* [N, H (P + S)] */
    q = rope(r, q, m->rope_q);
    tensor *both = linear(r, h, &w->kv_a); /* [N, R + S] */
    tensor *c = slice(r, both, "latent", 0, m->d_latent);
    tensor *k_rope = slice(r, both, "k_rope", m->d_latent, m->d_rope);
    c = rmsnorm(r, c, w->kv_a_norm, INNER_EPS);
    k_rope = rope(r, k_rope, m->rope_k);
    if (r->show.open)
        show_naive(r, m, w, c, k_rope);
    h = is_learning(r) ? attend_naive(r, m, w, l, q, c, k_rope)
                       : attend_absorbed(r, m, w, l, q, c, k_rope);
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

/* Per head: P key elements without rotation and S with, E value elements. Per row: a latent of R,
 * and Q for queries, or 0. For experts: the number of leading layers without any, and the hidden
 * width F. */
typedef struct sizes {
    int64_t P, S, E, R, Q;
    int64_t n_dense, d_expert, n_shared;
    int64_t n_further; /* layers that are left out */
} sizes;

/* GGUF files of the first layout give the head widths. Those of the second use the same keys for
 * the cached widths and have other keys for the heads. */
static void read_head_sizes(bind *b, sizes *n)
{
    n->S = bind_int(b, "rope.dimension_count", "qk_rope_head_dim", REQUIRED, 2, MAX_HEAD / 2);
    const bool split = b->gguf_keys &&
                       bind_int(b, "attention.key_length_mla", NULL, 0, 0, MAX_HEAD) > 0;
    if (b->gguf_keys) {
        const char *key = split ? "attention.key_length_mla" : "attention.key_length";
        n->P = bind_int(b, key, NULL, REQUIRED, n->S + 1, MAX_HEAD) - n->S;
        bind_export_int(b, NULL, "qk_nope_head_dim", n->P);
    } else {
        n->P = bind_int(b, NULL, "qk_nope_head_dim", REQUIRED, 1, MAX_HEAD / 2);
        bind_export_int(b, "attention.key_length", NULL, n->P + n->S);
    }
    n->E = bind_int(b, split ? "attention.value_length_mla" : "attention.value_length",
                    "v_head_dim", REQUIRED, 1, MAX_HEAD);
    n->R = bind_int(b, "attention.kv_lora_rank", "kv_lora_rank", REQUIRED, 1, MAX_HEAD - n->S);
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
    m->d_head = n->P + n->S;
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

/* Neighbours rotate as pairs in both formats. YaRN also scales the scores, by the square of its
 * magnitude for all elements of a head. */
static void deepseek_read_rope(bind *b, deepseek *m, const sizes *n)
{
    rope_spec s = { .n_rot = n->S, .d_head = n->S };
    b->hf_adjacent = true;
    if (bind_peek_real(b, NULL, "rope_parameters.partial_rotary_factor", 1, 0, 1) != 1)
        bind_fail(b, WEFT_EUNSUPPORTED, "partial_rotary_factor other than 1");
    if (!bind_flag(b, NULL, "rope_interleave", true))
        bind_fail(b, WEFT_EUNSUPPORTED, "rope_interleave is false");
    m->rope_k = bind_rope(b, &s);
    const double all = s.scaling == ROPE_YARN && s.mscale_all != 0
                           ? yarn_magnitude(s.factor, s.mscale_all)
                           : 1;
    m->naive.scale = (real)(all * all / sqrt((double)(n->P + n->S)));
    s.d_head = n->P + n->S;
    s.skip = n->P;
    if (b->status == WEFT_OK && !(m->rope_q = rope_new(&s, b->m->n_ctx, &b->m->store, b->err)))
        b->status = WEFT_ENOMEM;
}

/* Offsets of heads in activations and in the key and value matrices. */
static void deepseek_layout(deepseek *m, const sizes *n, int64_t H, bool split)
{
    const int64_t P = n->P, S = n->S, E = n->E, R = n->R, both = P + E;
    m->d_latent = R;
    m->d_rope = S;
    m->key = (join_map){ H, P, 0, 0, S };
    m->row = (join_map){ 1, R, 0, 0, S };
    m->query = (join_map){ H, R, P, P + S, S };
    m->to_k = split ? (head_map){ H, 0, 0, 0, R, R, P, true }
                    : (head_map){ H, 0, 0, 0, both, R, P, false };
    m->to_latent = split ? (head_map){ H, 0, P + S, 0, R, P, R, false }
                         : (head_map){ H, 0, P + S, 0, both, P, R, true };
    m->to_v = (head_map){ H, 0, 0, split ? 0 : P, split ? E : both, R, E, false };
    m->from_latent = m->to_v;
    m->from_latent.x_pitch = R;
    m->naive = (attn){ .kind = ATTN_CAUSAL,
                       .n_head = H,
                       .n_head_kv = H,
                       .d_key = P + S,
                       .d_value = E,
                       .scale = m->naive.scale };
    m->absorbed = (attn){ .kind = ATTN_CAUSAL,
                          .n_head = H,
                          .n_head_kv = 1,
                          .d_key = R + S,
                          .d_value = R,
                          .scale = m->naive.scale };
}

static void bind_attention(bind *b, deepseek_layer *w, const sizes *n, bool split)
{
    const int64_t D = b->m->d_model, H = b->m->n_head, heads = H * (n->P + n->S);
    w->attn_norm = bind_norm(b, "attn_norm", D, false).w;
    if (n->Q > 0) {
        w->q_a = bind_linear(b, "attn_q_a", n->Q, D, NO_BIAS);
        w->q_a_norm = bind_norm(b, "attn_q_a_norm", n->Q, false).w;
        w->q = bind_linear(b, "attn_q_b", heads, n->Q, NO_BIAS);
    } else {
        w->q = bind_linear(b, "attn_q", heads, D, NO_BIAS);
    }
    w->kv_a = bind_linear(b, "attn_kv_a_mqa", n->R + n->S, D, NO_BIAS);
    w->kv_a_norm = bind_norm(b, "attn_kv_a_norm", n->R, false).w;
    if (split) {
        w->k_b = bind_parts(b, "attn_k_b", H, n->R, n->P);
        w->v_b = bind_parts(b, "attn_v_b", H, n->E, n->R);
    } else {
        w->k_b = w->v_b = bind_matrix(b, "attn_kv_b", H * (n->P + n->E), n->R);
    }
    w->o = bind_linear(b, "attn_output", D, H * n->E, NO_BIAS);
}

static void deepseek_bind_layer(bind *b, const deepseek *m, deepseek_layer *w, const sizes *n,
                                bool split)
{
    const int64_t D = b->m->d_model;
    const bool dense = b->layer < n->n_dense;
    const int64_t F = dense ? b->m->d_ff : n->n_shared * n->d_expert;
    bind_attention(b, w, n, split);
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
    const bool split = has_split_heads(b);
    deepseek_layout(m, &n, of->n_head, split);
    of->stream[0] = (stream_spec){ "latent", n.R + n.S };
    of->n_stream = 1;

    m->token_embd = bind_table(b, "token_embd", of->n_vocab, of->d_model);
    m->output_norm = bind_norm(b, "output_norm", of->d_model, false).w;
    const bool tied = bind_ties_head(b, false);
    m->output = tied ? bind_tied(b, "output", m->token_embd, NO_BIAS)
                     : bind_linear(b, "output", of->n_vocab, of->d_model, NO_BIAS);
    for (b->layer = 0; b->layer < of->n_layer && b->status == WEFT_OK; b->layer++)
        deepseek_bind_layer(b, m, &m->layer[b->layer], &n, split);
    b->layer = -1;
    if (tied)
        bind_ignore(b, "lm_head.weight");
    bind_ignore_layers(b, n.n_further);
    return m;
}

const family deepseek_family = {
    .name = "deepseek", .bind = bind_deepseek, .body = deepseek_body, .end = deepseek_end
};
