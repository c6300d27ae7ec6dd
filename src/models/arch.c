/* arch.c - the table of architectures, and opening a model: find its row, bind its weights.
 *
 * To add a model of a known family, add a row. */
#include "models/arch.h"

#include "formats/kept.h"
#include "models/bind.h"
#include "models/pack.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

/* Names that other architectures of the family use for other norms. */
static const bind_name names_around[] = {
    { "post_attention_norm", "model.layers.%d.post_attention_layernorm" },
    { "ffn_norm", "model.layers.%d.pre_feedforward_layernorm" },
    { "post_ffw_norm", "model.layers.%d.post_feedforward_layernorm" },
    { NULL, NULL },
};
static const bind_name names_behind[] = {
    { "post_attention_norm", "model.layers.%d.post_attention_layernorm" },
    { "post_ffw_norm", "model.layers.%d.post_feedforward_layernorm" },
    { NULL, NULL },
};
static const bind_name names_mixtral[] = {
    { "ffn_gate_inp", "model.layers.%d.block_sparse_moe.gate" },
    { "ffn_gate_exps", "model.layers.%d.block_sparse_moe.experts.%e.w1" },
    { "ffn_up_exps", "model.layers.%d.block_sparse_moe.experts.%e.w3" },
    { "ffn_down_exps", "model.layers.%d.block_sparse_moe.experts.%e.w2" },
    { NULL, NULL },
};
static const bind_name names_gpt_oss[] = {
    { "post_attention_norm", "model.layers.%d.post_attention_layernorm" },
    { "ffn_gate_inp", "model.layers.%d.mlp.router" },
    { "ffn_gate_exps", "model.layers.%d.mlp.experts.gate_up_proj~" },
    { "ffn_up_exps", "model.layers.%d.mlp.experts.gate_up_proj~" },
    { "ffn_down_exps", "model.layers.%d.mlp.experts.down_proj~" },
    { NULL, NULL },
};
static const bind_name names_fused[] = {
    { "ffn_up", "model.layers.%d.mlp.gate_up_proj" },
    { NULL, NULL },
};
static const bind_name names_glm4[] = {
    { "ffn_up", "model.layers.%d.mlp.gate_up_proj" },
    { "post_attention_norm", "model.layers.%d.post_self_attn_layernorm" },
    { "post_ffw_norm", "model.layers.%d.post_mlp_layernorm" },
    { NULL, NULL },
};

const arch archs[] = {
    { .gguf = "llama",
      .hf = "llama",
      .hf_class = "LlamaForCausalLM",
      .family = &llama_family,
      .gguf_pairing = ROPE_ADJACENT },
    { .gguf = "llama",
      .hf = "mistral",
      .hf_class = "MistralForCausalLM",
      .family = &llama_family,
      .gguf_pairing = ROPE_ADJACENT,
      .hf_window = true },
    { .gguf = "qwen2",
      .hf = "qwen2",
      .hf_class = "Qwen2ForCausalLM",
      .family = &llama_family,
      .gguf_pairing = ROPE_HALVES,
      .hf_qkv_bias = true },
    { .gguf = "qwen3",
      .hf = "qwen3",
      .hf_class = "Qwen3ForCausalLM",
      .family = &llama_family,
      .gguf_pairing = ROPE_HALVES },
    { .gguf = "llama",
      .hf = "mixtral",
      .hf_class = "MixtralForCausalLM",
      .family = &llama_family,
      .gguf_pairing = ROPE_ADJACENT,
      .hf_window = true,
      .hf_names = names_mixtral,
      .hf_experts = "num_local_experts" },
    { .gguf = "qwen3moe",
      .hf = "qwen3_moe",
      .hf_class = "Qwen3MoeForCausalLM",
      .family = &llama_family,
      .gguf_pairing = ROPE_HALVES,
      .hf_experts = "num_experts",
      .hf_norm_flag = true },
    { .gguf = "gpt-oss",
      .hf = "gpt_oss",
      .hf_class = "GptOssForCausalLM",
      .family = &llama_family,
      .gguf_pairing = ROPE_HALVES,
      .hf_window = true,
      .hf_qkv_bias = true,
      .hf_o_bias = true,
      .hf_names = names_gpt_oss,
      .hf_default = { 64, 8, 64, 131072, 150000 },
      .hf_experts = "num_local_experts",
      .expert_act = EXPERT_LIMITED,
      .woven_experts = true,
      .sinks = true,
      .ffn_norm = "post_attention_norm",
      .window_period = 2,
      .even_ramp = true },
    { .gguf = "gemma2",
      .hf = "gemma2",
      .hf_class = "Gemma2ForCausalLM",
      .family = &llama_family,
      .gguf_pairing = ROPE_HALVES,
      .hf_window = true,
      .hf_tied = true,
      .hf_gain = true,
      .hf_names = names_around,
      .norms = NORM_AROUND,
      .root_embd = true,
      .caps = true,
      .hf_act = "hidden_activation",
      .act = ACT_GELU_TANH,
      .hf_scalar = "query_pre_attn_scalar",
      .scalar_layers = 46,
      .window_period = 2 },
    { .gguf = "gemma3",
      .hf = "gemma3_text",
      .hf_class = "Gemma3ForCausalLM",
      .family = &llama_family,
      .gguf_pairing = ROPE_HALVES,
      .hf_window = true,
      .hf_tied = true,
      .hf_gain = true,
      .hf_names = names_around,
      .hf_default = { 8, 4, 256, 131072, 1e6 },
      .norms = NORM_AROUND,
      .root_embd = true,
      .caps = true,
      .hf_act = "hidden_activation",
      .act = ACT_GELU_TANH,
      .hf_scalar = "query_pre_attn_scalar",
      .scalar_layers = 62,
      .window_period = 6,
      .local_rope = true,
      .local_theta = 10000 },
    { .gguf = "granite",
      .hf = "granite",
      .hf_class = "GraniteForCausalLM",
      .family = &llama_family,
      .gguf_pairing = ROPE_ADJACENT,
      .multipliers = true },
    { .gguf = "smollm3",
      .hf = "smollm3",
      .hf_class = "SmolLM3ForCausalLM",
      .family = &llama_family,
      .gguf_pairing = ROPE_ADJACENT,
      .hf_tied = true,
      .bare_period = 4 },
    { .gguf = "olmo2",
      .hf = "olmo2",
      .hf_class = "Olmo2ForCausalLM",
      .family = &llama_family,
      .gguf_pairing = ROPE_HALVES,
      .hf_names = names_behind,
      .norms = NORM_BEHIND,
      .wide_norms = true,
      .window_period = 4,
      .local_rope = true },
    { .gguf = "olmo2",
      .hf = "olmo3",
      .hf_class = "Olmo3ForCausalLM",
      .family = &llama_family,
      .gguf_pairing = ROPE_HALVES,
      .hf_window = true,
      .hf_names = names_behind,
      .norms = NORM_BEHIND,
      .wide_norms = true,
      .window_period = 4,
      .local_rope = true },
    { .gguf = "phi3",
      .hf = "phi3",
      .hf_class = "Phi3ForCausalLM",
      .family = &llama_family,
      .gguf_pairing = ROPE_HALVES,
      .hf_window = true,
      .hf_partial = true,
      .hf_names = names_fused,
      .fused_qkv = true,
      .fused_ffn = true },
    { .gguf = "exaone4",
      .hf = "exaone4",
      .hf_class = "Exaone4ForCausalLM",
      .family = &llama_family,
      .gguf_pairing = ROPE_HALVES,
      .hf_window = true,
      .hf_names = names_behind,
      .norms = NORM_BEHIND,
      .window_period = 4,
      .window_rope = true },
    { .gguf = "glm4",
      .hf = "glm4",
      .hf_class = "Glm4ForCausalLM",
      .family = &llama_family,
      .gguf_pairing = ROPE_ADJACENT,
      .hf_bare_o = true,
      .hf_adjacent = true,
      .hf_partial = true,
      .hf_names = names_glm4,
      .norms = NORM_AROUND,
      .fused_ffn = true },
    { .gguf = "mistral3",
      .hf = "ministral3",
      .hf_class = "Ministral3ForCausalLM",
      .family = &llama_family,
      .gguf_pairing = ROPE_ADJACENT,
      .hf_window = true },
    { .gguf = "gpt2",
      .hf = "gpt2",
      .hf_class = "GPT2LMHeadModel",
      .family = &gpt2_family,
      .gguf_pairing = ROPE_HALVES },
    { .hf = "decoder",
      .hf_class = "Decoder",
      .family = &gpt2_family,
      .gguf_pairing = ROPE_HALVES,
      .designed = true },
    { .gguf = "bert",
      .hf = "bert",
      .hf_class = "BertModel",
      .family = &bert_family,
      .gguf_pairing = ROPE_HALVES },
    { .hf = "roberta", .hf_class = "RobertaModel", .family = &bert_family },
    { .hf = "xlm-roberta", .hf_class = "XLMRobertaModel", .family = &bert_family },
    { .hf = "camembert", .hf_class = "CamembertModel", .family = &bert_family },
    { .hf = "distilbert", .hf_class = "DistilBertModel", .family = &bert_family },
    { .hf = "mpnet", .hf_class = "MPNetModel", .family = &bert_family },
    { .hf = "electra", .hf_class = "ElectraModel", .family = &bert_family },
    { .hf = "gte",
      .hf_class = "GteModel",
      .family = &bert_family,
      .fused_ffn = true,
      .gguf_pairing = ROPE_HALVES },
    { .gguf = "nomic-bert",
      .hf = "nomic_bert",
      .hf_class = "NomicBertModel",
      .family = &bert_family,
      .gguf_pairing = ROPE_HALVES },
    { .hf = "vit", .hf_class = "ViTForImageClassification", .family = &vit_family },
    { .hf = "deit", .hf_class = "DeiTForImageClassification", .family = &vit_family },
    { .hf = "bart", .hf_class = "BartForConditionalGeneration", .family = &transformer_family },
    { .hf = "marian", .hf_class = "MarianMTModel", .family = &transformer_family },
    { .hf = "m2m_100",
      .hf_class = "M2M100ForConditionalGeneration",
      .family = &transformer_family },
    { .hf = "transformer", .hf_class = "Transformer", .family = &transformer_family },
    { .gguf = "t5",
      .hf = "t5",
      .hf_class = "T5ForConditionalGeneration",
      .family = &t5_family,
      .gguf_pairing = ROPE_HALVES },
    { .gguf = "deepseek2",
      .hf = "deepseek_v2",
      .hf_class = "DeepseekV2ForCausalLM",
      .family = &deepseek_family,
      .gguf_pairing = ROPE_ADJACENT },
    { .gguf = "deepseek2",
      .hf = "deepseek_v3",
      .hf_class = "DeepseekV3ForCausalLM",
      .family = &deepseek_family,
      .gguf_pairing = ROPE_ADJACENT },
    { .gguf = "deepseek2",
      .hf = "glm4_moe_lite",
      .hf_class = "Glm4MoeLiteForCausalLM",
      .family = &deepseek_family,
      .gguf_pairing = ROPE_ADJACENT },
    { .hf = "bahdanau", .hf_class = "Bahdanau", .family = &bahdanau_family },
};
const int n_arch = sizeof archs / sizeof *archs;

static const char *text_of(const model *m, const container *c, const char *key, weft_error *err)
{
    const meta *entry = container_meta(c, key);
    if (entry && entry->type == META_TEXT)
        return entry->text;
    weft_fail(err, WEFT_EFORMAT, "%s: %s is missing or not text", m->file.meta_path, key);
    return NULL;
}

/* "weft.vit": the configuration is the config.json embedded in the file, which must be of a
 * "vit". */
static weft_status read_own(model *m, const char *name, weft_error *err)
{
    bool there;
    const weft_status status = kept_config(&m->own, &m->file, text_files[TEXT_CONFIG], &there, err);
    if (status != WEFT_OK)
        return status;
    if (!there)
        return weft_fail(
            err, WEFT_EFORMAT,
            "%s: the architecture is %.60s, but the file has no embedded config.json; expected %s",
            m->file.path, name, text_keys[TEXT_CONFIG]);
    const char *kind = text_of(m, &m->own, "model_type", err);
    if (!kind)
        return err->code;
    if (strcmp(kind, name + strlen(OWN_ARCH)) != 0)
        return weft_fail(
            err, WEFT_EFORMAT,
            "%s: the architecture is %.60s, but its embedded config.json says \"%.60s\"",
            m->file.path, name, kind);
    m->config = &m->own;
    return WEFT_OK;
}

/* Is this one of the words of "llama, qwen2"? */
static bool is_one_of(const char *list, const char *word)
{
    const size_t n = strlen(word);
    for (const char *at = list; (at = strstr(at, word)); at += n)
        if ((at == list || at[-1] == ' ') && (at[n] == ',' || !at[n]))
            return true;
    return false;
}

/* A model of pictures and text has the configuration of its text part inside its own. */
static const char *name_in(model *m, const char *key, weft_error *err)
{
    static const char inner[] = "text_config.model_type";
    const meta *text = container_meta(&m->file, inner);
    m->text_part = text && text->type == META_TEXT && strcmp(key, "model_type") == 0;
    return text_of(m, &m->file, m->text_part ? inner : key, err);
}

/* GGUF has one name for a Llama and a Mixtral. */
static bool has_experts(const model *m, const char *name)
{
    char key[96];
    snprintf(key, sizeof key, "%.60s.expert_count", name);
    const meta *n = container_meta(&m->file, key);
    return n && n->type == META_INT && n->integer > 0;
}

static const arch *row_of(const char *name, bool gguf, bool with_experts)
{
    const arch *found = NULL;
    for (int i = 0; i < n_arch; i++) {
        const char *is = gguf ? archs[i].gguf : archs[i].hf;
        if (is && strcmp(is, name) == 0 && (!found || (with_experts && archs[i].hf_experts)))
            found = &archs[i];
    }
    return found;
}

static weft_status find_arch(model *m, bool gguf, weft_error *err)
{
    const char *key = gguf ? "general.architecture" : "model_type";
    const char *text = name_in(m, key, err);
    if (!text)
        return err->code;
    m->config = &m->file;
    const meta *type = gguf ? container_meta(&m->file, "general.type") : NULL;
    if (type && type->type == META_TEXT && strcmp(type->text, "adapter") == 0)
        return weft_fail(err, WEFT_EUNSUPPORTED,
                         "%s: an adapter; expected a model; give the adapter's model, and this "
                         "file with --lora",
                         m->file.meta_path);
    if (gguf && kept_is_own(&m->file)) {
        const weft_status status = read_own(m, text, err);
        if (status != WEFT_OK)
            return status;
        gguf = false;
        text += strlen(OWN_ARCH);
    }
    m->arch = row_of(text, gguf, gguf && has_experts(m, text));
    m->name = m->arch && gguf ? m->arch->gguf : m->arch ? m->arch->hf : NULL;
    if (m->arch)
        return WEFT_OK;
    char known[600] = "";
    for (int i = 0; i < n_arch; i++) {
        const char *name = gguf ? archs[i].gguf : archs[i].hf;
        if (name && !is_one_of(known, name)) {
            const size_t at = strlen(known);
            snprintf(known + at, sizeof known - at, "%s%s", at ? ", " : "", name);
        }
    }
    return weft_fail(err, WEFT_EUNSUPPORTED, "%s: unsupported %s \"%.60s\"; weft supports %s",
                     m->file.meta_path, key, text, known);
}

/* Why a model is bound: to run, to be converted, or to be created. */
typedef enum bind_mode { BIND_RUN, BIND_PLAN, BIND_NEW } bind_mode;

/* Upper bound on the weights of a file: an expert of a stacked tensor counts as its own weight, and
 * so does each of q, k and v in a fused one, and each gate, up and bias of a woven one. */
static size_t most_weights(const model *m)
{
    const container *c = &m->file;
    const bool fused = m->arch->fused_qkv || m->arch->fused_ffn;
    size_t n = (fused ? 3 : 1) * (size_t)c->n_tensor;
    for (int64_t i = 0; i < c->n_tensor; i++)
        if (c->tensor[i].n_dim >= 3)
            n += (m->arch->woven_experts ? 4 : 1) *
                 (size_t)(c->tensor[i].shape[0] < MAX_EXPERT ? c->tensor[i].shape[0] : MAX_EXPERT);
    return n;
}

static weft_status bind_all(model *m, bool gguf, bind_mode mode, weft_error *err)
{
    const bool plan = mode != BIND_RUN;
    bind b = {
        .m = m, .gguf = gguf, .plan = plan, .layer = -1, .err = err, .hf_prefix = "", .prefix = ""
    };
    b.gguf_keys = gguf && m->config == &m->file;
    b.is_new = mode == BIND_NEW;
    b.most = b.is_new ? MAX_TENSOR : m->file.n_tensor;
    const size_t n = b.is_new ? (size_t)b.most : most_weights(m);
    b.used = mem_zalloc(&m->host->mem, (size_t)b.most + 1, sizeof *b.used, "binding", err);
    m->param = arena_alloc(&m->store, (n + 1) * sizeof *m->param, err);
    if (plan && (m->notes = arena_alloc(&m->store, sizeof *m->notes, err))) {
        *m->notes = (export_notes){ 0 };
        m->notes->origin = arena_alloc(&m->store, (n + 1) * sizeof *m->notes->origin, err);
    }
    if (b.used && m->param && (!plan || (m->notes && m->notes->origin))) {
        m->self = m->arch->family->bind(&b);
        for (int i = 0; b.hf_arch && i < n_arch; i++)
            if (strcmp(archs[i].hf, b.hf_arch) == 0)
                m->arch = &archs[i];
        if (m->notes) {
            m->notes->hf_prefix = b.hf_prefix;
            m->notes->hf_class = b.hf_class;
        }
        m->n_out = m->n_out ? m->n_out : m->n_vocab;
        bind_finish(&b);
    } else {
        b.status = WEFT_ENOMEM;
    }
    mem_free(&m->host->mem, b.used);
    return b.status;
}

/* llama.cpp's tests and its converter's --vocab-only write such files. */
static weft_status without_tensors(const container *c, weft_error *err)
{
    return weft_fail(
        err, WEFT_EUNSUPPORTED,
        "%s: a GGUF file with %s but no weights; expected a complete model; download the model "
        "itself%s",
        c->path, container_meta(c, "tokenizer.ggml.tokens") ? "a vocabulary" : "metadata",
        container_meta(c, "tokenizer.ggml.tokens") ? " (weft tokenize can use this)" : "");
}

static weft_status open_as(model *m, const char *path, weft_load load, bind_mode mode, host *h,
                           weft_error *err)
{
    *m = (model){ .host = h, .start = -1, .kern = kernels_select(&h->log) };
    weft_status status = container_open(&m->file, path, load, h, err);
    if (status != WEFT_OK)
        return status;
    const bool gguf = strcmp(m->file.format, "gguf") == 0;
    if (gguf && m->file.n_tensor == 0)
        status = without_tensors(&m->file, err);
    if (status == WEFT_OK)
        status = arena_init(&m->store, ARENA_GROWING, &h->mem, 0, "", err);
    if (status == WEFT_OK)
        status = find_arch(m, gguf, err);
    if (status == WEFT_OK)
        status = bind_all(m, gguf, mode, err);
    if (status == WEFT_OK && mode == BIND_RUN)
        status = pack_init(m, err);
    if (status != WEFT_OK)
        model_close(m);
    return status;
}

weft_status model_open(model *m, const char *path, weft_load load, host *h, weft_error *err)
{
    return open_as(m, path, load, BIND_RUN, h, err);
}

void model_compute_bf16(model *m)
{
    m->bf16 = true;
    for (int64_t i = 0; i < m->n_param; i++)
        m->param[i]->bf16 = m->param[i]->n_dim > 1;
}

weft_status model_plan(model *m, const char *path, weft_load load, host *h, weft_error *err)
{
    return open_as(m, path, load, BIND_PLAN, h, err);
}

weft_status model_notes_open(model *plan, const model *of, weft_error *err)
{
    *plan = (model){ .host = of->host, .start = -1, .kern = of->kern, .arch = of->arch };
    plan->name = of->name;
    plan->text_part = of->text_part;
    plan->file = of->file; /* read only: its pointers are to what the model owns */
    plan->config = of->config == &of->file ? &plan->file : of->config;
    weft_status status = arena_init(&plan->store, ARENA_GROWING, &of->host->mem, 0, "", err);
    if (status == WEFT_OK)
        status = bind_all(plan, strcmp(of->file.format, "gguf") == 0, BIND_PLAN, err);
    assert(status != WEFT_OK || plan->n_param == of->n_param);
    if (status != WEFT_OK)
        model_notes_close(plan);
    return status;
}

void model_notes_close(model *plan)
{
    arena_free(&plan->store);
    *plan = (model){ 0 };
}

weft_status model_design(model *m, const char *config, size_t length, host *h, weft_error *err)
{
    *m = (model){ .host = h, .start = -1, .kern = kernels_select(&h->log) };
    weft_status status = container_begin(&m->file, "safetensors", "config.json", h, err);
    if (status == WEFT_OK)
        status = config_parse(&m->file, (const uint8_t *)config, length, err);
    if (status == WEFT_OK)
        status = container_index(&m->file, err);
    if (status == WEFT_OK)
        status = arena_init(&m->store, ARENA_GROWING, &h->mem, 0, "", err);
    if (status == WEFT_OK)
        status = find_arch(m, false, err);
    if (status == WEFT_OK)
        status = bind_all(m, false, BIND_NEW, err);
    if (status != WEFT_OK)
        model_close(m);
    return status;
}

int export_shape(const model *m, int64_t i, int64_t *shape)
{
    const tensor *w = m->param[i];
    const param_origin *o = &m->notes->origin[i];
    const int n_dim = o->hf_dim ? o->hf_dim : w->n_dim;
    memcpy(shape, o->hf_dim ? o->hf_shape : w->shape, MAX_DIM * sizeof *shape);
    if (o->whole_rows)
        shape[0] = o->whole_rows;
    if (o->flip) {
        shape[0] = w->shape[1];
        shape[1] = w->shape[0];
    }
    return n_dim;
}

/* The output for the stream after a block. Rows that a decoder only attends to are not wanted, so
 * their blocks show nothing. */
static void look_through(run *r, const void *self, int layer, const tensor *x)
{
    const model *m = self;
    const run_place at = r->at;
    const arena_mark headers = arena_at(&r->meta), data = arena_at(&r->data);
    logits_fn *read = r->read;
    tensor end_in = *x;
    const aside was = aside_begin(r);
    snprintf(r->at.lens_name, sizeof r->at.lens_name, "lens.%d.", layer);
    r->read = NULL;
    m->arch->family->end(r, m, &end_in);
    aside_end(r, was);
    r->read = read;
    r->at = at;
    arena_reset(&r->meta, headers);
    arena_reset(&r->data, data);
}

tensor *model_body(run *r, const model *m)
{
    r->at.lens = r->show.lens ? look_through : NULL;
    r->at.lens_model = m;
    tensor *x = m->arch->family->body(r, m);
    r->at.lens = NULL;
    return x;
}

tensor *model_forward(run *r, const model *m)
{
    tensor *x = model_body(r, m);
    return m->arch->family->end(r, m, x);
}

void model_close(model *m)
{
    pack_free(m);
    arena_free(&m->store);
    container_close(&m->own);
    container_close(&m->file);
    *m = (model){ 0 };
}
