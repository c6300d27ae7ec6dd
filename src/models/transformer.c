/* transformer.c - encoder and decoder: self-attention and cross-attention, LayerNorm, a feed
 * forward of two matrices.
 *
 * The Transformer of 2017, BART, Marian, M2M-100. They differ in three ways: post-norm or pre-norm,
 * learned or sinusoidal positions, a norm or a scale on embeddings.
 *
 *     source -> encoder blocks -> memory --+-- k, v of every decoder block
 *     target -> decoder blocks (self, cross, feed forward) -> head
 *
 * The memory is computed only for sources that are rows of this call. If all of them were encoded
 * earlier, cross-attention finds their keys and values in the caches. */
#include "models/sines.h"

#include <string.h>

/* Attention: [D, D] each. */
typedef struct mixing {
    weight norm; /* [D] */
    weight q, k, v, o;
} mixing;

typedef struct transformer_layer {
    mixing self, cross; /* cross: in the decoder only */
    weight ffn_norm;    /* [D] */
    weight up, down;    /* [F, D]  [D, F] */
} transformer_layer;

/* The encoder or the decoder. */
typedef struct stack {
    tensor *token_embd;    /* [V, D] */
    tensor *position_embd; /* [T + first, D] */
    weight embd_norm;      /* [D], or none */
    weight output_norm;    /* [D], or none */
    transformer_layer *layer;
    attn self;
} stack;

typedef struct transformer {
    stack enc, dec;
    weight output; /* [V, D] */
    attn cross;
    int64_t first; /* row of the position table for position 0 */
    real embd_scale;
    act_kind act;
    bool pre_norm;
    real eps;
} transformer;

/* Pre-norm x + f(norm(x)), or post-norm norm(x + f(x)) as in 2017: the norm before f, and the norm
 * after the residual. */
static tensor *norm_before(run *r, const transformer *m, tensor *x, const weight *norm)
{
    return m->pre_norm ? layernorm(r, x, norm, m->eps) : x;
}

static tensor *add_and_norm(run *r, const transformer *m, tensor *x, tensor *h, const weight *norm)
{
    residual(r, &x, h);
    return m->pre_norm ? x : layernorm(r, x, norm, m->eps);
}

static tensor *transformer_attend_self(run *r, const transformer *m, const stack *s, int l,
                                       tensor *x)
{
    const mixing *w = &s->layer[l].self;
    tensor *h = norm_before(r, m, x, &w->norm); /* [N, D] */
    tensor *q = linear(r, h, &w->q);
    tensor *k = linear(r, h, &w->k);
    tensor *v = linear(r, h, &w->v);
    h = attention(r, q, k, v, &s->self, l);
    h = linear(r, h, &w->o);
    return add_and_norm(r, m, x, h, &w->norm);
}

static tensor *transformer_attend_source(run *r, const transformer *m, int l, tensor *x)
{
    const mixing *w = &m->dec.layer[l].cross;
    tensor *h = norm_before(r, m, x, &w->norm); /* [N, D] */
    tensor *q = linear(r, h, &w->q);
    tensor *k = r->at.encoder_out ? linear(r, r->at.encoder_out, &w->k)
                                  : NULL; /* [source rows, D] */
    tensor *v = r->at.encoder_out ? linear(r, r->at.encoder_out, &w->v) : NULL;
    h = attention(r, q, k, v, &m->cross, l);
    h = linear(r, h, &w->o);
    return add_and_norm(r, m, x, h, &w->norm);
}

static tensor *transformer_feed_forward(run *r, const transformer *m, const transformer_layer *w,
                                        tensor *x)
{
    tensor *h = norm_before(r, m, x, &w->ffn_norm);
    h = linear(r, h, &w->up); /* [N, F] */
    h = act(r, h, m->act);
    h = linear(r, h, &w->down);
    return add_and_norm(r, m, x, h, &w->ffn_norm);
}

static tensor *transformer_encoder_block(run *r, const void *self, int l, tensor *x)
{
    const transformer *m = self;
    x = transformer_attend_self(r, m, &m->enc, l, x);
    return transformer_feed_forward(r, m, &m->enc.layer[l], x);
}

static tensor *transformer_decoder_block(run *r, const void *self, int l, tensor *x)
{
    const transformer *m = self;
    x = transformer_attend_self(r, m, &m->dec, l, x);
    x = transformer_attend_source(r, m, l, x);
    return transformer_feed_forward(r, m, &m->dec.layer[l], x);
}

static tensor *embeddings(run *r, const transformer *m, const stack *s)
{
    tensor *x = embed(r, s->token_embd, EMBED_TOKEN); /* [N, D] */
    if (m->embd_scale != 1)
        x = scale(r, x, m->embd_scale);
    tensor *p = embed_from(r, s->position_embd, EMBED_POSITION, m->first);
    residual(r, &x, p);
    return s->embd_norm.w ? layernorm(r, x, &s->embd_norm, m->eps) : x;
}

static tensor *transformer_encode(run *r, const model *of)
{
    const transformer *m = of->self;
    tensor *x = embeddings(r, m, &m->enc);
    for (int l = 0; l < of->n_layer_src; l++)
        x = run_block(r, transformer_encoder_block, m, l, x);
    return m->enc.output_norm.w ? layernorm(r, x, &m->enc.output_norm, m->eps) : x;
}

static tensor *transformer_body(run *r, const model *of)
{
    const transformer *m = of->self;
    const batch *target = r->at.batch;
    run_part(r, r->at.src, "enc.");
    r->at.encoder_out = r->at.src->n_row > 0 ? transformer_encode(r, of) : NULL;

    run_part(r, target, "dec.");
    tensor *x = embeddings(r, m, &m->dec);
    for (int l = 0; l < of->n_layer; l++)
        x = run_block(r, transformer_decoder_block, m, l, x);
    return x;
}

static tensor *transformer_end(run *r, const model *of, tensor *x)
{
    const transformer *m = of->self;
    run_part(r, r->at.batch, "dec.");
    x = take_rows(r, x);
    if (m->dec.output_norm.w)
        x = layernorm(r, x, &m->dec.output_norm, m->eps);
    run_part(r, r->at.batch, "");
    return head(r, x, &m->output); /* [n_wanted, V] */
}

/* ---- from the file --------------------------------------------------------------------------- */

static const bind_name names[] = {
    { "token_embd", "model.shared" },
    { "output", "lm_head" },
    { "output_bias", "final_logits_bias" },
    { NULL, NULL },
};

static const bind_name encoder_names[] = {
    { "token_embd", "model.encoder.embed_tokens" },
    { "position_embd", "model.encoder.embed_positions" },
    { "token_embd_norm", "model.encoder.layernorm_embedding" },
    { "output_norm", "model.encoder.layer_norm" },
    { "attn_norm", "model.encoder.layers.%d.self_attn_layer_norm" },
    { "attn_q", "model.encoder.layers.%d.self_attn.q_proj" },
    { "attn_k", "model.encoder.layers.%d.self_attn.k_proj" },
    { "attn_v", "model.encoder.layers.%d.self_attn.v_proj" },
    { "attn_o", "model.encoder.layers.%d.self_attn.out_proj" },
    { "ffn_norm", "model.encoder.layers.%d.final_layer_norm" },
    { "ffn_up", "model.encoder.layers.%d.fc1" },
    { "ffn_down", "model.encoder.layers.%d.fc2" },
    { NULL, NULL },
};

static const bind_name decoder_names[] = {
    { "token_embd", "model.decoder.embed_tokens" },
    { "position_embd", "model.decoder.embed_positions" },
    { "token_embd_norm", "model.decoder.layernorm_embedding" },
    { "output_norm", "model.decoder.layer_norm" },
    { "attn_norm", "model.decoder.layers.%d.self_attn_layer_norm" },
    { "attn_q", "model.decoder.layers.%d.self_attn.q_proj" },
    { "attn_k", "model.decoder.layers.%d.self_attn.k_proj" },
    { "attn_v", "model.decoder.layers.%d.self_attn.v_proj" },
    { "attn_o", "model.decoder.layers.%d.self_attn.out_proj" },
    { "cross_attn_norm", "model.decoder.layers.%d.encoder_attn_layer_norm" },
    { "cross_attn_q", "model.decoder.layers.%d.encoder_attn.q_proj" },
    { "cross_attn_k", "model.decoder.layers.%d.encoder_attn.k_proj" },
    { "cross_attn_v", "model.decoder.layers.%d.encoder_attn.v_proj" },
    { "cross_attn_o", "model.decoder.layers.%d.encoder_attn.out_proj" },
    { "ffn_norm", "model.decoder.layers.%d.final_layer_norm" },
    { "ffn_up", "model.decoder.layers.%d.fc1" },
    { "ffn_down", "model.decoder.layers.%d.fc2" },
    { NULL, NULL },
};

/* Defaults of an architecture, which config.json may override. */
typedef struct layout {
    const char *name;
    position_kind position;
    bool pre_norm, embd_norm, embd_scale;
    act_kind act;
} layout;

static const layout layouts[] = {
    { "bart", POSITION_LEARNED, false, true, false, ACT_GELU },
    { "marian", POSITION_HALVES, false, false, false, ACT_GELU },
    { "m2m_100", POSITION_FAIRSEQ, true, false, true, ACT_RELU },
    { "transformer", POSITION_INTERLEAVED, false, false, true, ACT_RELU },
};

static const layout *layout_of(const bind *b)
{
    const layout *l = layouts;
    while (strcmp(l->name, b->m->name) != 0)
        l++; /* the table of architectures has no others */
    return l;
}

/* Sizes that differ between the stacks. */
typedef struct stack_sizes {
    int64_t n_layer, n_head, d_ff, n_vocab;
} stack_sizes;

static void transformer_read_sizes(bind *b, stack_sizes *enc, stack_sizes *dec)
{
    model *m = b->m;
    const int64_t max = INT32_MAX;
    m->d_model = bind_int(b, NULL, "d_model", REQUIRED, 2, max);
    enc->n_layer = bind_int(b, NULL, "encoder_layers", REQUIRED, 1, b->most);
    enc->n_head = bind_int(b, NULL, "encoder_attention_heads", REQUIRED, 1, 65536);
    enc->d_ff = bind_int(b, NULL, "encoder_ffn_dim", REQUIRED, 1, max);
    dec->n_layer = bind_int(b, NULL, "decoder_layers", REQUIRED, 1, b->most);
    dec->n_head = bind_int(b, NULL, "decoder_attention_heads", REQUIRED, 1, 65536);
    dec->d_ff = bind_int(b, NULL, "decoder_ffn_dim", REQUIRED, 1, max);
    m->n_ctx = bind_int(b, NULL, "max_position_embeddings", 1024, 1, 1 << 24);
    m->n_layer_src = enc->n_layer;
    m->n_layer = dec->n_layer;
    m->n_head = m->n_head_kv = dec->n_head;
    m->d_ff = dec->d_ff;
    m->d_head = m->d_model / m->n_head;
    if (m->d_model % enc->n_head != 0 || m->d_model % dec->n_head != 0 ||
        m->d_model / enc->n_head > MAX_HEAD || m->d_head > MAX_HEAD)
        bind_fail(b, WEFT_EFORMAT, "a width of %lld for %lld and %lld heads", (long long)m->d_model,
                  (long long)enc->n_head, (long long)dec->n_head);
}

static void begin_part(bind *b, const char *part, const bind_name *of)
{
    b->prefix = part;
    b->names = of;
}

/* Both stacks share one embedding table, or each has its own. */
static void bind_embeddings(bind *b, transformer *m, stack_sizes *enc, stack_sizes *dec)
{
    model *of = b->m;
    const int64_t D = of->d_model, max = INT32_MAX;
    begin_part(b, "", names);
    const bool shared = b->is_new || bind_has(b, "token_embd");
    if (shared) {
        enc->n_vocab = bind_int(b, NULL, "vocab_size", bind_rows_of(b, "token_embd"), 1, max);
        dec->n_vocab = enc->n_vocab;
        m->enc.token_embd = m->dec.token_embd = bind_table(b, "token_embd", enc->n_vocab, D);
        bind_ignore(b, "model.encoder.embed_tokens.weight");
        bind_ignore(b, "model.decoder.embed_tokens.weight");
    } else {
        begin_part(b, "enc.", encoder_names);
        enc->n_vocab = bind_rows_of(b, "token_embd");
        m->enc.token_embd = bind_table(b, "token_embd", enc->n_vocab, D);
        begin_part(b, "dec.", decoder_names);
        dec->n_vocab = bind_rows_of(b, "token_embd");
        m->dec.token_embd = bind_table(b, "token_embd", dec->n_vocab, D);
    }
    of->n_vocab_src = enc->n_vocab;
    of->n_vocab = dec->n_vocab;
}

static void transformer_bind_head(bind *b, transformer *m)
{
    const model *of = b->m;
    begin_part(b, "", names);
    const bool tied = bind_ties_head(b, true);
    m->output = tied ? bind_tied(b, "output", m->dec.token_embd, NO_BIAS)
                     : bind_linear(b, "output", of->n_vocab, of->d_model, NO_BIAS);
    m->output.b = bind_bias_row(b, "output_bias", of->n_vocab);
    if (tied)
        bind_ignore(b, "lm_head.weight");
}

/* fairseq's positions begin after the padding's. */
static void transformer_bind_positions(bind *b, transformer *m)
{
    const position_kind kind = layout_of(b)->position;
    const int64_t D = b->m->d_model, T = b->m->n_ctx;
    if (kind == POSITION_LEARNED) {
        m->first = 2;
        begin_part(b, "enc.", encoder_names);
        m->enc.position_embd = bind_table(b, "position_embd", T + m->first, D);
        begin_part(b, "dec.", decoder_names);
        m->dec.position_embd = bind_table(b, "position_embd", T + m->first, D);
        return;
    }
    const int64_t pad = kind == POSITION_FAIRSEQ ? bind_int(b, NULL, "pad_token_id", 1, 0, 1 << 30)
                                                 : -1;
    m->enc.position_embd = bind_sines(b, &(sines){ kind, pad + 1, D }, T);
    m->dec.position_embd = m->enc.position_embd;
    bind_ignore(b, ".embed_positions.weight");
}

static mixing transformer_bind_mixing(bind *b, const char *const stem[5])
{
    const int64_t D = b->m->d_model;
    mixing w = { .norm = bind_norm(b, stem[0], D, true) };
    w.q = bind_linear(b, stem[1], D, D, WITH_BIAS);
    w.k = bind_linear(b, stem[2], D, D, WITH_BIAS);
    w.v = bind_linear(b, stem[3], D, D, WITH_BIAS);
    w.o = bind_linear(b, stem[4], D, D, WITH_BIAS);
    return w;
}

static void transformer_bind_stack(bind *b, stack *s, const stack_sizes *n, bool decoder)
{
    static const char *const self[] = { "attn_norm", "attn_q", "attn_k", "attn_v", "attn_o" };
    static const char *const cross[] = { "cross_attn_norm", "cross_attn_q", "cross_attn_k",
                                         "cross_attn_v", "cross_attn_o" };
    const layout *a = layout_of(b);
    const int64_t D = b->m->d_model;
    begin_part(b, decoder ? "dec." : "enc.", decoder ? decoder_names : encoder_names);
    if (b->is_new ? a->embd_norm : bind_has(b, "token_embd_norm"))
        s->embd_norm = bind_norm(b, "token_embd_norm", D, true);
    if (b->is_new ? a->pre_norm : bind_has(b, "output_norm"))
        s->output_norm = bind_norm(b, "output_norm", D, true);
    s->layer = bind_alloc(b, n->n_layer, sizeof *s->layer);
    for (b->layer = 0; b->layer < n->n_layer && b->status == WEFT_OK; b->layer++) {
        transformer_layer *w = &s->layer[b->layer];
        w->self = transformer_bind_mixing(b, self);
        if (decoder)
            w->cross = transformer_bind_mixing(b, cross);
        w->ffn_norm = bind_norm(b, "ffn_norm", D, true);
        w->up = bind_linear(b, "ffn_up", n->d_ff, D, WITH_BIAS);
        w->down = bind_linear(b, "ffn_down", D, n->d_ff, WITH_BIAS);
    }
    b->layer = -1;
}

static attn attention_of(const bind *b, attn_kind kind, int64_t n_head)
{
    const int64_t E = b->m->d_model / n_head;
    return attn_of(kind, n_head, n_head, E);
}

static void *bind_transformer(bind *b)
{
    model *of = b->m;
    const layout *a = layout_of(b);
    stack_sizes enc = { 0 }, dec = { 0 };
    b->hf_prefix = "model.";
    begin_part(b, "", names);
    transformer_read_sizes(b, &enc, &dec);
    transformer *m = bind_alloc(b, 1, sizeof *m);
    if (!m)
        return NULL;
    m->eps = (real)bind_epsilon(b, NULL, "layer_norm_eps", 1e-5);
    m->act = bind_act(b, "activation_function", a->act);
    m->pre_norm = bind_flag(b, NULL, "normalize_before", a->pre_norm);
    const bool scaled = bind_flag(b, NULL, "scale_embedding", a->embd_scale);
    m->embd_scale = scaled ? sqrt((real)of->d_model) : 1;
    m->enc.self = attention_of(b, ATTN_FULL, enc.n_head);
    m->dec.self = attention_of(b, ATTN_CAUSAL, dec.n_head);
    m->cross = attention_of(b, ATTN_CROSS, dec.n_head);
    of->stream[0] = (stream_spec){ "k", of->d_model };
    of->stream[1] = (stream_spec){ "v", of->d_model };
    of->n_stream = 2;

    bind_embeddings(b, m, &enc, &dec);
    transformer_bind_stack(b, &m->enc, &enc, false);
    transformer_bind_stack(b, &m->dec, &dec, true);
    transformer_bind_positions(b, m);
    transformer_bind_head(b, m);
    of->start = bind_int(b, NULL, "decoder_start_token_id", 2, 0, of->n_vocab - 1);
    return m;
}

const family transformer_family = { .name = "transformer",
                                    .bind = bind_transformer,
                                    .body = transformer_body,
                                    .end = transformer_end };
