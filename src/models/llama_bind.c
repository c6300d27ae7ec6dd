/* llama_bind.c - a llama (llama.h) from its file: the keys of every architecture of the family, by
 * what its row in arch.c says. */
#include "models/llama.h"

#include <string.h>

static const bind_name names[] = {
    { "token_embd", "model.embed_tokens" },
    { "output_norm", "model.norm" },
    { "output", "lm_head" },
    { "cls.output", "score" },
    { "attn_norm", "model.layers.%d.input_layernorm" },
    { "attn_q", "model.layers.%d.self_attn.q_proj" },
    { "attn_k", "model.layers.%d.self_attn.k_proj" },
    { "attn_v", "model.layers.%d.self_attn.v_proj" },
    { "attn_qkv", "model.layers.%d.self_attn.qkv_proj" },
    { "attn_output", "model.layers.%d.self_attn.o_proj" },
    { "attn_sinks", "model.layers.%d.self_attn.sinks=" },
    { "attn_q_norm", "model.layers.%d.self_attn.q_norm" },
    { "attn_k_norm", "model.layers.%d.self_attn.k_norm" },
    { "ffn_norm", "model.layers.%d.post_attention_layernorm" },
    { "ffn_gate", "model.layers.%d.mlp.gate_proj" },
    { "ffn_up", "model.layers.%d.mlp.up_proj" },
    { "ffn_down", "model.layers.%d.mlp.down_proj" },
    { "ffn_gate_inp", "model.layers.%d.mlp.gate" },
    { "ffn_gate_exps", "model.layers.%d.mlp.experts.%e.gate_proj" },
    { "ffn_up_exps", "model.layers.%d.mlp.experts.%e.up_proj" },
    { "ffn_down_exps", "model.layers.%d.mlp.experts.%e.down_proj" },
    { NULL, NULL },
};

/* ---- numbers --------------------------------------------------------------------------------- */

/* What a file that lacks the key means. */
static int64_t default_of(const bind *b, int64_t hf, int64_t otherwise)
{
    return !b->gguf_keys && hf > 0 ? hf : otherwise;
}

static void read_sizes(bind *b)
{
    model *m = b->m;
    const arch *a = m->arch;
    const int64_t max = INT32_MAX;
    m->n_layer = bind_int(b, "block_count", "num_hidden_layers", REQUIRED, 1, b->most);
    m->d_model = bind_int(b, "embedding_length", "hidden_size", REQUIRED, 1, max);
    m->n_head = bind_int(b, "attention.head_count", "num_attention_heads",
                         default_of(b, a->hf_default.n_head, REQUIRED), 1, 65536);
    m->n_head_kv = bind_int(b, "attention.head_count_kv", "num_key_value_heads",
                            default_of(b, a->hf_default.n_head_kv, m->n_head), 1, m->n_head);
    m->d_head = bind_int(b, "attention.key_length", "head_dim",
                         default_of(b, a->hf_default.d_head, m->d_model / m->n_head), 2, MAX_HEAD);
    bind_int(b, "attention.value_length", NULL, m->d_head, m->d_head, m->d_head);
    m->d_ff = bind_int(b, "feed_forward_length", "intermediate_size", REQUIRED, 1, max);
    m->n_ctx = bind_int(b, "context_length", "max_position_embeddings",
                        default_of(b, a->hf_default.n_ctx, REQUIRED), 1, 1 << 24);
    m->n_vocab = bind_int(b, "vocab_size", "vocab_size", bind_rows_of(b, "token_embd"), 1, max);
    if (m->n_head % m->n_head_kv != 0)
        bind_fail(b, WEFT_EFORMAT, "%lld heads cannot share %lld key-value heads",
                  (long long)m->n_head, (long long)m->n_head_kv);
}

/* In some architectures the key exists but is switched off. */
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

/* Scores of Gemma are scaled by the root of a number of their own. GGUF has no key for it: there it
 * is d_head, or d_model / H in the largest model. */
static double read_scalar(bind *b)
{
    const model *m = b->m;
    const char *key = m->arch->hf_scalar;
    const int64_t known = m->n_layer == m->arch->scalar_layers ? m->d_model / m->n_head : m->d_head;
    const double x = bind_peek_real(b, NULL, key, (double)known, 1, 1e6);
    bind_keep(b, NULL, key, true,
              (meta){ .type = META_INT, .integer = (int64_t)x, .number = (double)(int64_t)x });
    if (x != (double)known)
        bind_not_convertible(b, key);
    return 1 / sqrt(x);
}

/* Numbers that multiply or cap activations. */
static void read_scales(bind *b, llama *m, attn *a)
{
    const arch *row = b->m->arch;
    m->embd_scale = row->root_embd ? sqrt((real)b->m->d_model) : 1;
    m->branch_scale = m->logit_scale = 1;
    if (row->hf_scalar)
        a->scale = (real)read_scalar(b);
    if (row->multipliers) {
        m->embd_scale = (real)bind_real(b, "embedding_scale", "embedding_multiplier", 1, 1e-6, 1e6);
        m->branch_scale = (real)bind_real(b, "residual_scale", "residual_multiplier", 1, 1e-6, 1e6);
        a->scale = (real)bind_real(b, "attention.scale", "attention_multiplier",
                                   b->gguf_keys ? 1 / sqrt((double)b->m->d_head) : 1, 1e-6, 1e6);
        m->logit_scale = (real)(1 / bind_real(b, "logit_scale", "logits_scaling", 1, 1e-6, 1e6));
    }
    if (row->caps) {
        a->cap = (real)bind_real(b, "attn_logit_softcapping", "attn_logit_softcapping", 0, 0, 1e6);
        m->cap = (real)bind_real(b, "final_logit_softcapping", "final_logit_softcapping", 0, 0,
                                 1e6);
    }
}

/* Experts in all layers or in none: a softmax over all, and shares of the chosen that sum to 1.
 * GGUF has no key for the sum. Returns their hidden width. */
static int64_t read_experts(bind *b, llama *m)
{
    routing *how = &m->routing;
    const arch *row = b->m->arch;
    if (!row->hf_experts)
        return 0;
    const bool newer = bind_has_key(b, "num_local_experts");
    const char *key = newer ? "num_local_experts" : row->hf_experts;
    const int64_t n = bind_int(b, "expert_count", key, 0, 0, MAX_EXPERT);
    if (n == 0)
        return 0;
    *how = (routing){ .kind = ROUTE_SOFTMAX, .n_expert = n, .n_group = 1, .n_group_used = 1 };
    how->scale = 1;
    how->normalize = true;
    how->n_used = bind_int(b, "expert_used_count", "num_experts_per_tok", REQUIRED, 1, n);
    if (row->hf_norm_flag) {
        how->normalize = bind_flag(b, NULL, "norm_topk_prob", b->gguf_keys);
        bind_export_flag(b, NULL, "norm_topk_prob", true);
    }
    if (!how->normalize)
        bind_not_convertible(b, "norm_topk_prob");
    if (bind_int(b, NULL, "decoder_sparse_step", 1, 1, INT32_MAX) != 1 ||
        bind_entry(b, "mlp_only_layers.0"))
        bind_fail(b, WEFT_EUNSUPPORTED,
                  "layers without experts: decoder_sparse_step, "
                  "mlp_only_layers");
    how->act = row->expert_act;
    if (how->act == EXPERT_LIMITED &&
        (bind_peek_real(b, NULL, "swiglu_limit", 7, 0, 1e6) != 7 ||
         bind_peek_real(b, NULL, "swiglu_alpha", 1.702, 0, 1e6) != 1.702))
        bind_fail(b, WEFT_EUNSUPPORTED,
                  "swiglu_limit other than 7 or swiglu_alpha other than 1.702");
    b->m->n_expert = n;
    b->m->expert_bias = bind_alloc(b, b->m->n_layer, sizeof *b->m->expert_bias);
    if (row->woven_experts) /* GGUF says their width twice */
        return bind_int(b, "expert_feed_forward_length", NULL, b->m->d_ff, b->m->d_ff, b->m->d_ff);
    return row->hf_norm_flag ? bind_int(b, "expert_feed_forward_length", "moe_intermediate_size",
                                        REQUIRED, 1, 1 << 24)
                             : b->m->d_ff;
}

/* ---- positions ------------------------------------------------------------------------------- */

/* The part of a head that rotates. */
static int64_t read_rotated(bind *b)
{
    const int64_t E = b->m->d_head;
    const char *key = bind_has_key(b, "rope_parameters.partial_rotary_factor")
                          ? "rope_parameters.partial_rotary_factor"
                          : "partial_rotary_factor";
    const double part = bind_peek_real(b, NULL, key, 1, 0, 1);
    if (part != 1 && !b->m->arch->hf_partial)
        bind_fail(b, WEFT_EUNSUPPORTED, "partial_rotary_factor other than 1");
    const int64_t n = bind_int(b, "rope.dimension_count", NULL, (int64_t)((double)E * part), 2, E);
    if (b->m->arch->hf_partial)
        bind_keep(b, NULL, "partial_rotary_factor", n != E,
                  (meta){ .type = META_REAL, .number = (double)n / (double)E });
    return n;
}

/* Sets the window and the rotation of every layer. */
static void bind_places(bind *b, llama *m, const attn *a, int64_t window)
{
    rope_spec s = { .d_head = b->m->d_head, .n_rot = read_rotated(b) };
    const bool *windowed = bind_windows(b, window), *turns = bind_turns(b, windowed, window);
    b->hf_adjacent = b->m->arch->hf_adjacent;
    const rope_table *k_rope = bind_rope(b, &s);
    const rope_table *q_rope = s.warmth != 0 ? bind_warm_rope(b, &s) : k_rope;
    const bool apart = window > 0 && b->m->arch->local_rope;
    const rope_table *local = apart ? bind_local_rope(b, &s) : NULL;
    for (int64_t l = 0; m->layer && turns && l < b->m->n_layer; l++) {
        llama_layer *w = &m->layer[l];
        w->attn = *a;
        w->attn.window = windowed[l] ? window : 0;
        w->q_rope = !turns[l] ? NULL : local && windowed[l] ? local : q_rope;
        w->k_rope = !turns[l] ? NULL : local && windowed[l] ? local : k_rope;
    }
}

/* ---- weights --------------------------------------------------------------------------------- */

/* A matrix whose rows are heads that rotate: their order may differ between formats. */
static weight bind_turned(bind *b, const char *stem, int64_t n, bind_bias in_new)
{
    const int64_t D = b->m->d_model, E = b->m->d_head;
    return b->m->arch->hf_adjacent ? bind_linear(b, stem, n * E, D, in_new)
                                   : bind_heads(b, stem, n, E, D, in_new);
}

static void bind_qkv(bind *b, llama_layer *w)
{
    const int64_t D = b->m->d_model, E = b->m->d_head;
    const int64_t H = b->m->n_head, K = b->m->n_head_kv, all = (H + 2 * K) * E;
    const bind_bias in_new = b->m->arch->hf_qkv_bias ? WITH_BIAS : NO_BIAS;
    if (b->m->arch->fused_qkv) {
        w->q = bind_rows(b, "attn_q", "attn_qkv", all, 0, H * E, D);
        w->k = bind_rows(b, "attn_k", "attn_qkv", all, H * E, K * E, D);
        w->v = bind_rows(b, "attn_v", "attn_qkv", all, (H + K) * E, K * E, D);
    } else {
        w->q = bind_turned(b, "attn_q", H, in_new);
        w->k = bind_turned(b, "attn_k", K, in_new);
        w->v = bind_linear(b, "attn_v", K * E, D, in_new);
    }
}

static void bind_qk_norms(bind *b, llama_layer *w)
{
    const int64_t E = b->m->d_head;
    if (b->m->arch->wide_norms) {
        w->q_norm = bind_norm(b, "attn_q_norm", b->m->n_head * E, false).w;
        w->k_norm = bind_norm(b, "attn_k_norm", b->m->n_head_kv * E, false).w;
    } else if (bind_has(b, "attn_q_norm")) {
        w->q_norm = bind_head_norm(b, "attn_q_norm", E);
        w->k_norm = bind_head_norm(b, "attn_k_norm", E);
    }
}

static void bind_ffn(bind *b, llama_layer *w)
{
    const int64_t D = b->m->d_model, F = b->m->d_ff;
    if (b->m->arch->fused_ffn) {
        w->gate = bind_rows(b, "ffn_gate", "ffn_up", 2 * F, 0, F, D);
        w->up = bind_rows(b, "ffn_up", "ffn_up", 2 * F, F, F, D);
    } else {
        w->gate = bind_linear(b, "ffn_gate", F, D, NO_BIAS);
        w->up = bind_linear(b, "ffn_up", F, D, NO_BIAS);
    }
    w->down = bind_linear(b, "ffn_down", D, F, NO_BIAS);
}

/* Sums over all gradients follow this order, so it stays as it is. */
static void bind_layer(bind *b, const llama *m, llama_layer *w, int64_t d_expert)
{
    const int64_t D = b->m->d_model;
    const arch *row = b->m->arch;
    const norm_place at = row->norms;
    if (at != NORM_BEHIND)
        w->attn_norm = bind_norm(b, "attn_norm", D, false).w;
    bind_qkv(b, w);
    w->o = bind_linear(b, "attn_output", D, b->m->n_head * b->m->d_head,
                       row->hf_o_bias ? WITH_BIAS : NO_BIAS);
    if (row->sinks)
        w->attn.sink = bind_numbers(b, "attn_sinks", b->m->n_head);
    bind_qk_norms(b, w);
    if (at != NORM_BEFORE)
        w->attn_norm_behind = bind_norm(b, "post_attention_norm", D, false).w;
    if (at != NORM_BEHIND)
        w->ffn_norm = bind_norm(b, row->ffn_norm ? row->ffn_norm : "ffn_norm", D, false).w;
    if (d_expert > 0)
        bind_experts(b, &m->routing, &w->experts, d_expert);
    else
        bind_ffn(b, w);
    if (at != NORM_BEFORE)
        w->ffn_norm_behind = bind_norm(b, "post_ffw_norm", D, false).w;
}

/* config.json has one flag for the biases of attention, and one for those of the feed forward. */
static void imply_biases(bind *b, const llama_layer *w)
{
    const arch *a = b->m->arch;
    const bool flag = a->hf_bare_o ? w->q.b : w->o.b;
    bind_implied(b, "attention_bias", flag);
    if (!w->experts.part)
        bind_implied(b, "mlp_bias", w->up.b);
    if (b->gguf_keys && (!w->q.b == (flag || a->hf_qkv_bias) || (a->hf_bare_o && w->o.b)))
        bind_not_convertible(b, "biases on some of q, k, v and o");
}

/* A head that scores a text, as rerankers have: llama.cpp writes Qwen3-Reranker's rows of "yes" and
 * "no" so. */
static void bind_scores(bind *b, llama *m)
{
    enum { GGUF_RANK = 4 };
    static const char from[] = "ForCausalLM", to[] = "ForSequenceClassification";
    model *of = b->m;
    const size_t n = strlen(of->arch->hf_class) - strlen(from);
    char *name = bind_alloc(b, (int64_t)(n + sizeof to), 1);
    if (!name)
        return;
    memcpy(name, of->arch->hf_class, n);
    memcpy(name + n, to, sizeof to);
    b->hf_class = name;
    m->scores = true;
    of->task = WEFT_TASK_CLASSIFY;
    of->n_stream = 0;
    of->n_out = bind_labels(b, "cls.output");
    of->pool = (pooling){ POOL_LAST, false };
    bind_export_int(b, "pooling_type", NULL, GGUF_RANK);
    m->output = bind_linear(b, "cls.output", of->n_out, of->d_model, NO_BIAS);
}

static void bind_ends(bind *b, llama *m)
{
    const model *of = b->m;
    m->token_embd = bind_table(b, "token_embd", of->n_vocab, of->d_model);
    m->output_norm = bind_norm(b, "output_norm", of->d_model, false).w;
    if (!b->is_new && bind_has(b, "cls.output")) {
        bind_scores(b, m);
        return;
    }
    const bool tied = bind_ties_head(b, of->arch->hf_tied);
    m->output = tied ? bind_tied(b, "output", m->token_embd, NO_BIAS)
                     : bind_linear(b, "output", of->n_vocab, of->d_model, NO_BIAS);
    if (tied)
        bind_ignore(b, "lm_head.weight");
}

void *llama_bind(bind *b)
{
    model *of = b->m;
    const arch *row = of->arch;
    b->names = names;
    b->hf_prefix = "model.";
    read_sizes(b);
    llama *m = bind_alloc(b, 1, sizeof *m);
    if (!m)
        return NULL;
    m->layer = bind_alloc(b, of->n_layer, sizeof *m->layer);
    m->eps = (real)bind_epsilon(b, "attention.layer_norm_rms_epsilon", "rms_norm_eps", 1e-6);
    m->act = bind_act(b, row->hf_act ? row->hf_act : "hidden_act", row->act ? row->act : ACT_SILU);
    if (bind_flag(b, NULL, "use_bidirectional_attention", false))
        bind_fail(b, WEFT_EUNSUPPORTED, "use_bidirectional_attention: not a decoder");
    attn a = attn_of(ATTN_CAUSAL, of->n_head, of->n_head_kv, of->d_head);
    of->stream[0] = (stream_spec){ "k", of->n_head_kv * of->d_head };
    of->stream[1] = (stream_spec){ "v", of->n_head_kv * of->d_head };
    of->n_stream = 2;
    of->pool = bind_decoder_pooling(b);
    read_scales(b, m, &a);
    const int64_t d_expert = read_experts(b, m);
    bind_places(b, m, &a, read_window(b));

    bind_ends(b, m);
    for (b->layer = 0; b->layer < of->n_layer && b->status == WEFT_OK; b->layer++)
        bind_layer(b, m, &m->layer[b->layer], d_expert);
    b->layer = -1;
    if (b->status == WEFT_OK)
        imply_biases(b, &m->layer[0]);
    bind_ignore(b, ".rotary_emb.inv_freq");
    if (of->text_part)
        bind_ignore_pictures(b);
    return m;
}
