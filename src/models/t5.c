/* t5.c - pre-norm encoder and decoder: RMSNorm, relative positions as a bias on unscaled scores, no
 * biases on matrices.
 *
 * T5 (ReLU; the head shares the embedding, and its input is scaled by 1 / sqrt D) and T5 1.1,
 * Flan-T5 (gated GELU, a head of its own). As in transformer.c, the memory is computed only for
 * sources that are rows of this call. */
#include "models/bind.h"

#include <string.h>

typedef struct t5_mixing {
    tensor *norm;      /* [D] */
    weight q, k, v, o; /* [H E, D] three times, [D, H E] */
} t5_mixing;

typedef struct t5_layer {
    t5_mixing self, cross;
    tensor *ffn_norm;      /* [D] */
    weight gate, up, down; /* [F, D]  [F, D]  [D, F]; no gate: ReLU */
} t5_layer;

/* The encoder or the decoder. */
typedef struct t5_stack {
    tensor *output_norm; /* [D] */
    t5_layer *layer;
    attn self; /* with the first layer's table, which all layers share */
} t5_stack;

typedef struct t5 {
    tensor *token_embd; /* [V, D] */
    t5_stack enc, dec;
    attn cross;
    weight output; /* [V, D] */
    real output_scale;
    act_kind act;
    real eps;
} t5;

static void t5_attend_self(run *r, const t5 *m, const t5_stack *s, int l, tensor **x)
{
    const t5_mixing *w = &s->layer[l].self;
    tensor *h = rmsnorm(r, *x, w->norm, m->eps); /* [N, D] */
    tensor *q = linear(r, h, &w->q);             /* [N, H E] */
    tensor *k = linear(r, h, &w->k);
    tensor *v = linear(r, h, &w->v);
    h = attention(r, q, k, v, &s->self, l);
    h = linear(r, h, &w->o);
    residual(r, x, h);
}

static void t5_attend_source(run *r, const t5 *m, int l, tensor **x)
{
    const t5_mixing *w = &m->dec.layer[l].cross;
    tensor *h = rmsnorm(r, *x, w->norm, m->eps); /* [N, D] */
    tensor *q = linear(r, h, &w->q);             /* [N, H E] */
    tensor *k = r->at.encoder_out ? linear(r, r->at.encoder_out, &w->k)
                                  : NULL; /* [source rows, H E] */
    tensor *v = r->at.encoder_out ? linear(r, r->at.encoder_out, &w->v) : NULL;
    h = attention(r, q, k, v, &m->cross, l);
    h = linear(r, h, &w->o);
    residual(r, x, h);
}

static void t5_feed_forward(run *r, const t5 *m, const t5_layer *w, tensor **x)
{
    tensor *h = rmsnorm(r, *x, w->ffn_norm, m->eps);
    if (w->gate.w) {
        h = glu(r, h, &w->gate, &w->up, m->act); /* [N, F] */
    } else {
        h = linear(r, h, &w->up);
        h = act(r, h, m->act);
    }
    h = linear(r, h, &w->down);
    residual(r, x, h);
}

static tensor *t5_encoder_block(run *r, const void *self, int l, tensor *x)
{
    const t5 *m = self;
    t5_attend_self(r, m, &m->enc, l, &x);
    t5_feed_forward(r, m, &m->enc.layer[l], &x);
    return x;
}

static tensor *t5_decoder_block(run *r, const void *self, int l, tensor *x)
{
    const t5 *m = self;
    t5_attend_self(r, m, &m->dec, l, &x);
    t5_attend_source(r, m, l, &x);
    t5_feed_forward(r, m, &m->dec.layer[l], &x);
    return x;
}

static tensor *t5_encode(run *r, const model *of)
{
    const t5 *m = of->self;
    tensor *x = embed(r, m->token_embd, EMBED_TOKEN);
    for (int l = 0; l < of->n_layer_src; l++)
        x = run_block(r, t5_encoder_block, m, l, x);
    return rmsnorm(r, x, m->enc.output_norm, m->eps);
}

static tensor *t5_body(run *r, const model *of)
{
    const t5 *m = of->self;
    const batch *target = r->at.batch;
    run_part(r, r->at.src, "enc.");
    r->at.encoder_out = r->at.src->n_row > 0 ? t5_encode(r, of) : NULL;

    run_part(r, target, "dec.");
    tensor *x = embed(r, m->token_embd, EMBED_TOKEN);
    for (int l = 0; l < of->n_layer; l++)
        x = run_block(r, t5_decoder_block, m, l, x);
    return x;
}

static tensor *t5_end(run *r, const model *of, tensor *x)
{
    const t5 *m = of->self;
    run_part(r, r->at.batch, "dec.");
    x = take_rows(r, x);
    x = rmsnorm(r, x, m->dec.output_norm, m->eps);
    if (m->output_scale != 1)
        x = scale(r, x, m->output_scale);
    run_part(r, r->at.batch, "");
    return head(r, x, &m->output); /* [n_wanted, V] */
}

/* ---- from the file --------------------------------------------------------------------------- */

static const bind_name names[] = {
    { "token_embd", "shared" },
    { "output", "lm_head" },
    { NULL, NULL },
};

/* The first entry of each stack's table is for a feed forward without a gate: the names of the
 * gated matrices are its name with a number. */
#define NAMES(side, ffn)                                                                           \
    { "ffn_up", side ".block.%d.layer." ffn ".DenseReluDense.wi" },                                \
        { "ffn_up", side ".block.%d.layer." ffn ".DenseReluDense.wi_1" },                          \
        { "ffn_gate", side ".block.%d.layer." ffn ".DenseReluDense.wi_0" },                        \
        { "ffn_down", side ".block.%d.layer." ffn ".DenseReluDense.wo" },                          \
        { "ffn_norm", side ".block.%d.layer." ffn ".layer_norm" },                                 \
        { "output_norm", side ".final_layer_norm" },                                               \
        { "attn_norm", side ".block.%d.layer.0.layer_norm" },                                      \
        { "attn_q", side ".block.%d.layer.0.SelfAttention.q" },                                    \
        { "attn_k", side ".block.%d.layer.0.SelfAttention.k" },                                    \
        { "attn_v", side ".block.%d.layer.0.SelfAttention.v" },                                    \
        { "attn_o", side ".block.%d.layer.0.SelfAttention.o" },                                    \
    {                                                                                              \
        "attn_rel_b", side ".block.%d.layer.0.SelfAttention.relative_attention_bias"               \
    }

static const bind_name encoder_names[] = { NAMES("encoder", "1"), { NULL, NULL } };

static const bind_name decoder_names[] = {
    NAMES("decoder", "2"),
    { "cross_attn_norm", "decoder.block.%d.layer.1.layer_norm" },
    { "cross_attn_q", "decoder.block.%d.layer.1.EncDecAttention.q" },
    { "cross_attn_k", "decoder.block.%d.layer.1.EncDecAttention.k" },
    { "cross_attn_v", "decoder.block.%d.layer.1.EncDecAttention.v" },
    { "cross_attn_o", "decoder.block.%d.layer.1.EncDecAttention.o" },
    { NULL, NULL },
};

static void t5_read_sizes(bind *b)
{
    model *m = b->m;
    const int64_t max = INT32_MAX;
    m->n_layer_src = bind_int(b, "block_count", "num_layers", REQUIRED, 1, b->most);
    m->n_layer = bind_int(b, "decoder_block_count", "num_decoder_layers", m->n_layer_src, 1,
                          b->most);
    m->d_model = bind_int(b, "embedding_length", "d_model", REQUIRED, 1, max);
    m->n_head = bind_int(b, "attention.head_count", "num_heads", REQUIRED, 1, 65536);
    m->n_head_kv = m->n_head;
    m->d_head = bind_int(b, "attention.key_length", "d_kv", REQUIRED, 1, MAX_HEAD);
    bind_int(b, "attention.value_length", NULL, m->d_head, m->d_head, m->d_head);
    m->d_ff = bind_int(b, "feed_forward_length", "d_ff", REQUIRED, 1, max);
    m->n_ctx = bind_int(b, "context_length", "n_positions", 512, 1, 1 << 24);
    m->n_vocab = bind_int(b, "vocab_size", "vocab_size", bind_rows_of(b, "token_embd"), 1, max);
    m->n_vocab_src = m->n_vocab;
    m->start = bind_int(b, "decoder_start_token_id", "decoder_start_token_id", 0, 0,
                        m->n_vocab - 1);
}

/* Is the feed forward gated? In a GGUF file, the presence of the matrix tells. */
static bool read_gated(bind *b)
{
    static const char key[] = "feed_forward_proj", gated[] = "gated-gelu", plain[] = "relu";
    if (b->gguf_keys) {
        b->prefix = "enc.";
        b->layer = 0;
        const bool has = bind_has(b, "ffn_gate");
        b->prefix = "";
        b->layer = -1;
        bind_export_text(b, NULL, key, has ? gated : plain);
        return has;
    }
    const char *kind = bind_text(b, NULL, key);
    if (kind && strcmp(kind, gated) != 0 && strcmp(kind, plain) != 0)
        bind_fail(b, WEFT_EUNSUPPORTED, "%s is \"%.40s\", expected %s or %s", key, kind, plain,
                  gated);
    return kind && strcmp(kind, gated) == 0;
}

/* T5 shares the embedding and scales the head's input; later models do neither. Newer versions of
 * transformers have a flag for the scale; older ones use the flag of the shared head. */
static void t5_bind_head(bind *b, t5 *m)
{
    const int64_t D = b->m->d_model, V = b->m->n_vocab;
    const bool said = bind_ties_head(b, true);
    const bool scaled = bind_flag(b, NULL, "scale_decoder_outputs", said);
    const bool tied = b->gguf_keys ? said : scaled || !(b->is_new || bind_has(b, "output"));
    m->output_scale = scaled ? 1 / sqrt((real)D) : 1;
    m->output = tied ? bind_tied(b, "output", m->token_embd, NO_BIAS)
                     : bind_linear(b, "output", V, D, NO_BIAS);
    if (tied)
        bind_ignore(b, "lm_head.weight");
}

static t5_mixing t5_bind_mixing(bind *b, const char *const stem[5])
{
    const int64_t D = b->m->d_model, HE = b->m->n_head * b->m->d_head;
    t5_mixing w = { .norm = bind_norm(b, stem[0], D, false).w };
    w.q = bind_linear(b, stem[1], HE, D, NO_BIAS);
    w.k = bind_linear(b, stem[2], HE, D, NO_BIAS);
    w.v = bind_linear(b, stem[3], HE, D, NO_BIAS);
    w.o = bind_linear(b, stem[4], D, HE, NO_BIAS);
    return w;
}

static void t5_bind_layer(bind *b, t5_layer *w, bool decoder, bool gated)
{
    static const char *const self[] = { "attn_norm", "attn_q", "attn_k", "attn_v", "attn_o" };
    static const char *const cross[] = { "cross_attn_norm", "cross_attn_q", "cross_attn_k",
                                         "cross_attn_v", "cross_attn_o" };
    const int64_t D = b->m->d_model, F = b->m->d_ff;
    w->self = t5_bind_mixing(b, self);
    if (decoder)
        w->cross = t5_bind_mixing(b, cross);
    w->ffn_norm = bind_norm(b, "ffn_norm", D, false).w;
    if (gated)
        w->gate = bind_linear(b, "ffn_gate", F, D, NO_BIAS);
    w->up = bind_linear(b, "ffn_up", F, D, NO_BIAS);
    w->down = bind_linear(b, "ffn_down", D, F, NO_BIAS);
}

static void t5_bind_stack(bind *b, t5_stack *s, bool decoder, bool gated, int64_t n_bucket,
                          attn_bias bias)
{
    const model *of = b->m;
    const int64_t n_layer = decoder ? of->n_layer : of->n_layer_src;
    b->prefix = decoder ? "dec." : "enc.";
    b->names = (decoder ? decoder_names : encoder_names) + gated;
    s->output_norm = bind_norm(b, "output_norm", of->d_model, false).w;
    s->layer = bind_alloc(b, n_layer, sizeof *s->layer);
    for (b->layer = 0; b->layer < n_layer && b->status == WEFT_OK; b->layer++) {
        if (b->layer == 0)
            bias.table = bind_small_table(b, "attn_rel_b", n_bucket, of->n_head);
        t5_bind_layer(b, &s->layer[b->layer], decoder, gated);
    }
    s->self = attn_of(decoder ? ATTN_CAUSAL : ATTN_FULL, of->n_head, of->n_head, of->d_head);
    s->self.scale = 1;
    s->self.bias = bias;
    b->prefix = "";
    b->names = names;
    b->layer = -1;
}

/* GGUF has no key for the distance from which all positions share a bucket. It must exceed the
 * distances that have a bucket each. */
static int64_t read_distance(bind *b, int64_t n_bucket)
{
    const int64_t most = bind_int(b, NULL, "relative_attention_max_distance", 128, n_bucket / 2 + 1,
                                  1 << 30);
    if (most != 128)
        bind_not_convertible(b, "relative_attention_max_distance");
    return most;
}

static void *bind_t5(bind *b)
{
    model *of = b->m;
    b->names = names;
    t5_read_sizes(b);
    t5 *m = bind_alloc(b, 1, sizeof *m);
    if (!m)
        return NULL;
    m->eps = (real)bind_epsilon(b, "attention.layer_norm_rms_epsilon", "layer_norm_epsilon", 1e-6);
    const bool gated = read_gated(b);
    m->act = gated ? ACT_GELU_TANH : ACT_RELU;
    of->stream[0] = (stream_spec){ "k", of->n_head * of->d_head };
    of->stream[1] = (stream_spec){ "v", of->n_head * of->d_head };
    of->n_stream = 2;

    const int64_t n_bucket = bind_int(b, "attention.relative_buckets_count",
                                      "relative_attention_num_buckets", 32, 4, 1 << 20);
    const int64_t far = read_distance(b, n_bucket);
    m->token_embd = bind_table(b, "token_embd", of->n_vocab, of->d_model);
    t5_bind_stack(b, &m->enc, false, gated, n_bucket, (attn_bias){ NULL, true, far });
    t5_bind_stack(b, &m->dec, true, gated, n_bucket, (attn_bias){ NULL, false, far });
    m->cross = m->dec.self;
    m->cross.kind = ATTN_CROSS;
    m->cross.bias = (attn_bias){ 0 };
    t5_bind_head(b, m);
    bind_ignore(b, "coder.embed_tokens.weight");
    bind_ignore(b, ".EncDecAttention.relative_attention_bias.weight");
    return m;
}

const family t5_family = { .name = "t5", .bind = bind_t5, .body = t5_body, .end = t5_end };
