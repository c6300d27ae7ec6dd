/* Every named intermediate of small random models equals what Hugging Face transformers computes
 * (tools/golden.py): max|a-b| <= 1e-5 max|b|, tensor by tensor; the first divergence is reported by
 * name. The same from the directory that transformers wrote and from the GGUF file that it is
 * converted into. */
#include "golden.h"
#include "models/convert.h"
#include "support.h"

#include <sys/stat.h>
#include <unistd.h>

#define TOLERANCE 1e-5

#define MAX_ROW 64

/* One sequence without a cache. */
typedef struct text {
    batch_row row[MAX_ROW];
    sequence seq;
    batch batch;
} text;

static void text_init(text *t, const stored *ids, const stored *types)
{
    const int32_t n = (int32_t)ids->shape[0];
    assert_true(n <= MAX_ROW);
    t->seq = (sequence){ .n = n, .source = -1 };
    t->batch = (batch){ .n_row = n, .n_seq = 1, .row = t->row, .seq = &t->seq };
    for (int32_t i = 0; i < n; i++)
        t->row[i] = (batch_row){ .id = ((const int32_t *)ids->data)[i],
                                 .pos = i,
                                 .type = types ? ((const int32_t *)types->data)[i] : 0 };
}

/* The end of the model takes any residual stream: the last one, twice, and the stream after half
 * the layers. */
static void end_of_streams(const model *m, const batch *b, const kernels *kern)
{
    weft_error err = { 0 };
    const family *f = m->arch->family;
    model half = *m; /* never closed */
    half.n_layer = (m->n_layer + 1) / 2;
    run r[2];
    assert_int_equal(run_init_dry(&r[0], &m->host->mem, (int)(m->n_layer + m->n_layer_src), &err),
                     WEFT_OK);
    for (int real_run = 0; real_run < 2; real_run++) {
        run *to = &r[real_run];
        if (real_run)
            assert_int_equal(run_init(to, &m->host->mem, r[0].meta.peak, r[0].data.peak,
                                      r[0].scratch_peak, &err),
                             WEFT_OK);
        to->kern = kern;
        run_begin(to, b);
        tensor *x = f->body(to, m);
        const tensor *once = f->end(to, m, x), *again = f->end(to, m, x);
        assert_string_equal(once->name, again->name);
        if (real_run)
            assert_memory_equal(once->data, again->data,
                                (size_t)(rows(once) * cols(once)) * sizeof(real));
        run_begin(to, b);
        tensor *early = f->body(to, &half);
        const tensor *lens = f->end(to, m, early);
        assert_int_equal(cols(lens), m->n_out);
        for (int64_t i = 0; real_run && i < rows(lens); i++)
            assert_true(isfinite(row(lens, i)[0]));
    }
    run_free(&r[1]);
    run_free(&r[0]);
}

/* All positions are wanted, or only the first if a text has one label. An encoder-decoder also has
 * a source. */
static void forward_all(const model *m, const golden *g, const kernels *kern, run *r, golden *watch)
{
    text target, source;
    text_init(&target, golden_tensor(g, "ids"), golden_tensor(g, "types"));
    batch b = target.batch;
    b.n_wanted = m->task == WEFT_TASK_CLASSIFY ? 1 : b.n_row;
    for (int32_t i = 0; i < b.n_wanted; i++)
        target.row[i].wanted = true;
    if (m->n_layer_src > 0) {
        text_init(&source, golden_tensor(g, "source"), NULL);
        b.src = &source.batch;
        target.seq.source = 0;
    }

    weft_error err = { 0 };
    run dry;
    assert_int_equal(run_init_dry(&dry, &m->host->mem, (int)(m->n_layer + m->n_layer_src), &err),
                     WEFT_OK);
    dry.show.maps = true;
    dry.n_ctx = b.n_row; /* transformers chooses by the length */
    run_begin(&dry, &b);
    model_forward(&dry, m);

    assert_int_equal(
        run_init(r, &m->host->mem, dry.meta.peak, dry.data.peak, dry.scratch_peak, &err), WEFT_OK);
    r->kern = kern;
    r->show.maps = true;
    r->n_ctx = b.n_row;
    r->trace = golden_compare;
    r->trace_ud = watch;
    run_begin(r, &b);
    model_forward(r, m);
    assert_int_equal(r->data.peak, dry.data.peak);
    assert_int_equal(r->meta.peak, dry.meta.peak);
    run_free(&dry);
    run_free(r);
    end_of_streams(m, &b, kern);
}

static void check_form(const char *name, const char *path, const char *form, host *h)
{
    char trace[256];
    model m;
    golden g;
    run r;
    weft_error err = { 0 };
    if (model_open(&m, path, WEFT_LOAD_COPY, h, &err) != WEFT_OK)
        fail_msg("%s", err.message);
    const bool v3 = m.arch->family == &deepseek_family &&
                    strcmp(m.arch->hf, "deepseek_v2") != 0; /* transformers makes these halves */
    const bool other = m.arch->family == &deepseek_family
                           ? v3
                           : strcmp(form, "gguf") == 0 && m.rope.n_rot > 0 &&
                                 m.arch->gguf_pairing == ROPE_ADJACENT && !m.arch->hf_adjacent;
    snprintf(trace, sizeof trace, "golden/%s/trace.safetensors", name);
    for (int i = 0; table_i8(i); i++) {
        char what[64];
        snprintf(what, sizeof what, "%s, %s, %s", name, form, table_i8(i)->name);
        golden_open(&g, fixture(trace), TOLERANCE);
        g.adjacent = other ? m.d_head : 0;
        g.behind = v3 ? m.rope.n_rot : 0;
        forward_all(&m, &g, table_i8(i), &r, &g);
        golden_finish(&g, what);
        golden_close(&g);
    }
    model_close(&m);
    assert_int_equal(h->mem.used, 0);
}

/* As a directory and as GGUF, under an architecture of weft's own where GGUF defines none. */
static void check(const char *name)
{
    char path[256];
    host h;
    weft_error err = { 0 };
    static convert_report report;
    host_plain(&h);
    snprintf(path, sizeof path, "golden/%s", name);
    char directory[4096]; /* fixture's result is overwritten by later calls */
    snprintf(directory, sizeof directory, "%s", fixture(path));
    check_form(name, directory, "directory", &h);
    const char *gguf = temp_path("golden.gguf");
    const convert_options o = { .force = true, .n_thread = 1 };
    if (convert_model(directory, gguf, &o, &report, &h, &err) != WEFT_OK)
        fail_msg("%s", err.message);
    check_form(name, gguf, "gguf", &h);
}

/* Products of small types round their inputs, so a model in MXFP4 or FP8 is compared as the f32 it
 * becomes: as a directory, directly as GGUF, and as GGUF from the MXFP4 or BF16 that GGUF has. */
static void check_packed(const char *name)
{
    char place[64];
    host h;
    weft_error err = { 0 };
    static convert_report report;
    host_plain(&h);
    snprintf(place, sizeof place, "golden/%s", name);
    char from[4096]; /* fixture's result lasts until its next call */
    snprintf(from, sizeof from, "%s", fixture(place));
    const char *packed = temp_path("packed.gguf");
    const struct {
        const char *from, *to, *type;
    } steps[] = { { from, temp_path("unpacked"), "f32" },
                  { from, temp_path("unpacked.gguf"), "f32" },
                  { from, packed, NULL },
                  { packed, temp_path("unpacked-2.gguf"), "f32" } };
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        const quant_target *type = steps[i].type ? quant_target_by_name(steps[i].type) : NULL;
        const bool gguf = strstr(steps[i].to, ".gguf") != NULL;
        const convert_options o = { .to = gguf ? WEFT_FORMAT_GGUF : WEFT_FORMAT_HF,
                                    .target = type,
                                    .force = true,
                                    .n_thread = 1 };
        if (convert_model(steps[i].from, steps[i].to, &o, &report, &h, &err) != WEFT_OK)
            fail_msg("%s", err.message);
        if (type)
            check_form(name, steps[i].to, gguf ? "gguf" : "directory", &h);
    }
}

static void gpt_oss_mxfp4(void **state)
{
    (void)state;
    check_packed("gpt-oss-mxfp4");
}

static void qwen3_fp8(void **state)
{
    (void)state;
    check_packed("qwen3-fp8");
}

#define GOLDEN(fn, name)                                                                           \
    static void fn(void **state)                                                                   \
    {                                                                                              \
        (void)state;                                                                               \
        check(name);                                                                               \
    }

GOLDEN(llama_gqa, "llama-gqa")
GOLDEN(llama_mqa, "llama-mqa")
GOLDEN(llama_linear, "llama-linear")
GOLDEN(llama_yarn, "llama-yarn")
GOLDEN(mistral_window, "mistral-window")
GOLDEN(qwen2, "qwen2")
GOLDEN(qwen3, "qwen3")
GOLDEN(qwen3_embed, "qwen3-embed")
GOLDEN(qwen3_rank, "qwen3-rank")
GOLDEN(gemma2, "gemma2")
GOLDEN(gemma3, "gemma3")
GOLDEN(gemma3_layers, "gemma3-layers")
GOLDEN(gemma3_text, "gemma3-text")
GOLDEN(granite, "granite")
GOLDEN(smollm3, "smollm3")
GOLDEN(olmo2, "olmo2")
GOLDEN(olmo3, "olmo3")
GOLDEN(phi3, "phi3")
GOLDEN(phi3_short, "phi3-short")
GOLDEN(phi3_long, "phi3-long")
GOLDEN(exaone4, "exaone4")
GOLDEN(glm4, "glm4")
GOLDEN(ministral3, "ministral3")
GOLDEN(qwen3_moe, "qwen3-moe")
GOLDEN(mixtral, "mixtral")
GOLDEN(gpt_oss, "gpt-oss")
GOLDEN(gpt2, "gpt2")
GOLDEN(gpt2_rope, "gpt2-rope")
GOLDEN(bert, "bert")
GOLDEN(bert_fill, "bert-fill")
GOLDEN(bert_classify, "bert-classify")
GOLDEN(bert_tag, "bert-tag")
GOLDEN(bert_answer, "bert-answer")
GOLDEN(roberta_fill, "roberta-fill")
GOLDEN(roberta_classify, "roberta-classify")
GOLDEN(roberta_tag, "roberta-tag")
GOLDEN(roberta_answer, "roberta-answer")
GOLDEN(distilbert_fill, "distilbert-fill")
GOLDEN(distilbert_classify, "distilbert-classify")
GOLDEN(distilbert_tag, "distilbert-tag")
GOLDEN(distilbert_answer, "distilbert-answer")
GOLDEN(xlm_roberta, "xlm-roberta")
GOLDEN(xlm_roberta_fill, "xlm-roberta-fill")
GOLDEN(xlm_roberta_rank, "xlm-roberta-rank")
GOLDEN(camembert_fill, "camembert-fill")
GOLDEN(mpnet, "mpnet")
GOLDEN(mpnet_fill, "mpnet-fill")
GOLDEN(mpnet_classify, "mpnet-classify")
GOLDEN(electra, "electra")
GOLDEN(electra_fill, "electra-fill")
GOLDEN(electra_detect, "electra-detect")
GOLDEN(electra_classify, "electra-classify")
GOLDEN(gte_fill, "gte-fill")
GOLDEN(gte_rank, "gte-rank")
GOLDEN(nomic, "nomic")
GOLDEN(nomic_fill, "nomic-fill")
GOLDEN(nomic_classify, "nomic-classify")
GOLDEN(bart, "bart")
GOLDEN(marian, "marian")
GOLDEN(m2m, "m2m")
GOLDEN(transformer_2017, "transformer-2017")
GOLDEN(bahdanau, "bahdanau")
GOLDEN(t5, "t5")
GOLDEN(flan_t5, "flan-t5")
GOLDEN(deepseek_v2_lite, "deepseek-v2-lite")
GOLDEN(deepseek_v2, "deepseek-v2")
GOLDEN(deepseek_v3, "deepseek-v3")
GOLDEN(deepseek_v3_dense, "deepseek-v3-dense")
GOLDEN(glm4_moe_lite, "glm4-moe-lite")

/* A golden directory with another config.json, and a modules.json if there is one. */
static const char *redressed(const char *name, const char *config, const char *modules)
{
    static char directory[4096];
    char path[8192], from[256];
    snprintf(directory, sizeof directory, "%s", temp_path(name));
    assert_int_equal(mkdir(directory, 0700), 0);
    snprintf(from, sizeof from, "golden/%s/model.safetensors", name);
    snprintf(path, sizeof path, "%s/model.safetensors", directory);
    assert_int_equal(symlink(fixture(from), path), 0);
    const char *const written[] = { config, modules };
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/%s", directory, i ? "modules.json" : "config.json");
        unlink(path);
        FILE *f = written[i] ? fopen(path, "w") : NULL;
        if (f) {
            fputs(written[i], f);
            fclose(f);
        }
    }
    return directory;
}

/* nomic as its authors wrote it: GPT-2's keys, and a base of 1000 if none is given. */
static void authors_keys(void **state)
{
    (void)state;
    host h;
    weft_error err = { 0 };
    model m;
    static const char config[] =
        "{\"model_type\": \"nomic_bert\", \"architectures\": [\"NomicBertModel\"], \"n_layer\": 2, "
        "\"n_embd\": 18, \"n_head\": 3, \"n_inner\": 25, \"n_positions\": 23, \"vocab_size\": 67, "
        "\"type_vocab_size\": 2, \"layer_norm_epsilon\": 1e-12, \"activation_function\": "
        "\"swiglu\", \"prenorm\": false, \"causal\": false, \"rotary_emb_fraction\": %s}";
    char filled[1024];
    host_plain(&h);
    snprintf(filled, sizeof filled, config, "1.0");
    check_form("nomic", redressed("nomic", filled, NULL), "directory", &h);

    snprintf(filled, sizeof filled, config, "0.5");
    FILE *f = fopen(temp_path("nomic/config.json"), "w");
    assert_non_null(f);
    fputs(filled, f);
    fclose(f);
    assert_int_equal(model_open(&m, temp_path("nomic"), WEFT_LOAD_COPY, &h, &err),
                     WEFT_EUNSUPPORTED);
    assert_non_null(strstr(err.message, "rotary_emb_fraction"));
}

/* all-mpnet-base-v2 says that it fills masks, but has no head for that; modules.json tells. */
static void lost_heads(void **state)
{
    (void)state;
    host h;
    model m;
    weft_error err = { 0 };
    static const char config[] =
        "{\"model_type\": \"mpnet\", \"architectures\": [\"MPNetForMaskedLM\"], "
        "\"num_hidden_layers\": 2, \"hidden_size\": 18, \"num_attention_heads\": 3, "
        "\"intermediate_size\": 25, \"max_position_embeddings\": 34, \"vocab_size\": 67, "
        "\"layer_norm_eps\": 1e-5}";
    host_plain(&h);
    const char *directory = redressed(
        "mpnet", config,
        "[{\"type\": \"sentence_transformers.models.Transformer\", \"path\": \"\"}]");
    check_form("mpnet", directory, "directory", &h);
    assert_int_equal(model_open(&m, directory, WEFT_LOAD_COPY, &h, &err), WEFT_OK);
    assert_int_equal(m.task, WEFT_TASK_EMBED);
    model_close(&m);

    assert_int_equal(unlink(temp_path("mpnet/modules.json")), 0);
    assert_int_equal(model_open(&m, directory, WEFT_LOAD_COPY, &h, &err), WEFT_EFORMAT);
    assert_non_null(strstr(err.message, "lm_head.dense.weight is missing"));
}

/* A golden test must be able to fail: one weight changed by a thousandth must be found, by name. */
static void planted_defect(void **state)
{
    (void)state;
    host h;
    model m;
    golden g;
    run r;
    weft_error err = { 0 };
    host_plain(&h);
    assert_int_equal(model_open(&m, fixture("golden/llama-gqa"), WEFT_LOAD_COPY, &h, &err),
                     WEFT_OK);
    for (int64_t i = 0; i < m.n_param; i++)
        if (strcmp(m.param[i]->name, "blk.1.attn_k.weight") == 0)
            ((float *)m.param[i]->data)[5] += 1e-2f;
    golden_open(&g, fixture("golden/llama-gqa/trace.safetensors"), TOLERANCE);
    forward_all(&m, &g, &kernels_scalar, &r, &g);
    assert_string_equal(g.first, "blk.1.attn_k");
    golden_close(&g);
    model_close(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST("golden: Llama with grouped heads and llama3 scaling equals transformers", llama_gqa),
        TEST("golden: Llama with one key-value head, H E != D, equals transformers", llama_mqa),
        TEST("golden: Llama with linear scaling and biases equals transformers", llama_linear),
        TEST("golden: Llama with YaRN equals transformers", llama_yarn),
        TEST("golden: Mistral with a sliding window equals transformers", mistral_window),
        TEST("golden: Qwen2 with biases equals transformers", qwen2),
        TEST("golden: Qwen3 with norms on q and k equals transformers", qwen3),
        TEST("golden: Qwen3 without a head equals transformers", qwen3_embed),
        TEST("golden: Qwen3 that scores texts by their last row equals transformers", qwen3_rank),
        TEST("golden: Gemma 2 with capped scores and logits equals transformers", gemma2),
        TEST("golden: Gemma 3 with a window and rotary positions by layer equals transformers",
             gemma3),
        TEST("golden: Gemma 3 with windows on listed layers equals transformers", gemma3_layers),
        TEST("golden: Gemma 3 without a head equals transformers", gemma3_text),
        TEST("golden: Granite with its multipliers equals transformers", granite),
        TEST("golden: SmolLM3 with layers that do not rotate equals transformers", smollm3),
        TEST("golden: OLMo 2 with norms after its branches equals transformers", olmo2),
        TEST("golden: OLMo 3 with windows and YaRN elsewhere equals transformers", olmo3),
        TEST("golden: Phi-3 with fused matrices, rotating in part, equals transformers", phi3),
        TEST("golden: Phi-3 with longrope in a short context equals transformers", phi3_short),
        TEST("golden: Phi-3 with longrope in a long context equals transformers", phi3_long),
        TEST("golden: EXAONE 4 equals transformers", exaone4),
        TEST("golden: GLM-4 equals transformers", glm4),
        TEST("golden: Ministral 3 with queries warmed by position equals transformers", ministral3),
        TEST("golden: Qwen3-MoE equals transformers", qwen3_moe),
        TEST("golden: Mixtral equals transformers", mixtral),
        TEST("golden: gpt-oss equals transformers", gpt_oss),
        TEST("golden: gpt-oss with experts in MXFP4 equals transformers", gpt_oss_mxfp4),
        TEST("golden: Qwen3 in FP8 equals transformers with the weights in BF16", qwen3_fp8),
        TEST("golden: GPT-2 equals transformers", gpt2),
        TEST("golden: GPT with fused c_attn and rotary positions equals PyTorch", gpt2_rope),
        TEST("golden: BERT without a head equals transformers", bert),
        TEST("golden: BERT for masked language modelling equals transformers", bert_fill),
        TEST("golden: BERT for text classification equals transformers", bert_classify),
        TEST("golden: BERT for token classification equals transformers", bert_tag),
        TEST("golden: BERT for question answering equals transformers", bert_answer),
        TEST("golden: RoBERTa for masked language modelling equals transformers", roberta_fill),
        TEST("golden: RoBERTa for text classification equals transformers", roberta_classify),
        TEST("golden: RoBERTa for token classification equals transformers", roberta_tag),
        TEST("golden: RoBERTa for question answering equals transformers", roberta_answer),
        TEST("golden: DistilBERT for masked language modelling equals transformers",
             distilbert_fill),
        TEST("golden: DistilBERT for text classification equals transformers", distilbert_classify),
        TEST("golden: DistilBERT for token classification equals transformers", distilbert_tag),
        TEST("golden: DistilBERT for question answering equals transformers", distilbert_answer),
        TEST("golden: XLM-R without a head equals transformers", xlm_roberta),
        TEST("golden: XLM-R for masked language modelling equals transformers", xlm_roberta_fill),
        TEST("golden: XLM-R that scores pairs equals transformers", xlm_roberta_rank),
        TEST("golden: CamemBERT for masked language modelling equals transformers", camembert_fill),
        TEST("golden: MPNet without a head, with relative positions, equals transformers", mpnet),
        TEST("golden: MPNet for masked language modelling equals transformers", mpnet_fill),
        TEST("golden: MPNet for text classification equals transformers", mpnet_classify),
        TEST("golden: ELECTRA without a head, with narrow embeddings, equals transformers",
             electra),
        TEST("golden: ELECTRA's generator equals transformers", electra_fill),
        TEST("golden: ELECTRA's discriminator equals transformers", electra_detect),
        TEST("golden: ELECTRA for text classification equals transformers", electra_classify),
        TEST("golden: GTE for masked language modelling equals transformers", gte_fill),
        TEST("golden: GTE that scores pairs equals transformers", gte_rank),
        TEST("golden: nomic without a head, with rotary positions and gates, equals transformers",
             nomic),
        TEST("golden: nomic for masked language modelling equals transformers", nomic_fill),
        TEST("golden: nomic for text classification equals transformers", nomic_classify),
        TEST("golden: Bahdanau's recurrence with additive attention equals PyTorch", bahdanau),
        TEST("golden: BART equals transformers", bart),
        TEST("golden: Marian equals transformers", marian),
        TEST("golden: M2M-100 equals transformers", m2m),
        TEST("golden: the Transformer of 2017 equals torch.nn.Transformer", transformer_2017),
        TEST("golden: T5 equals transformers", t5),
        TEST("golden: Flan-T5 equals transformers", flan_t5),
        TEST("golden: DeepSeek-V2 without a query latent equals transformers", deepseek_v2_lite),
        TEST("golden: DeepSeek-V2 with expert groups and YaRN equals transformers", deepseek_v2),
        TEST("golden: DeepSeek-V3 with sigmoids, groups and a bias equals transformers",
             deepseek_v3),
        TEST("golden: DeepSeek-V3 without experts equals transformers", deepseek_v3_dense),
        TEST("golden: GLM-4.7-Flash equals transformers", glm4_moe_lite),
        TEST("golden: nomic with its authors' keys equals transformers", authors_keys),
        TEST("golden: a model that lost its head embeds, if modules.json says so", lost_heads),
        TEST("golden: a planted defect is found and named", planted_defect),
    };
    return RUN(tests);
}
