/* weft's own GGUF files: models that GGUF has no architecture or key for. In f32 they give the bits
 * of their directory; in q8_0 and q4_0 they stay close; tokenizers, labels, pooling and image
 * preprocessing survive the round trip; and invalid files are refused. */
#include "engine/encode.h"
#include "engine/session.h"
#include "formats/gguf_write.h"
#include "models/convert.h"
#include "models/image_input.h"
#include "support.h"
#include "text/sources/source.h"
#include "train/init_model.h"

#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

#define N_ROW 9

/* ---- what a model answers ---------------------------------------------------------------------- */

static void open_model(model *m, const char *path, host *h)
{
    weft_error err = { 0 };
    host_plain(h);
    if (model_open(m, path, WEFT_LOAD_MAP, h, &err) != WEFT_OK)
        fail_msg("%s", err.message);
}

/* Output of an encoder: for tokens, or for the random features of an image. */
static float *encoded(const model *m, const int32_t *tokens, int64_t *n)
{
    weft_error err = { 0 };
    const int64_t rows = m->d_feature ? m->n_ctx : N_ROW;
    real *drawn = calloc((size_t)(rows * m->d_feature + 1), sizeof *drawn);
    fill_normal(drawn, rows * m->d_feature, 3, 5, 1);
    encode_engine *e = encode_engine_new(m, &(encode_engine_options){ .n_thread = 1 }, &err);
    if (!e)
        fail_msg("%s", err.message);
    weft_input in = { .ids = m->d_feature ? NULL : tokens,
                      .features = m->d_feature ? drawn : NULL,
                      .n = rows };
    *n = encode_engine_rows(e, &in) * m->n_out;
    in.out = calloc((size_t)*n, sizeof *in.out);
    if (encode_engine_eval(e, &in, 1, &err) != WEFT_OK)
        fail_msg("%s", err.message);
    encode_engine_free(e);
    free(drawn);
    return in.out;
}

/* Logits of an encoder-decoder or a decoder, teacher-forced. */
static float *decoded(const model *m, const int32_t *tokens, int64_t *n)
{
    weft_error err = { 0 };
    engine *e = engine_new(m, &(engine_options){ .n_thread = 1, .n_ctx = 16 }, &err);
    session *s = e ? session_new(e, &err) : NULL;
    if (!s)
        fail_msg("%s", err.message);
    float *all = calloc((size_t)(N_ROW * m->n_vocab), sizeof *all);
    if (model_has_source(m))
        assert_int_equal(engine_encode(e, &(source_text){ s, tokens, N_ROW }, 1, &err), WEFT_OK);
    for (int i = 0; i < N_ROW; i++) {
        assert_int_equal(
            engine_eval(e, &(work){ .session = s, .ids = &tokens[i], .n = 1 }, 1, &err), WEFT_OK);
        memcpy(all + i * m->n_vocab, s->logits, (size_t)m->n_vocab * sizeof *all);
    }
    *n = N_ROW * m->n_vocab;
    session_free(s);
    engine_free(e);
    return all;
}

static float *answers(const char *path, int64_t *n)
{
    static const int32_t tokens[N_ROW] = { 1, 5, 3, 2, 7, 7, 30, 11, 4 };
    host h;
    model m;
    open_model(&m, path, &h);
    float *x = m.task == WEFT_TASK_GENERATE ? decoded(&m, tokens, n) : encoded(&m, tokens, n);
    model_close(&m);
    assert_int_equal(atomic_load(&h.mem.used), 0);
    return x;
}

/* Root mean square of the differences, relative to that of the values. */
static double apart(const char *a, const char *b)
{
    int64_t n, k;
    double wrong = 0, all = 0;
    float *x = answers(a, &n), *y = answers(b, &k);
    assert_int_equal(n, k);
    for (int64_t i = 0; i < n; i++) {
        wrong += ((double)x[i] - (double)y[i]) * ((double)x[i] - (double)y[i]);
        all += (double)x[i] * (double)x[i];
    }
    free(x);
    free(y);
    return sqrt(wrong / all);
}

static void same_bits(const char *a, const char *b)
{
    int64_t n, k;
    float *x = answers(a, &n), *y = answers(b, &k);
    assert_int_equal(n, k);
    if (memcmp(x, y, (size_t)n * sizeof *x) != 0)
        fail_msg("%s: not the bits of %s", b, a);
    count_assertion();
    free(x);
    free(y);
}

/* ---- converting -------------------------------------------------------------------------------- */

static void note_warning(void *ud, weft_log_level level, const char *text)
{
    if (level == WEFT_LOG_WARN)
        snprintf(ud, 512, "%s", text);
}

/* Returns the last warning. */
static const char *convert(const char *from, const char *to, const char *type, weft_format form)
{
    static char warning[512];
    static convert_report r;
    host h;
    weft_error err = { 0 };
    host_plain(&h);
    warning[0] = '\0';
    h.log = (log_sink){ note_warning, warning };
    const convert_options o = {
        .to = form, .target = type ? quant_target_by_name(type) : NULL, .force = true, .n_thread = 1
    };
    if (convert_model(from, to, &o, &r, &h, &err) != WEFT_OK)
        fail_msg("%s: %s", from, err.message);
    assert_int_equal(atomic_load(&h.mem.used), 0);
    return warning;
}

static const char *to_gguf(const char *from, const char *name, const char *type)
{
    const char *to = temp_path(name);
    convert(from, to, type, WEFT_FORMAT_GGUF);
    return to;
}

static void architecture_is(const char *path, const char *name)
{
    host h;
    container c;
    weft_error err = { 0 };
    host_plain(&h);
    assert_int_equal(container_open(&c, path, WEFT_LOAD_COPY, &h, &err), WEFT_OK);
    assert_string_equal(container_meta(&c, "general.architecture")->text, name);
    container_close(&c);
}

/* ---- golden models: the same bits -------------------------------------------------------------- */

static void bits_of_directories(void **state)
{
    (void)state;
    static const struct {
        const char *golden, *arch;
    } models[] = {
        { "vit", "weft.vit" },
        { "deit", "weft.deit" },
        { "bert-fill", "weft.bert" },
        { "bert-tag", "weft.bert" },
        { "bert-answer", "weft.bert" },
        { "bert-classify", "bert" }, /* GGUF can say it */
        { "roberta-fill", "weft.roberta" },
        { "roberta-classify", "weft.roberta" },
        { "distilbert-tag", "weft.distilbert" },
        { "distilbert-answer", "weft.distilbert" },
        { "xlm-roberta", "weft.xlm-roberta" },
        { "xlm-roberta-rank", "weft.xlm-roberta" },
        { "camembert-fill", "weft.camembert" },
        { "mpnet", "weft.mpnet" },
        { "mpnet-fill", "weft.mpnet" },
        { "mpnet-classify", "weft.mpnet" },
        { "electra", "weft.electra" },
        { "electra-fill", "weft.electra" },
        { "electra-detect", "weft.electra" },
        { "electra-classify", "weft.electra" },
        { "gte-fill", "weft.gte" },
        { "gte-rank", "weft.gte" },
        { "nomic", "nomic-bert" },
        { "nomic-fill", "weft.nomic_bert" },
        { "nomic-classify", "weft.nomic_bert" },
        { "bart", "weft.bart" },
        { "marian", "weft.marian" },
        { "m2m", "weft.m2m_100" },
        { "transformer-2017", "weft.transformer" },
        { "bahdanau", "weft.bahdanau" },
        { "t5", "t5" },
    };
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        char golden[64], target[64], back[64];
        snprintf(golden, sizeof golden, "golden/%s", models[i].golden);
        snprintf(target, sizeof target, "%s.gguf", models[i].golden);
        snprintf(back, sizeof back, "%s-back", models[i].golden);
        const char *directory = fixture(golden), *gguf = to_gguf(directory, target, NULL);
        architecture_is(gguf, models[i].arch);
        same_bits(directory, gguf);
        const char *again = temp_path(back);
        convert(gguf, again, NULL, WEFT_FORMAT_HF);
        same_bits(directory, again);
    }
}

/* ---- wide models: few bits ---------------------------------------------------------------------- */

#define ENCODER                                                                                    \
    "\"num_hidden_layers\": 2, \"hidden_size\": 64, \"num_attention_heads\": 4,"                   \
    "\"intermediate_size\": 128, \"max_position_embeddings\": 40, \"vocab_size\": 61,"             \
    "\"type_vocab_size\": 2, \"pad_token_id\": 1, \"initializer_range\": 0.3"
#define TWO_STACKS                                                                                 \
    "\"d_model\": 64, \"encoder_layers\": 2, \"encoder_attention_heads\": 4,"                      \
    "\"encoder_ffn_dim\": 128, \"decoder_layers\": 2, \"decoder_attention_heads\": 4,"             \
    "\"decoder_ffn_dim\": 128, \"max_position_embeddings\": 40, \"vocab_size\": 61,"               \
    "\"pad_token_id\": 1, \"decoder_start_token_id\": 2, \"init_std\": 0.3"
#define LABELS "\"id2label\": { \"0\": \"cat\", \"1\": \"a \\u00e9 dog\", \"2\": \"B-PER\" }"

static const struct {
    const char *name, *config;
} wide[] = {
    { "vit", "{\"model_type\": \"vit\", \"architectures\": [\"ViTForImageClassification\"], "
             "\"num_hidden_layers\": 2, \"hidden_size\": 64, \"num_attention_heads\": 4, "
             "\"intermediate_size\": 128, \"image_size\": 16, \"patch_size\": 8, "
             "\"num_channels\": 1, " LABELS "}" },
    { "roberta",
      "{\"model_type\": \"roberta\", \"architectures\": [\"RobertaForMaskedLM\"], " ENCODER "}" },
    { "distilbert",
      "{\"model_type\": \"distilbert\", \"architectures\": "
      "[\"DistilBertForMaskedLM\"], "
      "\"n_layers\": 2, \"dim\": 64, \"n_heads\": 4, \"hidden_dim\": 128, \"vocab_size\": 61, "
      "\"max_position_embeddings\": 40, " LABELS "}" },
    { "bert-mlm",
      "{\"model_type\": \"bert\", \"architectures\": [\"BertForMaskedLM\"], " ENCODER "}" },
    { "bert-ner",
      "{\"model_type\": \"bert\", \"architectures\": [\"BertForTokenClassification\"], " ENCODER
      ", " LABELS "}" },
    { "bart", "{\"model_type\": \"bart\", " TWO_STACKS "}" },
    { "marian", "{\"model_type\": \"marian\", " TWO_STACKS "}" },
    { "m2m_100", "{\"model_type\": \"m2m_100\", " TWO_STACKS "}" },
    { "transformer", "{\"model_type\": \"transformer\", " TWO_STACKS "}" },
    { "decoder", "{\"model_type\": \"decoder\", \"n_layer\": 2, \"n_embd\": 64, \"n_head\": 4, "
                 "\"n_inner\": 96, \"n_positions\": 40, \"vocab_size\": 61, "
                 "\"position_embedding_type\": \"rope\", \"norm_placement\": \"post\", "
                 "\"norm_kind\": \"rmsnorm\", \"activation_function\": \"swiglu\", "
                 "\"kv_lora_rank\": 32, \"qk_rope_head_dim\": 32}" },
    { "bahdanau", "{\"model_type\": \"bahdanau\", \"hidden_size\": 64, \"attention_size\": 32, "
                  "\"vocab_size\": 61, \"max_position_embeddings\": 40}" },
};

static const char *fresh(const char *name, const char *config)
{
    host h;
    weft_error err = { 0 };
    const char *directory = temp_path(name);
    host_plain(&h);
    if (init_model_write(directory, config, strlen(config), &(init_model_source){ .seed = 7 }, &h,
                         &err) != WEFT_OK)
        fail_msg("%s: %s", name, err.message);
    return directory;
}

static void few_bits(void **state)
{
    (void)state;
    print_message(
        "                f32       q8_0      q4_0   (error of the outputs against f32)\n");
    for (size_t i = 0; i < sizeof wide / sizeof *wide; i++) {
        char target[64];
        const char *directory = fresh(wide[i].name, wide[i].config);
        snprintf(target, sizeof target, "%s-wide.gguf", wide[i].name);
        const char *gguf = to_gguf(directory, target, "f32");
        same_bits(directory, gguf);
        const double f = apart(directory, gguf);
        const double q8 = apart(directory, to_gguf(directory, target, "q8_0"));
        const double q4 = apart(directory, to_gguf(directory, target, "q4_0"));
        print_message("%-12s  %.5f   %.5f   %.5f\n", wide[i].name, f, q8, q4);
        assert_that(q8 > 0 && q8 < 0.02, "%s: q8_0 is %g away", wide[i].name, q8);
        assert_that(q4 > q8 && q4 < 0.3, "%s: q4_0 is %g away", wide[i].name, q4);
    }
}

/* ---- what belongs to a model survives ----------------------------------------------------------- */

static void put_text(const char *directory, const char *name, const char *text)
{
    char path[1200];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    FILE *f = fopen(path, "wb");
    assert_true(f && fputs(text, f) >= 0 && fclose(f) == 0);
}

static void copy_file(const char *from, const char *directory, const char *name)
{
    char path[1200];
    size_t n;
    char *bytes = read_whole(from, &n);
    snprintf(path, sizeof path, "%s/%s", directory, name);
    FILE *f = fopen(path, "wb");
    assert_true(f && fwrite(bytes, 1, n, f) == n && fclose(f) == 0);
    free(bytes);
}

static void same_file(const char *a, const char *b, const char *name)
{
    char path[2][1200];
    size_t n, k;
    snprintf(path[0], sizeof path[0], "%s/%s", a, name);
    snprintf(path[1], sizeof path[1], "%s/%s", b, name);
    char *x = read_whole(path[0], &n), *y = read_whole(path[1], &k);
    assert_true(n == k && memcmp(x, y, n) == 0);
    free(x);
    free(y);
}

static void labels_and_pictures(void **state)
{
    (void)state;
    host h;
    model m;
    weft_error err = { 0 };
    image_recipe a, b;
    const char *directory = fixture("golden/vit");
    open_model(&m, directory, &h);
    assert_int_equal(image_input_recipe(&a, &m, &err), WEFT_OK);
    model_close(&m);
    open_model(&m, to_gguf(directory, "pictures.gguf", "q8_0"), &h);
    if (image_input_recipe(&b, &m, &err) != WEFT_OK)
        fail_msg("%s", err.message);
    assert_memory_equal(&a, &b, sizeof a);
    model_close(&m);
    open_model(&m, to_gguf(fresh("labels", wide[4].config), "labels.gguf", "q8_0"), &h);
    assert_true(m.task == WEFT_TASK_TAG && m.n_out == 3);
    assert_string_equal(m.label[1], "a \xc3\xa9 dog");
    assert_string_equal(m.label[2], "B-PER");
    model_close(&m);
}

static void poolings(void **state)
{
    (void)state;
    char inner[1100], gguf[1024], back[1024];
    host h;
    model m;
    const char *directory = fresh("pooled", "{\"model_type\": \"roberta\", \"architectures\": "
                                            "[\"RobertaModel\"], " ENCODER "}");
    put_text(directory, "modules.json",
             "[{\"type\": \"sentence_transformers.models.Transformer\", \"path\": \"\"},"
             " {\"type\": \"sentence_transformers.models.Pooling\", \"path\": \"7_Pool\"},"
             " {\"type\": \"sentence_transformers.models.Normalize\", \"path\": \"2\"}]");
    snprintf(inner, sizeof inner, "%s/7_Pool", directory);
    mkdir(inner, 0700);
    put_text(inner, "config.json", "{\"pooling_mode_max_tokens\": true}");
    snprintf(gguf, sizeof gguf, "%s", to_gguf(directory, "pooled.gguf", "q8_0"));
    snprintf(back, sizeof back, "%s", temp_path("pooled-back"));
    convert(gguf, back, NULL, WEFT_FORMAT_HF);
    const char *const paths[] = { directory, gguf, back };
    for (int i = 0; i < 3; i++) {
        open_model(&m, paths[i], &h);
        assert_true(m.pool.kind == POOL_MAX && m.pool.normalize);
        model_close(&m);
    }
    same_file(directory, back, "modules.json");
    same_file(directory, back, "7_Pool/config.json");
}

static void same_ids(const char *a, const char *b, weft_side side, const char *text)
{
    weft_error err = { 0 };
    const weft_tokenizer_options o = { .struct_size = sizeof o, .side = side };
    weft_tokenizer *x = weft_tokenizer_load(a, &o, &err);
    weft_tokenizer *y = x ? weft_tokenizer_load(b, &o, &err) : NULL;
    if (!y)
        fail_msg("%s", err.message);
    weft_tokens *i = weft_tokenizer_encode(x, text, strlen(text), NULL, &err);
    weft_tokens *k = weft_tokenizer_encode(y, text, strlen(text), NULL, &err);
    assert_true(i && k && i->n > 1 && i->n == k->n);
    assert_memory_equal(i->ids, k->ids, (size_t)i->n * sizeof *i->ids);
    weft_tokens_free(i);
    weft_tokens_free(k);
    weft_tokenizer_free(x);
    weft_tokenizer_free(y);
}

static void two_tokenizers(void **state)
{
    (void)state;
    static const char *const files[] = { "source.spm", "target.spm", "vocab.json" };
    char directory[1024], gguf[1024], back[1024], name[64];
    snprintf(directory, sizeof directory, "%s", fresh("sides", wide[6].config));
    for (int i = 0; i < 3; i++) {
        snprintf(name, sizeof name, "golden/marian-text/%s", files[i]);
        copy_file(fixture(name), directory, files[i]);
    }
    snprintf(gguf, sizeof gguf, "%s", to_gguf(directory, "sides.gguf", "q4_0"));
    snprintf(back, sizeof back, "%s", temp_path("sides-back"));
    convert(gguf, back, NULL, WEFT_FORMAT_HF);
    for (int i = 0; i < 3; i++)
        same_file(directory, back, files[i]);
    for (weft_side side = WEFT_SIDE_ANY; side <= WEFT_SIDE_TARGET; side++)
        same_ids(directory, gguf, side, "the little house, das kleine Haus");
    put_text(directory, "source_vocabulary.txt", "<blank>\n<s>\n</s>\na\nb\nc\n");
    put_text(directory, "target_vocabulary.txt", "<blank>\n<s>\n</s>\nc\nb\na\n");
    to_gguf(directory, "sides.gguf", "q4_0");
    for (weft_side side = WEFT_SIDE_SOURCE; side <= WEFT_SIDE_TARGET; side++)
        same_ids(directory, gguf, side, "abcab");
}

static void other_tokenizers(void **state)
{
    (void)state;
    char directory[1024];
    snprintf(directory, sizeof directory, "%s", fresh("pair", wide[1].config));
    put_text(directory, "vocab.json", "{\"a\": 0, \"b\": 1, \"c\": 2, \"ab\": 3, \"\xc4\xa0\": 4}");
    put_text(directory, "merges.txt", "#version: 0.2\na b\n");
    same_ids(directory, to_gguf(directory, "pair.gguf", "q8_0"), WEFT_SIDE_ANY, "abc ab");
    snprintf(directory, sizeof directory, "%s", fresh("words", wide[4].config));
    put_text(directory, "vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\nb\n##b\n##c\n");
    same_ids(directory, to_gguf(directory, "words.gguf", "q8_0"), WEFT_SIDE_ANY, "ab bc a");
    weft_error err = { 0 };
    assert_null(
        weft_tokenizer_load(to_gguf(fresh("none", wide[1].config), "none.gguf", NULL), NULL, &err));
    assert_non_null(strstr(err.message, "none.gguf: no tokenizer.json"));
}

/* ---- said, and refused --------------------------------------------------------------------------- */

static void warnings(void **state)
{
    (void)state;
    const char *to = temp_path("said.gguf");
    assert_non_null(strstr(convert(fixture("golden/bart"), to, NULL, WEFT_FORMAT_GGUF),
                           "GGUF defines no architecture for bart; written as weft.bart"));
    assert_non_null(strstr(convert(fixture("golden/bert-tag"), to, NULL, WEFT_FORMAT_GGUF),
                           "GGUF has no key for this head; written as weft.bert"));
    assert_null(strstr(convert(fixture("golden/bert"), to, NULL, WEFT_FORMAT_GGUF), "weft.bert"));
    const char *directory = fresh("again", wide[5].config);
    char q8[1024];
    snprintf(q8, sizeof q8, "%s", to_gguf(directory, "again.gguf", "q8_0"));
    const char *warning = convert(q8, to, "q4_0", WEFT_FORMAT_GGUF);
    assert_non_null(strstr(warning, "tensors are quantised already (q8_0)"));
    assert_string_equal(convert(q8, to, "q8_0", WEFT_FORMAT_GGUF), "");
    assert_string_equal(convert(q8, to, "f16", WEFT_FORMAT_GGUF), "");
}

/* A file with these keys and one tensor. */
static const char *made(const char *name, const char *config, const char *key, const char *value)
{
    host h;
    save s;
    gguf_writer w;
    weft_error err = { 0 };
    const float x[2] = { 1, 2 };
    const char *path = temp_path("made.gguf");
    host_plain(&h);
    save_begin(&s, &h, &err);
    gguf_writer_begin(&w, &s);
    gguf_add_text(&w, "general.architecture", name, strlen(name));
    if (config)
        gguf_add_text(&w, "weft.huggingface.config", config, strlen(config));
    if (key)
        gguf_add_text(&w, key, value, strlen(value));
    gguf_add_tensor(&w, "x", &dtype_f32, 1, &(int64_t){ 2 });
    gguf_writer_head(&w, path);
    gguf_writer_data(&w, x, sizeof x);
    gguf_writer_end(&w);
    if (save_commit(&s) != WEFT_OK)
        fail_msg("%s", err.message);
    return path;
}

static void refused(const char *path, const char *says)
{
    host h;
    model m;
    weft_error err = { 0 };
    host_plain(&h);
    const weft_status status = model_open(&m, path, WEFT_LOAD_COPY, &h, &err);
    if (status == WEFT_OK || !strstr(err.message, says))
        fail_msg("got %d \"%s\", expected \"%s\"", (int)status, err.message, says);
    count_assertion();
    assert_int_equal(atomic_load(&h.mem.used), 0);
}

static void hostile(void **state)
{
    (void)state;
    static const char roberta[] = "{\"model_type\": \"roberta\", \"num_hidden_layers\": 1, "
                                  "\"hidden_size\": 8, \"num_attention_heads\": 1, "
                                  "\"intermediate_size\": 8, \"max_position_embeddings\": 8, "
                                  "\"vocab_size\": 8}";
    refused(made("weft.vit", NULL, NULL, NULL),
            "but the file has no embedded config.json; expected");
    refused(made("weft.vit", "[]", NULL, NULL), "model_type is missing");
    refused(made("weft.vit", "{", NULL, NULL), "weft.huggingface.config");
    refused(made("weft.vit", "{\"model_type\": 3}", NULL, NULL), "model_type is missing or not");
    refused(made("weft.vit", "{\"model_type\": \"bert\"}", NULL, NULL),
            "but its embedded config.json says \"bert\"");
    refused(made("weft.", "{\"model_type\": \"\"}", NULL, NULL), "weft supports");
    refused(made("weft.nope", "{\"model_type\": \"nope\"}", NULL, NULL), "weft supports");
    refused(made("weft.bart", "{\"model_type\": \"bart\"}", NULL, NULL), "d_model is missing");
    refused(made("weft.bart", "{\"model_type\": \"bart\", \"d_model\": 1e30}", NULL, NULL),
            "d_model");
    refused(made("weft.roberta", roberta, "weft.file.modules.json",
                 "[{\"type\": \"x.Pooling\", \"path\": \"../x\"}]"),
            "the path of Pooling is not a name");
    refused(made("weft.roberta", roberta, "weft.file.modules.json",
                 "[{\"type\": \"x.Pooling\", \"path\": \"p\"}]"),
            "p/config.json, named by modules.json, is missing");
}

/* A key of the file never becomes a file name. */
static void no_strange_files(void **state)
{
    (void)state;
    char from[1024], to[1024];
    host h;
    container c;
    save s;
    gguf_writer w;
    weft_error err = { 0 };
    snprintf(from, sizeof from, "%s", to_gguf(fixture("golden/bahdanau"), "plain.gguf", NULL));
    snprintf(to, sizeof to, "%s", temp_path("strange.gguf"));
    host_plain(&h);
    assert_int_equal(container_open(&c, from, WEFT_LOAD_COPY, &h, &err), WEFT_OK);
    save_begin(&s, &h, &err);
    gguf_writer_begin(&w, &s);
    for (int64_t i = 0; i < c.n_entry; i++)
        gguf_add_meta(&w, &c.entry[i]);
    gguf_add_text(&w, "weft.file.../escaped.txt", "x", 1);
    gguf_add_text(&w, "weft.file.unknown.txt", "x", 1);
    gguf_add_text(&w, "weft.file.vocab.txt", "a\n", 2);
    for (int64_t i = 0; i < c.n_tensor; i++)
        gguf_add_tensor(&w, c.tensor[i].name, c.tensor[i].type, c.tensor[i].n_dim,
                        c.tensor[i].shape);
    gguf_writer_head(&w, to);
    for (int64_t i = 0; i < c.n_tensor; i++)
        gguf_writer_data(&w, c.tensor[i].data, (size_t)c.tensor[i].bytes);
    gguf_writer_end(&w);
    assert_int_equal(save_commit(&s), WEFT_OK);
    container_close(&c);
    convert(to, temp_path("inside"), NULL, WEFT_FORMAT_HF);
    assert_int_equal(access(temp_path("inside/vocab.txt"), F_OK), 0);
    assert_int_not_equal(access(temp_path("escaped.txt"), F_OK), 0);
    assert_int_not_equal(access(temp_path("inside/unknown.txt"), F_OK), 0);
}

/* ---- every call that can fail -------------------------------------------------------------------- */

static bool fails_cleanly(const char *from, const char *to, bool files, int64_t k)
{
    host h;
    model m;
    tokenizer t;
    weft_error err = { 0 };
    static convert_report r;
    faults memory = { 0 }, io = { 0 }, *chosen = files ? &io : &memory;
    *chosen = (faults){ .fail_at = k };
    host_faulty(&h, &memory, &io);
    const convert_options o = { .to = WEFT_FORMAT_HF, .force = true, .n_thread = 1 };
    weft_status status = model_open(&m, from, WEFT_LOAD_COPY, &h, &err);
    if (status == WEFT_OK)
        model_close(&m);
    if (status == WEFT_OK && (status = tokenizer_load_side(&t, from, WEFT_SIDE_TARGET, NULL,
                                                           WEFT_LOAD_COPY, &h, &err)) == WEFT_OK)
        tokenizer_free(&t);
    if (status == WEFT_OK)
        status = convert_model(from, to, &o, &r, &h, &err);
    if (memory.live || io.live || atomic_load(&h.mem.used))
        fail_msg("call %lld failed: %lld blocks, %lld files are left", (long long)k,
                 (long long)memory.live, (long long)io.live);
    if (status != WEFT_OK && (err.code != (files ? WEFT_EIO : WEFT_ENOMEM) || !err.message[0]))
        fail_msg("call %lld failed: got %d \"%s\"", (long long)k, (int)err.code, err.message);
    return chosen->calls >= k;
}

static void all_faults(void **state)
{
    (void)state;
    char directory[1024], gguf[1024], inner[1100];
    snprintf(directory, sizeof directory, "%s",
             fresh("faulty",
                   "{\"model_type\": \"roberta\", \"architectures\": [\"RobertaModel\"], " ENCODER
                   "}"));
    put_text(directory, "vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\nb\n##b\n##c\n");
    put_text(directory, "tokenizer_config.json", "{\"bos_token\": \"a\"}");
    put_text(directory, "modules.json", "[{\"type\": \"x.Pooling\", \"path\": \"p\"}]");
    snprintf(inner, sizeof inner, "%s/p", directory);
    mkdir(inner, 0700);
    put_text(inner, "config.json", "{\"pooling_mode\": \"cls\"}");
    snprintf(gguf, sizeof gguf, "%s", to_gguf(directory, "faulty.gguf", "q8_0"));
    for (int files = 0; files < 2; files++) {
        int64_t k = 1;
        while (fails_cleanly(gguf, temp_path("faulty-back"), files, k))
            k += quick() ? 7 : 1;
        print_message("%lld fault points in %s\n", (long long)k, files ? "files" : "memory");
        assert_true(k > 20);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST("own gguf: every golden model has the bits of its directory, and survives the round "
             "trip",
             bits_of_directories),
        TEST("own gguf: q8_0 and q4_0 of every family stay close to f32", few_bits),
        TEST("own gguf: labels and image preprocessing survive", labels_and_pictures),
        TEST("own gguf: pooling survives the round trip", poolings),
        TEST("own gguf: the tokenizers of both sides survive the round trip", two_tokenizers),
        TEST("own gguf: vocab.json with merges.txt and vocab.txt survive", other_tokenizers),
        TEST("own gguf: warns of files other programs cannot read, and of a second quantisation",
             warnings),
        TEST("own gguf: a file without its configuration, or with another's, is refused", hostile),
        TEST("own gguf: a key is never a file name", no_strange_files),
        TEST("own gguf: a failed call leaves nothing behind", all_faults),
    };
    return RUN(tests);
}
