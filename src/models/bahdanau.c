/* bahdanau.c - the origin of attention (Bahdanau, Cho and Bengio, 2014): a recurrent encoder and
 * decoder, with additive attention between them.
 *
 *     h_j = gru(source_j, h_(j-1))                                  keys and values: the states h
 *     c_t = sum_j a_j h_j,  a = softmax_j(w . tanh(W_q s_(t-1) + W_k h_j))
 *     s_t = gru([c_t, target_(t-1)], s_(t-1)),  logits W s_t        s_0: the last h
 *
 * The encoder runs forward only. The gates' matrix for [c, target] is stored as two, W_c and W. In
 * the cache, stream `state` holds s of a text and h of a source, and `key` holds W_k h. */
#include "models/bind.h"

typedef struct bahdanau {
    struct {
        tensor *token_embd;  /* [V, D] */
        weight input, state; /* [3 D, D] */
    } enc, dec;
    additive_attn look; /* W_q [A, D], score [1, A], W_c [3 D, D] */
    weight key;         /* [A, D] */
    weight output;      /* [V, D] */
} bahdanau;

/* Dropout applies to the input of a recurrence, not to its state. */
static tensor *gates(run *r, tensor *x, const weight *input)
{
    if (r->training && r->dropout > 0)
        x = dropout(r, x, r->dropout);
    return linear(r, x, input); /* [N, 3 D] */
}

static tensor *bahdanau_encoder_block(run *r, const void *self, int l, tensor *x)
{
    (void)l;
    const bahdanau *m = self;
    tensor *h = gates(r, x, &m->enc.input);
    return gru(r, h, &m->enc.state); /* [N, D] */
}

static tensor *bahdanau_decoder_block(run *r, const void *self, int l, tensor *x)
{
    const bahdanau *m = self;
    tensor *k = r->at.encoder_out ? linear(r, r->at.encoder_out, &m->key)
                                  : NULL; /* [source rows, A] */
    tensor *h = gates(r, x, &m->dec.input);
    return gru_attend(r, h, r->at.encoder_out, k, &m->dec.state, &m->look, l);
}

static tensor *bahdanau_encode(run *r, const bahdanau *m)
{
    tensor *x = embed(r, m->enc.token_embd, EMBED_TOKEN); /* [N, D] */
    return run_block(r, bahdanau_encoder_block, m, 0, x);
}

static tensor *bahdanau_body(run *r, const model *of)
{
    const bahdanau *m = of->self;
    const batch *target = r->at.batch;
    run_part(r, r->at.src, "enc.");
    r->at.encoder_out = r->at.src->n_row > 0 ? bahdanau_encode(r, m) : NULL;

    run_part(r, target, "dec.");
    tensor *x = embed(r, m->dec.token_embd, EMBED_TOKEN);
    x = run_block(r, bahdanau_decoder_block, m, 0, x);
    return x;
}

static tensor *bahdanau_end(run *r, const model *of, tensor *x)
{
    const bahdanau *m = of->self;
    run_part(r, r->at.batch, "dec.");
    x = take_rows(r, x);
    run_part(r, r->at.batch, "");
    return head(r, x, &m->output); /* [n_wanted, V] */
}

/* ---- from the file --------------------------------------------------------------------------- */

static const bind_name encoder_names[] = {
    { "token_embd", "encoder.embed_tokens" },
    { "gru_input", "encoder.gru.input" },
    { "gru_state", "encoder.gru.state" },
    { NULL, NULL },
};

static const bind_name decoder_names[] = {
    { "token_embd", "decoder.embed_tokens" },
    { "gru_input", "decoder.gru.input" },
    { "gru_context", "decoder.gru.context" },
    { "gru_state", "decoder.gru.state" },
    { "attn_q", "decoder.attention.query" },
    { "attn_k", "decoder.attention.key" },
    { "attn_score", "decoder.attention.score" },
    { "output", "lm_head" },
    { NULL, NULL },
};

static void bahdanau_read_sizes(bind *b)
{
    model *m = b->m;
    const int64_t max = INT32_MAX / 3;
    m->n_layer = m->n_layer_src = m->n_head = m->n_head_kv = 1;
    m->d_model = m->d_head = bind_int(b, NULL, "hidden_size", REQUIRED, 1, max);
    m->n_ctx = bind_int(b, NULL, "max_position_embeddings", 1024, 1, 1 << 24);
    m->n_vocab = m->n_vocab_src = bind_int(b, NULL, "vocab_size", REQUIRED, 1, max);
    m->start = bind_int(b, NULL, "decoder_start_token_id", 0, 0, m->n_vocab - 1);
}

static void bind_encoder(bind *b, bahdanau *m)
{
    const int64_t D = b->m->d_model;
    b->prefix = "enc.";
    b->names = encoder_names;
    m->enc.token_embd = bind_table(b, "token_embd", b->m->n_vocab, D);
    b->layer = 0;
    m->enc.input = bind_linear(b, "gru_input", 3 * D, D, WITH_BIAS);
    m->enc.state = bind_linear(b, "gru_state", 3 * D, D, WITH_BIAS);
    b->layer = -1;
}

static void bind_decoder(bind *b, bahdanau *m, int64_t A)
{
    const int64_t D = b->m->d_model, V = b->m->n_vocab;
    b->prefix = "dec.";
    b->names = decoder_names;
    m->dec.token_embd = bind_table(b, "token_embd", V, D);
    b->layer = 0;
    m->look.context = bind_linear(b, "gru_context", 3 * D, D, NO_BIAS);
    m->look.query = bind_linear(b, "attn_q", A, D, NO_BIAS);
    m->key = bind_linear(b, "attn_k", A, D, NO_BIAS);
    m->look.score = bind_small_table(b, "attn_score", 1, A);
    m->dec.input = bind_linear(b, "gru_input", 3 * D, D, WITH_BIAS);
    m->dec.state = bind_linear(b, "gru_state", 3 * D, D, WITH_BIAS);
    b->layer = -1;
    b->prefix = "";
    m->output = bind_ties_head(b, false) ? bind_tied(b, "output", m->dec.token_embd, WITH_BIAS)
                                         : bind_linear(b, "output", V, D, WITH_BIAS);
    if (m->look.context.b || m->look.query.b)
        bind_fail(b, WEFT_EUNSUPPORTED, "biases of the context or the query, expected none");
}

static void *bind_bahdanau(bind *b)
{
    b->names = encoder_names;
    bahdanau_read_sizes(b);
    const int64_t A = bind_int(b, NULL, "attention_size", b->m->d_model, 1, MAX_HEAD);
    bahdanau *m = bind_alloc(b, 1, sizeof *m);
    if (!m)
        return NULL;
    b->m->stream[0] = (stream_spec){ "state", b->m->d_model };
    b->m->stream[1] = (stream_spec){ "key", A };
    b->m->n_stream = 2;
    bind_encoder(b, m);
    bind_decoder(b, m, A);
    return m;
}

const family bahdanau_family = {
    .name = "bahdanau", .bind = bind_bahdanau, .body = bahdanau_body, .end = bahdanau_end
};
