/* bert_kinds.c - the encoders of bert.c by their names in files.
 *
 * To add one that differs in names and numbers only, add a row. */
#include "models/bert_kinds.h"

#include <string.h>

/* What BERT, RoBERTa and ELECTRA call alike. */
#define EMBEDDINGS(prefix)                                                                         \
    { "token_embd", prefix "embeddings.word_embeddings" },                                         \
        { "position_embd", prefix "embeddings.position_embeddings" },                              \
        { "token_types", prefix "embeddings.token_type_embeddings" },                              \
    {                                                                                              \
        "token_embd_norm", prefix "embeddings.LayerNorm"                                           \
    }
#define ATTENTION(prefix)                                                                          \
    { "attn_q", prefix "encoder.layer.%d.attention.self.query" },                                  \
        { "attn_k", prefix "encoder.layer.%d.attention.self.key" },                                \
        { "attn_v", prefix "encoder.layer.%d.attention.self.value" },                              \
        { "attn_output", prefix "encoder.layer.%d.attention.output.dense" },                       \
    {                                                                                              \
        "attn_output_norm", prefix "encoder.layer.%d.attention.output.LayerNorm"                   \
    }
#define FEED_FORWARD(prefix)                                                                       \
    { "ffn_up", prefix "encoder.layer.%d.intermediate.dense" },                                    \
        { "ffn_down", prefix "encoder.layer.%d.output.dense" },                                    \
    {                                                                                              \
        "layer_output_norm", prefix "encoder.layer.%d.output.LayerNorm"                            \
    }
#define TAG_AND_ANSWER                                                                             \
    { "tag.output", "classifier" },                                                                \
    {                                                                                              \
        "qa.output", "qa_outputs"                                                                  \
    }

static const bind_name bert_names[] = {
    EMBEDDINGS("bert."),
    ATTENTION("bert."),
    FEED_FORWARD("bert."),
    { "mlm", "cls.predictions.transform.dense" },
    { "mlm_norm", "cls.predictions.transform.LayerNorm" },
    { "output", "cls.predictions" }, /* its bias; the matrix is the embedding */
    { "cls", "bert.pooler.dense" },
    { "cls.output", "classifier" },
    TAG_AND_ANSWER,
    { NULL, NULL },
};

static const bind_name roberta_names[] = {
    EMBEDDINGS("roberta."),
    ATTENTION("roberta."),
    FEED_FORWARD("roberta."),
    { "mlm", "lm_head.dense" },
    { "mlm_norm", "lm_head.layer_norm" },
    { "output", "lm_head" },
    { "cls", "classifier.dense" },
    { "cls.output", "classifier.out_proj" },
    TAG_AND_ANSWER,
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
    TAG_AND_ANSWER,
    { NULL, NULL },
};

static const bind_name mpnet_names[] = {
    { "token_embd", "mpnet.embeddings.word_embeddings" },
    { "position_embd", "mpnet.embeddings.position_embeddings" },
    { "token_embd_norm", "mpnet.embeddings.LayerNorm" },
    { "attn_rel_b", "mpnet.encoder.relative_attention_bias" },
    { "attn_q", "mpnet.encoder.layer.%d.attention.attn.q" },
    { "attn_k", "mpnet.encoder.layer.%d.attention.attn.k" },
    { "attn_v", "mpnet.encoder.layer.%d.attention.attn.v" },
    { "attn_output", "mpnet.encoder.layer.%d.attention.attn.o" },
    { "attn_output_norm", "mpnet.encoder.layer.%d.attention.LayerNorm" },
    FEED_FORWARD("mpnet."),
    { "mlm", "lm_head.dense" },
    { "mlm_norm", "lm_head.layer_norm" },
    { "output", "lm_head" },
    { "cls", "classifier.dense" },
    { "cls.output", "classifier.out_proj" },
    TAG_AND_ANSWER,
    { NULL, NULL },
};

static const bind_name electra_names[] = {
    EMBEDDINGS("electra."),
    { "embd_proj", "electra.embeddings_project" },
    ATTENTION("electra."),
    FEED_FORWARD("electra."),
    { "mlm", "generator_predictions.dense" },
    { "mlm_norm", "generator_predictions.LayerNorm" },
    { "output", "generator_lm_head" },
    { "cls", "classifier.dense" },
    { "cls.output", "classifier.out_proj" },
    { "detect", "discriminator_predictions.dense" },
    { "detect.output", "discriminator_predictions.dense_prediction" },
    TAG_AND_ANSWER,
    { NULL, NULL },
};

static const bind_name nomic_names[] = {
    { "token_embd", "nomic_bert.embeddings.word_embeddings" },
    { "token_types", "nomic_bert.embeddings.token_type_embeddings" },
    { "token_embd_norm", "nomic_bert.emb_ln" },
    { "attn_qkv", "nomic_bert.encoder.layers.%d.attn.Wqkv" },
    { "attn_output", "nomic_bert.encoder.layers.%d.attn.out_proj" },
    { "attn_output_norm", "nomic_bert.encoder.layers.%d.norm1" },
    { "ffn_up", "nomic_bert.encoder.layers.%d.mlp.fc11" },
    { "ffn_gate", "nomic_bert.encoder.layers.%d.mlp.fc12" },
    { "ffn_down", "nomic_bert.encoder.layers.%d.mlp.fc2" },
    { "layer_output_norm", "nomic_bert.encoder.layers.%d.norm2" },
    { "mlm", "cls.predictions.transform.dense" },
    { "mlm_norm", "cls.predictions.transform.layer_norm" },
    { "output", "cls.predictions" },
    { "cls", "nomic_bert.pooler.dense" },
    { "cls.output", "classifier" },
    TAG_AND_ANSWER,
    { NULL, NULL },
};

static const bind_name gte_names[] = {
    { "token_embd", "gte.embeddings.word_embeddings" },
    { "token_types", "gte.embeddings.token_type_embeddings" },
    { "token_embd_norm", "gte.embeddings.LayerNorm" },
    { "attn_qkv", "gte.encoder.layer.%d.attention.qkv_proj" },
    { "attn_output", "gte.encoder.layer.%d.attention.o_proj" },
    { "attn_output_norm", "gte.encoder.layer.%d.attn_ln" },
    { "ffn_up", "gte.encoder.layer.%d.mlp.up_gate_proj" },
    { "ffn_gate", "gte.encoder.layer.%d.mlp.up_gate_proj" },
    { "ffn_down", "gte.encoder.layer.%d.mlp.down_proj" },
    { "layer_output_norm", "gte.encoder.layer.%d.mlp_ln" },
    { "mlm", "lm_head.dense" },
    { "mlm_norm", "lm_head.norm" },
    { "output", "lm_head.decoder" },
    { "cls", "gte.pooler.dense" },
    { "cls.output", "classifier" },
    TAG_AND_ANSWER,
    { NULL, NULL },
};

/* The keys that most have. */
#define USUAL_KEYS                                                                                 \
    .n_layer = "num_hidden_layers", .d_model = "hidden_size", .n_head = "num_attention_heads",     \
    .d_ff = "intermediate_size", .n_ctx = "max_position_embeddings", .eps = "layer_norm_eps",      \
    .act = "hidden_act"

/* Where two rows have one name, their keys tell them apart. */
static const bert_kind kinds[] = {
    { .hf = "bert",
      .names = bert_names,
      .prefix = "bert.",
      USUAL_KEYS,
      .default_act = ACT_GELU,
      .cls_act = ACT_TANH,
      .classifier = "BertForSequenceClassification" },
    { .hf = "roberta",
      .names = roberta_names,
      .prefix = "roberta.",
      USUAL_KEYS,
      .first_position = -1,
      .fills_by_gelu = true,
      .default_act = ACT_GELU,
      .cls_act = ACT_TANH },
    { .hf = "xlm-roberta",
      .names = roberta_names,
      .prefix = "roberta.",
      USUAL_KEYS,
      .first_position = -1,
      .fills_by_gelu = true,
      .default_act = ACT_GELU,
      .cls_act = ACT_TANH },
    { .hf = "camembert",
      .names = roberta_names,
      .prefix = "roberta.",
      USUAL_KEYS,
      .first_position = -1,
      .fills_by_gelu = true,
      .default_act = ACT_GELU,
      .cls_act = ACT_TANH },
    { .hf = "distilbert",
      .names = distilbert_names,
      .prefix = "distilbert.",
      .n_layer = "n_layers",
      .d_model = "dim",
      .n_head = "n_heads",
      .d_ff = "hidden_dim",
      .n_ctx = "max_position_embeddings",
      .eps = "layer_norm_eps",
      .act = "activation",
      .default_act = ACT_GELU,
      .cls_act = ACT_RELU },
    { .hf = "mpnet", /* whatever its padding id, as in transformers */
      .names = mpnet_names,
      .prefix = "mpnet.",
      USUAL_KEYS,
      .first_position = 2,
      .n_bucket = 32,
      .fills_by_gelu = true,
      .default_act = ACT_GELU,
      .cls_act = ACT_TANH },
    { .hf = "electra",
      .names = electra_names,
      .prefix = "electra.",
      USUAL_KEYS,
      .d_embd = "embedding_size",
      .detects = true,
      .fills_by_gelu = true,
      .default_act = ACT_GELU,
      .cls_act = ACT_GELU },
    { .hf = "nomic_bert",
      .names = nomic_names,
      .prefix = "nomic_bert.",
      USUAL_KEYS,
      .theta = 1000,
      .fused = true,
      .gated = true,
      .no_bias = true,
      .default_act = ACT_SILU,
      .cls_act = ACT_TANH },
    { .hf = "nomic_bert", /* as its authors wrote it, with GPT-2's keys */
      .names = nomic_names,
      .prefix = "nomic_bert.",
      .n_layer = "n_layer",
      .d_model = "n_embd",
      .n_head = "n_head",
      .d_ff = "n_inner",
      .n_ctx = "n_positions",
      .eps = "layer_norm_epsilon",
      .theta_key = "rotary_emb_base",
      .theta = 1000,
      .fused = true,
      .gated = true,
      .no_bias = true,
      .default_act = ACT_SILU,
      .cls_act = ACT_TANH },
    { .hf = "gte",
      .names = gte_names,
      .prefix = "gte.",
      USUAL_KEYS,
      .theta = 160000,
      .fused = true,
      .gated = true,
      .fills_by_gelu = true,
      .default_act = ACT_GELU,
      .cls_act = ACT_TANH },
};

const bert_kind *bert_kind_of(const bind *b)
{
    const bert_kind *found = NULL;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        const bert_kind *kind = &kinds[i];
        if (strcmp(kind->hf, b->m->arch->hf) != 0)
            continue;
        if (!found || (!b->gguf_keys && !container_meta(b->m->config, found->n_layer) &&
                       container_meta(b->m->config, kind->n_layer)))
            found = kind;
    }
    return found ? found : &kinds[0];
}
