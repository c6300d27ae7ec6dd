/* bert.c - post-norm encoder: every token attends to all others; learned positions, token types,
 * GELU.
 *
 * BERT and MiniLM, RoBERTa, DistilBERT. A head, if there is one, adds a line or two:
 *
 *     FILL      dense, GELU, LayerNorm, then the embedding's own table
 *     CLASSIFY  dense and tanh (DistilBERT: ReLU) of the first token, then the labels
 *     TAG       the labels
 *     ANSWER    two logits: the answer begins here, the answer ends here */
#include "models/bind.h"

#include <string.h>

typedef struct bert_layer {
    weight q, k, v, o;        /* [D, D] */
    weight attn_output_norm;  /* [D] */
    weight up, down;          /* [F, D]  [D, F] */
    weight layer_output_norm; /* [D] */
} bert_layer;

typedef struct bert {
    tensor *token_embd;     /* [V, D] */
    tensor *position_embd;  /* [first_position + T, D] */
    tensor *token_types;    /* [n_type, D], or NULL */
    int64_t first_position; /* the row of position 0 */
    weight embd_norm;       /* [D] */
    bert_layer *layer;
    attn attn;
    act_kind act;
    real eps;

    weight dense;       /* [D, D], before the head; w NULL: none */
    act_kind dense_act; /* after it */
    weight dense_norm;  /* [D]; w NULL: none */
    weight output;      /* [n_out, D]; w NULL: no head */
} bert;

static tensor *bert_block(run *r, const void *self, int l, tensor *x)
{
    const bert *m = self;
    const bert_layer *w = &m->layer[l];

    tensor *q = linear(r, x, &w->q); /* [N, D] */
    tensor *k = linear(r, x, &w->k);
    tensor *v = linear(r, x, &w->v);
    tensor *h = attention(r, q, k, v, &m->attn, l);
    h = linear(r, h, &w->o);
    residual(r, &x, h);
    x = layernorm(r, x, &w->attn_output_norm, m->eps);

    h = linear(r, x, &w->up); /* [N, F] */
    h = act(r, h, m->act);
    h = linear(r, h, &w->down);
    residual(r, &x, h);
    return layernorm(r, x, &w->layer_output_norm, m->eps);
}

static tensor *bert_body(run *r, const model *of)
{
    const bert *m = of->self;
    tensor *x = embed(r, m->token_embd, EMBED_TOKEN); /* [N, D] */
    if (m->token_types) {
        tensor *t = embed(r, m->token_types, EMBED_TYPE);
        residual(r, &x, t);
    }
    tensor *p = embed_from(r, m->position_embd, EMBED_POSITION, m->first_position);
    residual(r, &x, p);
    x = layernorm(r, x, &m->embd_norm, m->eps);
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

/* ---- by architecture ------------------------------------------------------------------------- */

static const bind_name bert_names[] = {
    { "token_embd", "bert.embeddings.word_embeddings" },
    { "position_embd", "bert.embeddings.position_embeddings" },
    { "token_types", "bert.embeddings.token_type_embeddings" },
    { "token_embd_norm", "bert.embeddings.LayerNorm" },
    { "attn_q", "bert.encoder.layer.%d.attention.self.query" },
    { "attn_k", "bert.encoder.layer.%d.attention.self.key" },
    { "attn_v", "bert.encoder.layer.%d.attention.self.value" },
    { "attn_output", "bert.encoder.layer.%d.attention.output.dense" },
    { "attn_output_norm", "bert.encoder.layer.%d.attention.output.LayerNorm" },
    { "ffn_up", "bert.encoder.layer.%d.intermediate.dense" },
    { "ffn_down", "bert.encoder.layer.%d.output.dense" },
    { "layer_output_norm", "bert.encoder.layer.%d.output.LayerNorm" },
    { "mlm", "cls.predictions.transform.dense" },
    { "mlm_norm", "cls.predictions.transform.LayerNorm" },
    { "output", "cls.predictions" }, /* its bias; the matrix is the embedding */
    { "cls", "bert.pooler.dense" },
    { "cls.output", "classifier" },
    { "tag.output", "classifier" },
    { "qa.output", "qa_outputs" },
    { NULL, NULL },
};

static const bind_name roberta_names[] = {
    { "token_embd", "roberta.embeddings.word_embeddings" },
    { "position_embd", "roberta.embeddings.position_embeddings" },
    { "token_types", "roberta.embeddings.token_type_embeddings" },
    { "token_embd_norm", "roberta.embeddings.LayerNorm" },
    { "attn_q", "roberta.encoder.layer.%d.attention.self.query" },
    { "attn_k", "roberta.encoder.layer.%d.attention.self.key" },
    { "attn_v", "roberta.encoder.layer.%d.attention.self.value" },
    { "attn_output", "roberta.encoder.layer.%d.attention.output.dense" },
    { "attn_output_norm", "roberta.encoder.layer.%d.attention.output.LayerNorm" },
    { "ffn_up", "roberta.encoder.layer.%d.intermediate.dense" },
    { "ffn_down", "roberta.encoder.layer.%d.output.dense" },
    { "layer_output_norm", "roberta.encoder.layer.%d.output.LayerNorm" },
    { "mlm", "lm_head.dense" },
    { "mlm_norm", "lm_head.layer_norm" },
    { "output", "lm_head" },
    { "cls", "classifier.dense" },
    { "cls.output", "classifier.out_proj" },
    { "tag.output", "classifier" },
    { "qa.output", "qa_outputs" },
    { NULL, NULL },
};

static const bind_name distilbert_names[] = {
    { "token_embd", "distilbert.embeddings.word_embeddings" },
    { "position_embd", "distilbert.embeddings.position_embeddings" },
    { "token_embd_norm", "distilbert.embeddings.LayerNorm" },
    { "attn_q", "distilbert.transformer.layer.%d.attention.q_lin" },
    { "attn_k", "distilbert.transformer.layer.%d.attention.k_lin" },
    { "attn_v", "distilbert.transformer.layer.%d.attention.v_lin" },
    { "attn_output", "distilbert.transformer.layer.%d.attention.out_lin" },
    { "attn_output_norm", "distilbert.transformer.layer.%d.sa_layer_norm" },
    { "ffn_up", "distilbert.transformer.layer.%d.ffn.lin1" },
    { "ffn_down", "distilbert.transformer.layer.%d.ffn.lin2" },
    { "layer_output_norm", "distilbert.transformer.layer.%d.output_layer_norm" },
    { "mlm", "vocab_transform" },
    { "mlm_norm", "vocab_layer_norm" },
    { "output", "vocab_projector" },
    { "cls", "pre_classifier" },
    { "cls.output", "classifier" },
    { "tag.output", "classifier" },
    { "qa.output", "qa_outputs" },
    { NULL, NULL },
};

typedef struct bert_kind {
    const char *hf; /* model_type */
    const bind_name *names;
    const char *prefix;
    const char *n_layer, *d_model, *n_head, *d_ff, *act; /* keys of config.json */
    bool after_padding; /* position 0 has the row after the padding id's */
    act_kind cls_act;
} bert_kind;

static const bert_kind kinds[] = {
    { "bert", bert_names, "bert.", "num_hidden_layers", "hidden_size", "num_attention_heads",
      "intermediate_size", "hidden_act", false, ACT_TANH },
    { "roberta", roberta_names, "roberta.", "num_hidden_layers", "hidden_size",
      "num_attention_heads", "intermediate_size", "hidden_act", true, ACT_TANH },
    { "distilbert", distilbert_names, "distilbert.", "n_layers", "dim", "n_heads", "hidden_dim",
      "activation", false, ACT_RELU },
};

static const bert_kind *bert_kind_of(const bind *b)
{
    for (size_t i = 1; i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(kinds[i].hf, b->m->arch->hf) == 0)
            return &kinds[i];
    return &kinds[0];
}

/* ---- from the file --------------------------------------------------------------------------- */

static void bert_read_sizes(bind *b, const bert_kind *kind, bert *m)
{
    model *of = b->m;
    const int64_t max = INT32_MAX;
    of->n_layer = bind_int(b, "block_count", kind->n_layer, REQUIRED, 1, b->most);
    of->d_model = bind_int(b, "embedding_length", kind->d_model, REQUIRED, 1, max);
    of->n_head = bind_int(b, "attention.head_count", kind->n_head, REQUIRED, 1, of->d_model);
    of->n_head_kv = of->n_head;
    of->d_head = of->d_model / of->n_head;
    of->d_ff = bind_int(b, "feed_forward_length", kind->d_ff, REQUIRED, 1, max);
    of->n_vocab = bind_int(b, "vocab_size", "vocab_size", bind_rows_of(b, "token_embd"), 1, max);
    m->first_position = kind->after_padding ? bind_int(b, NULL, "pad_token_id", 1, 0, 1 << 24) + 1
                                            : 0;
    of->n_ctx = bind_int(b, "context_length", "max_position_embeddings", REQUIRED,
                         m->first_position + 1, 1 << 24) -
                m->first_position;
    of->n_type = bind_int(b, NULL, "type_vocab_size", bind_rows_of(b, "token_types"), 0, 256);
    if (b->gguf_keys)
        bind_export_int(b, NULL, "type_vocab_size", of->n_type);
    if (of->d_model % of->n_head != 0 || of->d_head > MAX_HEAD)
        bind_fail(b, WEFT_EFORMAT, "%lld heads cannot divide a width of %lld, or are wider than %d",
                  (long long)of->n_head, (long long)of->d_model, MAX_HEAD);
}

/* Refuses options that change the mathematics and that weft does not implement. */
static void bert_refuse_options(bind *b)
{
    const char *positions = bind_text(b, NULL, "position_embedding_type");
    if (positions && strcmp(positions, "absolute") != 0)
        bind_fail(b, WEFT_EUNSUPPORTED, "position_embedding_type \"%.40s\"", positions);
    if (bind_flag(b, NULL, "is_decoder", false))
        bind_fail(b, WEFT_EUNSUPPORTED, "is_decoder = true");
    if (bind_flag(b, NULL, "sinusoidal_pos_embds", false))
        bind_fail(b, WEFT_EUNSUPPORTED, "sinusoidal_pos_embds = true");
    bind_export_flag(b, "attention.causal", NULL, false);
    if (b->gguf_keys && bind_flag(b, "attention.causal", NULL, false))
        bind_fail(b, WEFT_EUNSUPPORTED, "attention.causal = true");
}

/* A directory names the class that saved the model, which gives the task; in GGUF the tensors
 * do. */
static weft_task bert_read_task(bind *b)
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
    const char *name = bind_text(b, NULL, "architectures.0");
    const size_t n = name ? strlen(name) : 0;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        const size_t k = strlen(known[i].tail);
        if (n > k && strcmp(name + n - k, known[i].tail) == 0)
            return known[i].task;
    }
    if (name)
        bind_fail(b, WEFT_EUNSUPPORTED, "architecture \"%.60s\": unsupported head", name);
    return bind_has(b, "mlm") ? WEFT_TASK_FILL : WEFT_TASK_EMBED;
}

/* ... for the labels that the file names. */
static weight bind_labels_of(bind *b, const char *stem)
{
    b->m->n_out = bind_labels(b, stem);
    return bind_linear(b, stem, b->m->n_out, b->m->d_model, WITH_BIAS);
}

static void bert_bind_head(bind *b, const bert_kind *kind, bert *m)
{
    model *of = b->m;
    const int64_t D = of->d_model;
    of->n_out = D;
    if (of->task == WEFT_TASK_FILL) {
        m->dense = bind_linear(b, "mlm", D, D, WITH_BIAS);
        m->dense_act = m->act;
        m->dense_norm = bind_norm(b, "mlm_norm", D, true);
        m->output = bind_tied(b, "output", m->token_embd, WITH_BIAS);
        of->n_out = of->n_vocab;
        if (!bind_flag(b, NULL, "tie_word_embeddings", true))
            bind_fail(b, WEFT_EUNSUPPORTED, "tie_word_embeddings = false");
    } else if (of->task == WEFT_TASK_CLASSIFY) {
        m->dense = bind_linear(b, "cls", D, D, WITH_BIAS);
        m->dense_act = kind->cls_act;
        m->output = bind_labels_of(b, "cls.output");
        b->hf_class = "BertForSequenceClassification";
    } else if (of->task == WEFT_TASK_TAG) {
        m->output = bind_labels_of(b, "tag.output");
    } else if (of->task == WEFT_TASK_ANSWER) {
        of->n_out = 2;
        m->output = bind_linear(b, "qa.output", 2, D, WITH_BIAS);
    }
    if (of->task != WEFT_TASK_EMBED && of->task != WEFT_TASK_CLASSIFY)
        bind_not_convertible(b, "this head");
}

static void bert_bind_layer(bind *b, bert_layer *w)
{
    const int64_t D = b->m->d_model, F = b->m->d_ff;
    w->q = bind_linear(b, "attn_q", D, D, WITH_BIAS);
    w->k = bind_linear(b, "attn_k", D, D, WITH_BIAS);
    w->v = bind_linear(b, "attn_v", D, D, WITH_BIAS);
    w->o = bind_linear(b, "attn_output", D, D, WITH_BIAS);
    w->attn_output_norm = bind_norm(b, "attn_output_norm", D, true);
    w->up = bind_linear(b, "ffn_up", F, D, WITH_BIAS);
    w->down = bind_linear(b, "ffn_down", D, F, WITH_BIAS);
    w->layer_output_norm = bind_norm(b, "layer_output_norm", D, true);
}

/* Ignores copies of shared tensors, and heads that the class was trained with but does not use. */
static void ignore_leftovers(bind *b)
{
    static const char *const tails[] = {
        "embeddings.position_ids",
        "pooler.dense.weight",
        "pooler.dense.bias",
        "cls.seq_relationship.weight",
        "cls.seq_relationship.bias",
        "cls.predictions.decoder.weight",
        "cls.predictions.decoder.bias",
        "lm_head.decoder.weight",
        "lm_head.decoder.bias",
        "vocab_projector.weight",
    };
    for (size_t i = 0; i < sizeof tails / sizeof *tails; i++)
        bind_ignore(b, tails[i]);
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
    bert_refuse_options(b);
    of->task = bert_read_task(b);
    of->pool = bind_pooling(b);
    m->layer = bind_alloc(b, of->n_layer, sizeof *m->layer);
    m->eps = (real)bind_epsilon(b, "attention.layer_norm_epsilon", "layer_norm_eps", 1e-12);
    m->act = bind_act(b, kind->act, ACT_GELU);
    m->attn = (attn){ ATTN_FULL,  of->n_head, of->n_head,
                      of->d_head, of->d_head, 1 / sqrt((real)of->d_head),
                      0,          { 0 } };

    m->token_embd = bind_table(b, "token_embd", of->n_vocab, of->d_model);
    m->position_embd = bind_table(b, "position_embd", m->first_position + of->n_ctx, of->d_model);
    if (of->n_type > 0)
        m->token_types = bind_table(b, "token_types", of->n_type, of->d_model);
    m->embd_norm = bind_norm(b, "token_embd_norm", of->d_model, true);
    for (b->layer = 0; b->layer < of->n_layer && b->status == WEFT_OK; b->layer++)
        bert_bind_layer(b, &m->layer[b->layer]);
    b->layer = -1;
    bert_bind_head(b, kind, m);
    ignore_leftovers(b);
    return m;
}

const family bert_family = {
    .name = "bert", .bind = bind_bert, .body = bert_body, .end = bert_end, .states = bert_states
};
