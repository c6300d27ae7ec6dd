/* init_model.c - designs a new model from a preset, writes its config.json and draws its weights. */
#include "train/init_model.h"

#include "base/rng.h"
#include "base/save.h"
#include "base/utf8.h"
#include "formats/safetensors_write.h"
#include "text/hash.h"

#include <stdio.h>
#include <string.h>

/* ---- configurations --------------------------------------------------------------------------- */

static void config_llama(buffer *b, const init_model_shape *s)
{
    buffer_format(b,
                  "  \"num_hidden_layers\": %lld,\n  \"hidden_size\": %lld,\n"
                  "  \"num_attention_heads\": %lld,\n  \"num_key_value_heads\": %lld,\n"
                  "  \"intermediate_size\": %lld,\n  \"max_position_embeddings\": %lld,\n"
                  "  \"hidden_act\": \"silu\",\n  \"rms_norm_eps\": 1e-05,\n"
                  "  \"rope_theta\": 10000.0,\n",
                  (long long)s->n_layer, (long long)s->d_model, (long long)s->n_head,
                  (long long)s->n_head_kv, (long long)s->d_ff, (long long)s->n_ctx);
}

/* A first dense layer, then layers of eight experts, of which each row uses two, and one shared
 * expert. */
static void config_deepseek(buffer *b, const init_model_shape *s)
{
    const int64_t E = s->d_model / s->n_head, F = s->d_ff / 3 > 0 ? s->d_ff / 3 : 1;
    const bool v3 = strcmp(s->arch, "deepseek_v3") == 0;
    design_heads latent;
    design_latent(&latent, E);
    buffer_format(b,
                  "  \"num_hidden_layers\": %lld,\n  \"hidden_size\": %lld,\n"
                  "  \"num_attention_heads\": %lld,\n  \"num_key_value_heads\": %lld,\n"
                  "  \"intermediate_size\": %lld,\n  \"max_position_embeddings\": %lld,\n"
                  "  \"hidden_act\": \"silu\",\n  \"rms_norm_eps\": 1e-06,\n"
                  "  \"rope_theta\": 10000.0,\n",
                  (long long)s->n_layer, (long long)s->d_model, (long long)s->n_head,
                  (long long)s->n_head, (long long)s->d_ff, (long long)s->n_ctx);
    buffer_format(b,
                  "  \"q_lora_rank\": null,\n  \"kv_lora_rank\": %lld,\n"
                  "  \"qk_nope_head_dim\": %lld,\n  \"qk_rope_head_dim\": %lld,\n"
                  "  \"v_head_dim\": %lld,\n  \"first_k_dense_replace\": 1,\n"
                  "  \"n_routed_experts\": 8,\n  \"num_experts_per_tok\": 2,\n"
                  "  \"n_shared_experts\": 1,\n  \"moe_intermediate_size\": %lld,\n"
                  "  \"routed_scaling_factor\": 1.0,\n  \"norm_topk_prob\": %s,\n%s",
                  (long long)latent.d_latent, (long long)E, (long long)latent.d_shared,
                  (long long)E, (long long)F, v3 ? "true" : "false",
                  v3 ? "  \"n_group\": 1,\n  \"topk_group\": 1,\n"
                       "  \"num_nextn_predict_layers\": 0,\n"
                     : "  \"topk_method\": \"greedy\",\n");
}

/* GPT-2, and with keys of weft's own a decoder. */
static void config_gpt2(buffer *b, const init_model_shape *s)
{
    buffer_format(b,
                  "  \"n_layer\": %lld,\n  \"n_embd\": %lld,\n  \"n_head\": %lld,\n"
                  "  \"n_inner\": %lld,\n  \"n_positions\": %lld,\n"
                  "  \"layer_norm_epsilon\": 1e-05,\n",
                  (long long)s->n_layer, (long long)s->d_model, (long long)s->n_head,
                  (long long)s->d_ff, (long long)s->n_ctx);
    design_config(b, &s->design);
    if (s->heads.d_latent > 0)
        buffer_format(b, "  \"kv_lora_rank\": %lld,\n  \"qk_rope_head_dim\": %lld,\n",
                      (long long)s->heads.d_latent, (long long)s->heads.d_shared);
    else if (s->n_head_kv != s->n_head)
        buffer_format(b, "  \"num_key_value_heads\": %lld,\n", (long long)s->n_head_kv);
}

/* Encoder and decoder have the same shape. */
static void config_t5(buffer *b, const init_model_shape *s)
{
    buffer_format(b,
                  "  \"num_layers\": %lld,\n  \"num_decoder_layers\": %lld,\n"
                  "  \"d_model\": %lld,\n  \"num_heads\": %lld,\n  \"d_kv\": %lld,\n"
                  "  \"d_ff\": %lld,\n  \"n_positions\": %lld,\n"
                  "  \"feed_forward_proj\": \"relu\",\n  \"layer_norm_epsilon\": 1e-06,\n"
                  "  \"relative_attention_num_buckets\": 32,\n"
                  "  \"relative_attention_max_distance\": 128,\n",
                  (long long)s->n_layer, (long long)s->n_layer, (long long)s->d_model,
                  (long long)s->n_head, (long long)(s->d_model / s->n_head), (long long)s->d_ff,
                  (long long)s->n_ctx);
}

static void config_transformer(buffer *b, const init_model_shape *s)
{
    for (int i = 0; i < 2; i++) {
        const char *part = i ? "decoder" : "encoder";
        buffer_format(b,
                      "  \"%s_layers\": %lld,\n  \"%s_attention_heads\": %lld,\n"
                      "  \"%s_ffn_dim\": %lld,\n",
                      part, (long long)s->n_layer, part, (long long)s->n_head, part,
                      (long long)s->d_ff);
    }
    buffer_format(b,
                  "  \"d_model\": %lld,\n  \"max_position_embeddings\": %lld,\n"
                  "  \"activation_function\": \"%s\",\n  \"scale_embedding\": %s,\n",
                  (long long)s->d_model, (long long)s->n_ctx,
                  strcmp(s->arch, "bart") == 0 ? "gelu" : "relu",
                  strcmp(s->arch, "bart") == 0 ? "false" : "true");
}

static void config_bahdanau(buffer *b, const init_model_shape *s)
{
    buffer_format(b,
                  "  \"hidden_size\": %lld,\n  \"attention_size\": %lld,\n"
                  "  \"max_position_embeddings\": %lld,\n",
                  (long long)s->d_model, (long long)s->d_model, (long long)s->n_ctx);
}

/* "0": "cat", or "cat": 0 */
static void put_label(buffer *b, const char *name, int64_t i, bool by_id)
{
    buffer_text(b, i ? ", " : " ");
    if (by_id)
        buffer_format(b, "\"%lld\": ", (long long)i);
    buffer_quote(b, name, strlen(name));
    if (!by_id)
        buffer_format(b, ": %lld", (long long)i);
}

void init_model_labels(buffer *b, const char *const *label, int64_t n)
{
    for (int by_id = 1; by_id >= 0; by_id--) {
        buffer_text(b, by_id ? "  \"id2label\": {" : "  \"label2id\": {");
        for (int64_t i = 0; i < n; i++)
            put_label(b, label[i], i, by_id);
        buffer_text(b, " },\n");
    }
}

static void config_bert(buffer *b, const init_model_shape *s)
{
    buffer_format(b,
                  "  \"num_hidden_layers\": %lld,\n  \"hidden_size\": %lld,\n"
                  "  \"num_attention_heads\": %lld,\n  \"intermediate_size\": %lld,\n"
                  "  \"max_position_embeddings\": %lld,\n  \"type_vocab_size\": 2,\n"
                  "  \"hidden_act\": \"gelu\",\n  \"layer_norm_eps\": 1e-12,\n"
                  "  \"pad_token_id\": 0,\n",
                  (long long)s->n_layer, (long long)s->d_model, (long long)s->n_head,
                  (long long)s->d_ff, (long long)s->n_ctx);
}

static void config_vit(buffer *b, const init_model_shape *s)
{
    const image_shape *i = &s->image;
    buffer_format(b,
                  "  \"num_hidden_layers\": %lld,\n  \"hidden_size\": %lld,\n"
                  "  \"num_attention_heads\": %lld,\n  \"intermediate_size\": %lld,\n"
                  "  \"image_size\": [%lld, %lld],\n  \"patch_size\": %lld,\n"
                  "  \"num_channels\": %lld,\n  \"hidden_act\": \"gelu\",\n"
                  "  \"layer_norm_eps\": 1e-06,\n  \"qkv_bias\": true\n}\n",
                  (long long)s->n_layer, (long long)s->d_model, (long long)s->n_head,
                  (long long)s->d_ff, (long long)i->height, (long long)i->width,
                  (long long)i->patch, (long long)i->channels);
}

static const char *const end[] = { END_OF_TEXT, NULL };
static const char *const mask[] = { END_OF_TEXT, "<mask>", NULL };
static const char *const frame[] = { "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", NULL };

/* Sentinels for the spans of a text of up to 512 tokens, which has 26. */
#define FOUR(a, b, c, d)                                                                           \
    "<extra_id_" #a ">", "<extra_id_" #b ">", "<extra_id_" #c ">", "<extra_id_" #d ">"
static const char *const sentinels[] = { END_OF_TEXT,          FOUR(0, 1, 2, 3),
                                         FOUR(4, 5, 6, 7),     FOUR(8, 9, 10, 11),
                                         FOUR(12, 13, 14, 15), FOUR(16, 17, 18, 19),
                                         FOUR(20, 21, 22, 23), FOUR(24, 25, 26, 27),
                                         FOUR(28, 29, 30, 31), NULL };

/* How to write the config.json of an architecture, and which special tokens its data needs. */
static const struct maker {
    const char *arch;
    void (*config)(buffer *b, const init_model_shape *s);
    bool tied, encodes;
    const char *const *special; /* ends with NULL; NULL: no tokens */

    /* Encoders: the class of transformers for each task. NULL: use the table's. */
    const char *fills, *classifies;
} makers[] = {
    { "llama", config_llama, false, false, end, NULL, NULL },
    { "gpt2", config_gpt2, true, false, end, NULL, NULL },
    { "decoder", config_gpt2, true, false, end, NULL, NULL },
    { "deepseek_v2", config_deepseek, false, false, end, NULL, NULL },
    { "deepseek_v3", config_deepseek, false, false, end, NULL, NULL },
    { "t5", config_t5, true, true, sentinels, NULL, NULL },
    { "bart", config_transformer, true, true, mask, NULL, NULL },
    { "marian", config_transformer, true, true, mask, NULL, NULL },
    { "transformer", config_transformer, true, true, mask, NULL, NULL },
    { "bahdanau", config_bahdanau, false, true, mask, NULL, NULL },
    { "bert", config_bert, true, false, frame, "BertForMaskedLM", "BertForSequenceClassification" },
    { "vit", config_vit, false, false, NULL, NULL, NULL },
};

static const struct maker *maker_of(const char *name)
{
    for (size_t i = 0; i < sizeof makers / sizeof *makers; i++)
        if (strcmp(makers[i].arch, name) == 0)
            return &makers[i];
    return NULL;
}

static weft_status fail_unmade(const char *name, weft_error *err)
{
    char known[256] = "";
    size_t n = 0;
    for (size_t i = 0; i < sizeof makers / sizeof *makers && n < sizeof known; i++)
        n += (size_t)snprintf(known + n, sizeof known - n, "%s%s", i ? ", " : "", makers[i].arch);
    return weft_fail(err, WEFT_EINVAL,
                     "unknown architecture \"%.40s\" for a new model; expected one of %s", name,
                     known);
}

bool init_model_has_encoder(const char *name)
{
    const struct maker *m = maker_of(name);
    return m && m->encodes;
}

weft_task init_model_task(const char *name)
{
    const struct maker *m = maker_of(name);
    return m && m->fills ? WEFT_TASK_FILL : WEFT_TASK_GENERATE;
}

bool init_model_wordpiece(const char *name)
{
    const struct maker *m = maker_of(name);
    return m && m->special == frame;
}

const char *const *init_model_special(const char *name, int *n)
{
    const struct maker *m = maker_of(name);
    const char *const *list = m && m->special ? m->special : end;
    for (*n = 0; list[*n]; ++*n)
        ;
    return list;
}

/* ---- shapes ---------------------------------------------------------------------------------- */

/* tiny is nanoGPT's recipe for CPUs, base is GPT-2 124M. */
static const struct {
    const char *name;
    init_model_shape shape;
} presets[] = {
    { "tiny", { "gpt2", 4, 128, 4, 4, 512, 64, 0, -1, -1, { 0 }, NULL, 0, { 0 }, NULL, { 0 } } },
    { "mini", { "llama", 6, 192, 6, 6, 512, 256, 0, 1, -1, { 0 }, NULL, 0, { 0 }, NULL, { 0 } } },
    { "small", { "llama", 8, 384, 8, 8, 1024, 512, 0, 1, -1, { 0 }, NULL, 0, { 0 }, NULL, { 0 } } },
    { "base",
      { "gpt2", 12, 768, 12, 12, 3072, 1024, 0, -1, -1, { 0 }, NULL, 0, { 0 }, NULL, { 0 } } },
};

const init_model_shape *init_model_preset(const char *name)
{
    for (size_t i = 0; i < sizeof presets / sizeof *presets; i++)
        if (strcmp(presets[i].name, name) == 0)
            return &presets[i].shape;
    return NULL;
}

/* Default hidden width: four times the model's. Gated ones have three matrices instead of two, so
 * they get Meta's two thirds of that, rounded to 64. */
static int64_t default_ff(const init_model_shape *s)
{
    const bool gated = strcmp(s->arch, "llama") == 0 || strncmp(s->arch, "deepseek", 8) == 0 ||
                       design_is_gated(&s->design);
    return gated ? llama_hidden_width(s->d_model, 1, 64) : 4 * s->d_model;
}

/* Positions, norms, activation and heads of a new model. Only GPT-2's definition has a choice of
 * the first three; with one that transformers' GPT-2 lacks, the model is a "decoder". */
static weft_status resolve_design(const init_model_shape *over, init_model_shape *to,
                                  weft_error *err)
{
    const bool designed = strcmp(to->arch, "gpt2") == 0 || strcmp(to->arch, "decoder") == 0;
    const bool shares = designed || strcmp(to->arch, "llama") == 0;
    to->design = over->design;
    to->heads = (design_heads){ .n_head_kv = to->n_head_kv };
    if (!designed && design_is_chosen(&over->design))
        return weft_fail(err, WEFT_EINVAL,
                         "positions, norm and activation of a %.40s are fixed; only gpt2 has a "
                         "choice",
                         to->arch);
    if (over->attention && over->n_head_kv > 0)
        return weft_fail(err, WEFT_EINVAL,
                         "attention and a number of key-value heads; expected one of them");
    if (over->attention && !shares)
        return weft_fail(err, WEFT_EINVAL,
                         "the attention of a %.40s is fixed; only gpt2 and llama have a choice",
                         to->arch);
    if (design_check(&to->design, err) != WEFT_OK)
        return err->code;
    if (over->attention && design_read_heads(over->attention, to->n_head, to->d_model / to->n_head,
                                             &to->heads, err) != WEFT_OK)
        return err->code;
    if (to->heads.d_latent > 0 && !designed)
        return weft_fail(err, WEFT_EINVAL, "a %.40s has no latents; expected gpt2 or deepseek_v2",
                         to->arch);
    to->n_head_kv = to->heads.n_head_kv;
    if (designed &&
        (design_is_own(&to->design) || to->n_head_kv != to->n_head || to->heads.d_latent > 0))
        to->arch = "decoder";
    return WEFT_OK;
}

weft_status init_model_resolve(const init_model_shape *preset, const init_model_shape *over,
                               init_model_shape *to, weft_error *err)
{
    *to = preset ? *preset : presets[0].shape;
    const bool wider = (over->arch && strcmp(over->arch, to->arch) != 0) || over->d_model > 0;
    const struct {
        const char *what;
        int64_t given, *to;
    } sizes[] = {
        { "layers", over->n_layer, &to->n_layer },     { "width", over->d_model, &to->d_model },
        { "heads", over->n_head, &to->n_head },        { "key-value heads", over->n_head_kv, NULL },
        { "hidden", over->d_ff, &to->d_ff },           { "context", over->n_ctx, &to->n_ctx },
        { "vocabulary", over->n_vocab, &to->n_vocab },
    };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        if (sizes[i].given < 0 || sizes[i].given > 1 << 24)
            return weft_fail(err, WEFT_EINVAL, "%s: %lld is out of range", sizes[i].what,
                             (long long)sizes[i].given);
        if (sizes[i].given > 0 && sizes[i].to)
            *sizes[i].to = sizes[i].given;
    }
    to->arch = over->arch ? over->arch : to->arch;
    if (!maker_of(to->arch))
        return fail_unmade(to->arch, err);
    if (strcmp(to->arch, "bahdanau") == 0 && (over->n_layer > 1 || over->n_head > 1))
        return weft_fail(err, WEFT_EINVAL, "bahdanau models have one layer and no heads");
    if (over->n_head > 0 || over->n_head_kv > 0)
        to->n_head_kv = over->n_head_kv > 0 ? over->n_head_kv : to->n_head;
    if (to->d_model % to->n_head != 0)
        return weft_fail(err, WEFT_EINVAL, "%lld heads cannot divide a width of %lld",
                         (long long)to->n_head, (long long)to->d_model);
    if (resolve_design(over, to, err) != WEFT_OK)
        return err->code;
    if ((wider || design_is_gated(&to->design)) && over->d_ff == 0)
        to->d_ff = default_ff(to);
    to->tied = over->tied >= 0 ? over->tied : to->tied;
    to->eos_id = over->eos_id;
    return WEFT_OK;
}

static const arch *arch_of(const init_model_shape *s)
{
    for (int i = 0; i < n_arch; i++)
        if (archs[i].hf && strcmp(archs[i].hf, s->arch) == 0)
            return &archs[i];
    return NULL;
}

/* An unknown architecture is left to binding, whose error lists the known ones. */
void init_model_config(buffer *b, const init_model_shape *s)
{
    const arch *a = arch_of(s);
    const struct maker *m = maker_of(s->arch);
    const bool tied = s->tied < 0 ? m && m->tied : s->tied;
    const char *name = m && m->fills ? s->n_label > 0 ? m->classifies : m->fills
                       : a           ? a->hf_class
                                     : "";
    buffer_format(b, "{\n  \"architectures\": [\"%s\"],\n  \"model_type\": ", name);
    buffer_quote(b, s->arch, strlen(s->arch));
    buffer_text(b, ",\n  \"dtype\": \"float32\",\n");
    if (s->n_label > 0)
        init_model_labels(b, s->label, s->n_label);
    (m ? m->config : config_llama)(b, s);
    if (m && !m->special)
        return;
    if (s->eos_id >= 0)
        buffer_format(b, "  \"bos_token_id\": %d,\n  \"eos_token_id\": %d,\n", (int)s->eos_id,
                      (int)s->eos_id);
    if (m && m->encodes) /* a decoder starts from the end-of-text token */
        buffer_format(b,
                      "  \"is_encoder_decoder\": true,\n  \"decoder_start_token_id\": %d,\n"
                      "  \"pad_token_id\": %d,\n",
                      s->eos_id < 0 ? 0 : (int)s->eos_id, s->eos_id < 0 ? 0 : (int)s->eos_id);
    buffer_format(b, "  \"tie_word_embeddings\": %s,\n  \"vocab_size\": %lld\n}\n",
                  tied ? "true" : "false", (long long)s->n_vocab);
}

void init_model_preprocessor(buffer *b, const image_shape *s)
{
    const char *half = s->channels == 1 ? "[0.5]" : "[0.5, 0.5, 0.5]";
    buffer_format(b,
                  "{\n  \"image_processor_type\": \"ViTImageProcessor\",\n"
                  "  \"do_resize\": true,\n  \"size\": { \"height\": %lld, \"width\": %lld },\n"
                  "  \"resample\": 2,\n  \"do_rescale\": true,\n"
                  "  \"rescale_factor\": 0.00392156862745098,\n  \"do_normalize\": true,\n"
                  "  \"image_mean\": %s,\n  \"image_std\": %s\n}\n",
                  (long long)s->height, (long long)s->width, half, half);
}

/* ---- numbers --------------------------------------------------------------------------------- */

#define DEVIATION 0.02

/* A recurrence has no norm to compensate for small weights. As in PyTorch, its weights are large
 * enough that a sum over inputs of magnitude 1 keeps that magnitude. */
static double deviation(const model *m, const tensor *w)
{
    return m->arch->family == &bahdanau_family ? 1 / sqrt(3 * (double)cols(w)) : DEVIATION;
}

double init_model_value(const model *m, const tensor *w, uint64_t seed, int64_t r, int64_t c)
{
    if (w->n_dim == 1)
        return text_ends_with(w->name, ".bias") ? 0 : 1;
    const struct maker *made = maker_of(m->arch->hf);
    const bool residual = !(made && made->fills) &&
                          (text_ends_with(w->name, ".attn_output.weight") ||
                           text_ends_with(w->name, "attn_o.weight") ||
                           text_ends_with(w->name, ".ffn_down.weight"));
    const double scale = residual ? 1 / sqrt(2 * (double)m->n_layer) : 1;
    const uint64_t of = hash_bytes(w->name, strlen(w->name));
    return deviation(m, w) * scale * rng_normal(seed, of, (uint64_t)(r * cols(w) + c));
}

/* ---- the directory --------------------------------------------------------------------------- */

/* The source of the initial weights. */
typedef struct numbers {
    const model *m;    /* the new model, */
    const model *base; /* the base model, which provides some weights; or NULL */
    const init_model_source *from;
    int64_t n_since; /* values since the last call of waiting() */
} numbers;

/* Drawing a normal value takes about 50 ns, so this calls waiting() every few milliseconds. */
#define ASK_EVERY (1 << 17)

static bool may_continue(numbers *n, int64_t more)
{
    n->n_since += more;
    if (n->n_since < ASK_EVERY || !n->from->waiting)
        return true;
    n->n_since = 0;
    return n->from->waiting(n->from->ud);
}

static bool same_shape(const tensor *w, int n_dim, const int64_t *shape)
{
    return n_dim == w->n_dim && shape[0] == w->shape[0] && (n_dim < 2 || shape[1] == w->shape[1]);
}

/* A tensor of the base's file that its own task does not use: BERT's pooler. */
static const stored *left_over(const numbers *n, int64_t i)
{
    const tensor *w = n->m->param[i];
    const char *name = n->m->notes->origin[i].hf;
    const size_t prefix = strlen(n->m->notes->hf_prefix);
    const stored *t = container_tensor(&n->base->file, name);
    if (!t && strncmp(name, n->m->notes->hf_prefix, prefix) == 0)
        t = container_tensor(&n->base->file, name + prefix);
    return t && t->type->decode && same_shape(w, t->n_dim, t->shape) ? t : NULL;
}

/* The values of parameter i in the base, or NULL. */
static const void *known_numbers(const numbers *n, int64_t i, const dtype **type)
{
    const tensor *w = n->m->param[i];
    for (int64_t k = 0; n->base && k < n->base->n_param; k++) {
        const tensor *t = n->base->param[k];
        if (strcmp(t->name, w->name) == 0 && same_shape(w, t->n_dim, t->shape)) {
            *type = t->type;
            return t->data;
        }
    }
    const stored *t = n->base ? left_over(n, i) : NULL;
    *type = t ? t->type : NULL;
    return t ? t->data : NULL;
}

/* Value i at any alignment: files align their tensors as they like. */
static float known_number(const void *from, const dtype *type, int64_t i)
{
    real x;
    uint64_t one;
    if (type->block > 1) {
        type->decode(&x, from, i, 1);
        return (float)x;
    }
    memcpy(&one, (const char *)from + i * type->bytes, (size_t)type->bytes);
    type->decode(&x, &one, 0, 1);
    return (float)x;
}

/* Writes row by row in the order of the file, which stores some matrices transposed. False:
 * interrupted. */
static bool put_numbers(safetensors_writer *w, numbers *n, int64_t i, float *room)
{
    const tensor *t = n->m->param[i];
    const bool flip = n->m->notes->origin[i].flip;
    const float less = n->m->notes->origin[i].gain ? 1 : 0; /* see arch.hf_gain */
    const int64_t R = t->n_dim > 1 ? rows(t) : 1, C = cols(t);
    const int64_t n_row = flip ? C : R, n_col = flip ? R : C;
    const dtype *type;
    const void *known = known_numbers(n, i, &type);
    for (int64_t r = 0; r < n_row; r++) {
        if (!may_continue(n, n_col))
            return false;
        for (int64_t c = 0; c < n_col; c++) {
            const int64_t y = flip ? c : r, x = flip ? r : c;
            room[c] = (known ? known_number(known, type, y * C + x)
                             : (float)init_model_value(n->m, t, n->from->seed, y, x)) -
                      less;
        }
        safetensors_writer_data(w, room, (size_t)n_col * sizeof *room);
    }
    return true;
}

static int64_t longest_row(const model *m)
{
    int64_t n = 1;
    for (int64_t i = 0; i < m->n_param; i++)
        for (int d = 0; d < m->param[i]->n_dim; d++)
            n = m->param[i]->shape[d] > n ? m->param[i]->shape[d] : n;
    return n;
}

static void put_weights(save *to, const char *path, numbers *n, float *room)
{
    safetensors_writer w;
    const model *m = n->m;
    safetensors_writer_begin(&w, to);
    for (int64_t i = 0; i < m->n_param; i++) {
        int64_t shape[MAX_DIM];
        const int n_dim = export_shape(m, i, shape);
        if (m->notes->origin[i].follows)
            continue;
        safetensors_add(&w, m->notes->origin[i].hf, &dtype_f32, n_dim, shape);
    }
    safetensors_writer_head(&w, path);
    for (int64_t i = 0; i < m->n_param && to->status == WEFT_OK; i++)
        if (!put_numbers(&w, n, i, room))
            save_fail(to, WEFT_ESTOPPED, "%s: interrupted while writing", path);
    safetensors_writer_end(&w);
}

weft_status init_model_write(const char *directory, const char *config, size_t length,
                             const init_model_source *from, host *h, weft_error *err)
{
    model m;
    save s;
    char path[4096];
    weft_status status = model_design(&m, config, length, h, err);
    if (status != WEFT_OK)
        return status;
    if (from->check)
        status = from->check(from->ud, &m, err);
    float *room = status == WEFT_OK
                      ? mem_zalloc(&h->mem, (size_t)longest_row(&m), sizeof *room, "a row", err)
                      : NULL;
    if (!room) {
        model_close(&m);
        return err->code;
    }
    save_begin(&s, h, err);
    save_directory(&s, directory);
    if (!path_join(path, sizeof path, directory, "model.safetensors"))
        save_fail(&s, WEFT_EINVAL, "%.200s...: the path is too long", directory);
    put_weights(&s, path, &(numbers){ &m, from->base, from, 0 }, room);
    snprintf(path, sizeof path, "%.4000s/config.json", directory);
    save_file(&s, path);
    save_put(&s, config, length);
    status = save_commit(&s);
    mem_free(&h->mem, room);
    model_close(&m);
    return status;
}
