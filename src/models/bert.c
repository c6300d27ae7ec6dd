/* bert.c - post-norm encoder: every token attends to all others.
 *
 * BERT and MiniLM, RoBERTa, XLM-R, CamemBERT, DistilBERT: learned positions, GELU. MPNet adds T5's
 * relative positions, one table for all layers; ELECTRA has narrower embeddings; nomic has rotary
 * positions and a gated feed forward. The differences are numbers and absent tensors; bert_kinds.c
 * has their names.
 *
 * A head, if there is one, adds a line or two:
 *
 *     FILL      dense, GELU, LayerNorm, then the embedding's own table
 *     CLASSIFY  dense and tanh (DistilBERT: ReLU, ELECTRA: GELU) of the first token, then the labels
 *     TAG       the labels; ELECTRA's discriminator: dense, GELU, one logit
 *     ANSWER    two logits: the answer begins here, the answer ends here */
#include "models/bert_kinds.h"

#include <string.h>

typedef struct bert_layer {
    weight qkv;               /* [3 D, D]; w NULL: three matrices */
    weight q, k, v, o;        /* [D, D] */
    weight attn_output_norm;  /* [D] */
    weight gate, up, down;    /* [F, D]  [F, D]  [D, F]; gate w NULL: none */
    weight layer_output_norm; /* [D] */
} bert_layer;

typedef struct bert {
    int64_t d_embd;         /* width of the embeddings, C; D if nothing projects them */
    tensor *token_embd;     /* [V, C] */
    tensor *position_embd;  /* [first_position + T, C], or NULL with rotary positions */
    tensor *token_types;    /* [n_type, C], or NULL */
    int64_t first_position; /* the row of position 0 */
    weight embd_norm;       /* [C] */
    weight embd_proj;       /* [D, C]; w NULL: none */
    bert_layer *layer;
    const rope_table *rope; /* or NULL with learned positions */
    attn attn;
    act_kind act;
    real eps;

    weight dense;       /* [D, D], or [C, D] to fill masks; w NULL: none */
    act_kind dense_act; /* after it */
    weight dense_norm;  /* [C]; w NULL: none */
    weight output;      /* [n_out, D], or [V, C]; w NULL: no head */
} bert;

static tensor *bert_block(run *r, const void *self, int l, tensor *x)
{
    const bert *m = self;
    const bert_layer *w = &m->layer[l];
    const int64_t D = cols(x);

    tensor *qkv = w->qkv.w ? linear(r, x, &w->qkv) : NULL;                 /* [N, 3 D] */
    tensor *q = qkv ? slice(r, qkv, "attn_q", 0, D) : linear(r, x, &w->q); /* [N, D] */
    tensor *k = qkv ? slice(r, qkv, "attn_k", D, D) : linear(r, x, &w->k);
    tensor *v = qkv ? slice(r, qkv, "attn_v", 2 * D, D) : linear(r, x, &w->v);
    if (m->rope) {
        q = rope(r, q, m->rope);
        k = rope(r, k, m->rope);
    }
    tensor *h = attention(r, q, k, v, &m->attn, l);
    h = linear(r, h, &w->o);
    residual(r, &x, h);
    x = layernorm(r, x, &w->attn_output_norm, m->eps);

    if (w->gate.w) {
        h = glu(r, x, &w->gate, &w->up, m->act); /* [N, F] */
    } else {
        h = linear(r, x, &w->up);
        h = act(r, h, m->act);
    }
    h = linear(r, h, &w->down);
    residual(r, &x, h);
    return layernorm(r, x, &w->layer_output_norm, m->eps);
}

static tensor *bert_body(run *r, const model *of)
{
    const bert *m = of->self;
    tensor *x = embed(r, m->token_embd, EMBED_TOKEN); /* [N, C] */
    if (m->token_types) {
        tensor *t = embed(r, m->token_types, EMBED_TYPE);
        residual(r, &x, t);
    }
    if (m->position_embd) {
        tensor *p = embed_from(r, m->position_embd, EMBED_POSITION, m->first_position);
        residual(r, &x, p);
    }
    x = layernorm(r, x, &m->embd_norm, m->eps);
    if (m->embd_proj.w)
        x = linear(r, x, &m->embd_proj); /* [N, D] */
    for (int l = 0; l < of->n_layer; l++)
        x = run_block(r, bert_block, m, l, x);
    return x;
}

/* The last block ends with a norm. */
static tensor *bert_states(run *r, const model *of, tensor *x)
{
    (void)r, (void)of;
    return x;
}

static tensor *bert_end(run *r, const model *of, tensor *x)
{
    const bert *m = of->self;
    x = take_rows(r, x); /* for classification, the first row */
    if (m->dense.w) {
        x = linear(r, x, &m->dense);
        x = act(r, x, m->dense_act);
    }
    if (m->dense_norm.w)
        x = layernorm(r, x, &m->dense_norm, m->eps);
    return m->output.w ? head(r, x, &m->output) : x; /* [n_wanted, n_out] */
}

/* ---- from the file --------------------------------------------------------------------------- */

static void bert_read_sizes(bind *b, const bert_kind *kind, bert *m)
{
    model *of = b->m;
    const int64_t max = INT32_MAX / 4;
    of->n_layer = bind_int(b, "block_count", kind->n_layer, REQUIRED, 1, b->most);
    of->d_model = bind_int(b, "embedding_length", kind->d_model, REQUIRED, 1, max);
    of->n_head = bind_int(b, "attention.head_count", kind->n_head, REQUIRED, 1, of->d_model);
    of->n_head_kv = of->n_head;
    of->d_head = of->d_model / of->n_head;
    of->d_ff = bind_int(b, "feed_forward_length", kind->d_ff, REQUIRED, 1, max);
    of->n_vocab = bind_int(b, "vocab_size", "vocab_size", bind_rows_of(b, "token_embd"), 1,
                           INT32_MAX);
    m->d_embd = kind->d_embd ? bind_int(b, NULL, kind->d_embd, of->d_model, 1, max) : of->d_model;
    m->first_position = kind->first_position >= 0
                            ? kind->first_position
                            : bind_int(b, NULL, "pad_token_id", 1, 0, 1 << 24) + 1;
    of->n_ctx = bind_int(b, "context_length", kind->n_ctx, REQUIRED, m->first_position + 1,
                         1 << 24) -
                m->first_position;
    of->n_type = bind_int(b, NULL, "type_vocab_size", bind_rows_of(b, "token_types"), 0, 256);
    if (b->gguf_keys)
        bind_export_int(b, NULL, "type_vocab_size", of->n_type);
    if (of->d_model % of->n_head != 0 || of->d_head > MAX_HEAD)
        bind_fail(b, WEFT_EFORMAT, "%lld heads cannot divide a width of %lld, or are wider than %d",
                  (long long)of->n_head, (long long)of->d_model, MAX_HEAD);
}

/* Refuses options that change the mathematics and that weft does not implement. */
static void bert_refuse_options(bind *b, const bert_kind *kind)
{
    static const char *const flags[] = { "is_decoder",  "sinusoidal_pos_embds",
                                         "prenorm",     "parallel_block",
                                         "causal",      "rotary_emb_interleaved",
                                         "use_rms_norm" };
    const char *positions = bind_text(b, NULL, "position_embedding_type");
    if (positions && strcmp(positions, kind->theta > 0 ? "rope" : "absolute") != 0)
        bind_fail(b, WEFT_EUNSUPPORTED, "position_embedding_type \"%.40s\"", positions);
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
        if (bind_flag(b, NULL, flags[i], false))
            bind_fail(b, WEFT_EUNSUPPORTED, "%s = true", flags[i]);
    bind_export_flag(b, "attention.causal", NULL, false);
    if (b->gguf_keys && bind_flag(b, "attention.causal", NULL, false))
        bind_fail(b, WEFT_EUNSUPPORTED, "attention.causal = true");
}

/* Does the name of the class that saved the model end so? */
static bool saved_by(bind *b, const char *tail)
{
    const char *name = b->gguf_keys ? NULL : bind_peek_text(b, NULL, "architectures.0");
    const size_t n = name ? strlen(name) : 0, k = strlen(tail);
    return n > k && strcmp(name + n - k, tail) == 0;
}

/* ELECTRA's discriminator says of every token whether it was replaced. */
static bool detects_tokens(bind *b, const bert_kind *kind)
{
    return kind->detects && saved_by(b, "ForPreTraining");
}

/* A directory names the class that saved the model, which gives the task; in GGUF the tensors
 * do. */
static weft_task bert_read_task(bind *b, const bert_kind *kind)
{
    static const struct {
        const char *tail;
        weft_task task;
    } known[] = {
        { "ForMaskedLM", WEFT_TASK_FILL },
        { "ForPreTraining", WEFT_TASK_FILL },
        { "ForSequenceClassification", WEFT_TASK_CLASSIFY },
        { "ForTokenClassification", WEFT_TASK_TAG },
        { "ForQuestionAnswering", WEFT_TASK_ANSWER },
        { "Model", WEFT_TASK_EMBED },
    };
    if (b->gguf_keys)
        return bind_has(b, "cls.output") ? WEFT_TASK_CLASSIFY : WEFT_TASK_EMBED;
    if (detects_tokens(b, kind))
        return WEFT_TASK_TAG;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (saved_by(b, known[i].tail))
            return known[i].task;
    const char *name = bind_text(b, NULL, "architectures.0");
    if (name)
        bind_fail(b, WEFT_EUNSUPPORTED, "architecture \"%.60s\": unsupported head", name);
    return bind_has(b, "mlm") ? WEFT_TASK_FILL : WEFT_TASK_EMBED;
}

/* sentence-transformers keeps the name of the class that a model was trained from, but not its
 * head. */
static bool lost_its_head(bind *b)
{
    return b->m->task == WEFT_TASK_FILL && !b->is_new && !bind_has(b, "mlm") && bind_has_modules(b);
}

/* ... for the labels that the file names. */
static weight bind_labels_of(bind *b, const char *stem)
{
    b->m->n_out = bind_labels(b, stem);
    return bind_linear(b, stem, b->m->n_out, b->m->d_model, WITH_BIAS);
}

static void bert_bind_fill(bind *b, const bert_kind *kind, bert *m)
{
    m->dense = bind_linear(b, "mlm", m->d_embd, b->m->d_model, WITH_BIAS);
    m->dense_act = kind->fills_by_gelu ? ACT_GELU : m->act;
    m->dense_norm = bind_norm(b, "mlm_norm", m->d_embd, true);
    m->output = bind_tied(b, "output", m->token_embd, WITH_BIAS);
    b->m->n_out = b->m->n_vocab;
    if (!bind_flag(b, NULL, "tie_word_embeddings", true))
        bind_fail(b, WEFT_EUNSUPPORTED, "tie_word_embeddings = false");
}

static void bert_bind_head(bind *b, const bert_kind *kind, bert *m)
{
    model *of = b->m;
    const int64_t D = of->d_model;
    of->n_out = D;
    if (of->task == WEFT_TASK_FILL) {
        bert_bind_fill(b, kind, m);
    } else if (of->task == WEFT_TASK_CLASSIFY) {
        m->dense = bind_linear(b, "cls", D, D, WITH_BIAS);
        m->dense_act = kind->cls_act;
        m->output = bind_labels_of(b, "cls.output");
        b->hf_class = kind->classifier;
    } else if (detects_tokens(b, kind)) {
        m->dense = bind_linear(b, "detect", D, D, WITH_BIAS);
        m->dense_act = m->act;
        m->output = bind_linear(b, "detect.output", of->n_out = 1, D, WITH_BIAS);
    } else if (of->task == WEFT_TASK_TAG) {
        m->output = bind_labels_of(b, "tag.output");
    } else if (of->task == WEFT_TASK_ANSWER) {
        of->n_out = 2;
        m->output = bind_linear(b, "qa.output", 2, D, WITH_BIAS);
    }
    if (of->task != WEFT_TASK_EMBED && !(of->task == WEFT_TASK_CLASSIFY && kind->classifier))
        bind_not_convertible(b, "this head");
}

static void bert_bind_layer(bind *b, const bert_kind *kind, bert_layer *w)
{
    const int64_t D = b->m->d_model, F = b->m->d_ff;
    const bind_bias bias = kind->no_bias ? NO_BIAS : WITH_BIAS;
    if (kind->fused) {
        w->qkv = bind_linear(b, "attn_qkv", 3 * D, D, bias);
    } else {
        w->q = bind_linear(b, "attn_q", D, D, bias);
        w->k = bind_linear(b, "attn_k", D, D, bias);
        w->v = bind_linear(b, "attn_v", D, D, bias);
    }
    w->o = bind_linear(b, "attn_output", D, D, bias);
    w->attn_output_norm = bind_norm(b, "attn_output_norm", D, true);
    if (b->m->arch->fused_ffn) {
        w->up = bind_rows(b, "ffn_up", "ffn_up", 2 * F, 0, F, D);
        w->gate = bind_rows(b, "ffn_gate", "ffn_up", 2 * F, F, F, D);
    } else {
        if (kind->gated)
            w->gate = bind_linear(b, "ffn_gate", F, D, NO_BIAS);
        w->up = bind_linear(b, "ffn_up", F, D, kind->gated ? NO_BIAS : bias);
    }
    w->down = bind_linear(b, "ffn_down", D, F, bias);
    w->layer_output_norm = bind_norm(b, "layer_output_norm", D, true);
}

/* Rotary positions of whole heads. The authors' nomic files have keys of their own. */
static const rope_table *bert_read_rope(bind *b, const bert_kind *kind)
{
    const int64_t E = b->m->d_head;
    rope_spec s = { .d_head = E, .n_rot = E, .theta = kind->theta };
    bind_int(b, NULL, "head_dim", E, E, E);
    if (kind->theta_key) {
        const char *act = bind_text(b, NULL, "activation_function");
        s.theta = bind_real(b, NULL, kind->theta_key, kind->theta, 1, 1e15);
        if (act && strcmp(act, "swiglu") != 0)
            bind_fail(b, WEFT_EUNSUPPORTED, "activation_function is \"%.40s\"; expected swiglu",
                      act);
        if (bind_real(b, NULL, "rotary_emb_fraction", 1, 0, 1) != 1)
            bind_fail(b, WEFT_EUNSUPPORTED, "rotary_emb_fraction other than 1");
        if (bind_int(b, NULL, "moe_every_n_layers", 0, 0, INT32_MAX) != 0)
            bind_fail(b, WEFT_EUNSUPPORTED, "moe_every_n_layers: encoders with experts");
    }
    return bind_rope(b, &s);
}

static void bert_bind_embeddings(bind *b, const bert_kind *kind, bert *m)
{
    const model *of = b->m;
    const int64_t C = m->d_embd;
    m->token_embd = bind_table(b, "token_embd", of->n_vocab, C);
    if (kind->theta == 0)
        m->position_embd = bind_table(b, "position_embd", m->first_position + of->n_ctx, C);
    if (of->n_type > 0)
        m->token_types = bind_table(b, "token_types", of->n_type, C);
    m->embd_norm = bind_norm(b, "token_embd_norm", C, true);
    if (C != of->d_model)
        m->embd_proj = bind_linear(b, "embd_proj", of->d_model, C, WITH_BIAS);
    if (kind->n_bucket > 0) {
        const int64_t n = bind_int(b, NULL, "relative_attention_num_buckets", kind->n_bucket,
                                   kind->n_bucket, kind->n_bucket);
        m->attn.bias = (attn_bias){ bind_small_table(b, "attn_rel_b", n, of->n_head), true, 128 };
    }
}

/* Ignores copies of shared tensors, and heads that the class was trained with but does not use. */
static void ignore_leftovers(bind *b)
{
    static const char *const tails[] = {
        "embeddings.position_ids",      "cls.predictions.decoder.weight",
        "cls.predictions.decoder.bias", "lm_head.decoder.weight",
        "lm_head.decoder.bias",         "vocab_projector.weight",
        "generator_lm_head.weight",     ".rotary_emb.inv_freq",
    };
    for (size_t i = 0; i < sizeof tails / sizeof *tails; i++)
        bind_ignore(b, tails[i]);
    bind_ignore_module(b, "pooler.dense");
    bind_ignore_module(b, "cls.seq_relationship");
}

static void *bind_bert(bind *b)
{
    model *of = b->m;
    const bert_kind *kind = bert_kind_of(b);
    b->names = kind->names;
    b->hf_prefix = kind->prefix;
    bert *m = bind_alloc(b, 1, sizeof *m);
    if (!m)
        return NULL;
    bert_read_sizes(b, kind, m);
    bert_refuse_options(b, kind);
    of->task = bert_read_task(b, kind);
    if (lost_its_head(b))
        of->task = WEFT_TASK_EMBED;
    of->pool = bind_pooling(b);
    m->layer = bind_alloc(b, of->n_layer, sizeof *m->layer);
    m->eps = (real)bind_epsilon(b, "attention.layer_norm_epsilon", kind->eps, 1e-12);
    m->act = bind_act(b, kind->act, kind->default_act);
    m->attn = attn_of(ATTN_FULL, of->n_head, of->n_head, of->d_head);
    if (kind->theta > 0)
        m->rope = bert_read_rope(b, kind);

    bert_bind_embeddings(b, kind, m);
    for (b->layer = 0; b->layer < of->n_layer && b->status == WEFT_OK; b->layer++)
        bert_bind_layer(b, kind, &m->layer[b->layer]);
    b->layer = -1;
    bert_bind_head(b, kind, m);
    ignore_leftovers(b);
    return m;
}

const family bert_family = {
    .name = "bert", .bind = bind_bert, .body = bert_body, .end = bert_end, .states = bert_states
};
