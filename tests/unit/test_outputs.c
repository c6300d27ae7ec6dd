/* Files that define the output of an encoder: modules.json and the files it names, GGUF keys,
 * labels. Correct, wrong, and truncated anywhere. */
#include "models/arch.h"
#include "models/convert.h"
#include "support.h"

#include <sys/stat.h>

/* A copy of a golden model in an empty directory, its config.json with `from` replaced by `to`. */
static const char *copy_of(const char *golden, const char *from, const char *to)
{
    static int n_copy;
    static char name[64];
    char path[256];
    size_t n, k;
    snprintf(name, sizeof name, "copy%d", n_copy++);
    mkdir(temp_path(name), 0700);
    snprintf(path, sizeof path, "golden/%s/model.safetensors", golden);
    char *weights = read_whole(fixture(path), &n);
    snprintf(path, sizeof path, "%s/model.safetensors", name);
    temp_file(path, weights, n);
    snprintf(path, sizeof path, "golden/%s/config.json", golden);
    char *config = read_whole(fixture(path), &k), made[4096];
    config[k - 1] = '\0';
    char *at = strstr(config, from);
    assert_non_null(at);
    snprintf(made, sizeof made, "%.*s%s%s", (int)(at - config), config, to, at + strlen(from));
    snprintf(path, sizeof path, "%s/config.json", name);
    temp_file(path, made, strlen(made));
    free(weights);
    free(config);
    return name;
}

static void put(const char *directory, const char *name, const char *text, size_t n)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    temp_file(path, text, n);
}

static weft_status open_copy(const char *directory, model *m, host *h, weft_error *err)
{
    host_plain(h);
    *err = (weft_error){ 0 };
    return model_open(m, temp_path(directory), WEFT_LOAD_COPY, h, err);
}

#define POOLING   "{\"type\":\"sentence_transformers.models.Pooling\",\"path\":\"1_Pooling\"}"
#define BERT      "{\"type\":\"sentence_transformers.models.Transformer\",\"path\":\"\"}"
#define NORMALIZE "{\"type\":\"sentence_transformers.models.Normalize\",\"path\":\"2_Normalize\"}"

/* ---- modules --------------------------------------------------------------------------------- */

static const struct {
    const char *modules, *pooling; /* NULL: no such file */
    weft_status status;
    pool_kind kind;
    bool normalize;
    const char *says;
} cases[] = {
    { NULL, NULL, WEFT_OK, POOL_MEAN, false, NULL },
    { "[]", NULL, WEFT_OK, POOL_MEAN, false, NULL },
    { "{}", NULL, WEFT_OK, POOL_MEAN, false, NULL },
    { "[" BERT "," POOLING "," NORMALIZE "]", "{\"pooling_mode_mean_tokens\":true}", WEFT_OK,
      POOL_MEAN, true, NULL },
    { "[" BERT "," POOLING "]",
      "{\"pooling_mode_mean_tokens\":false,\"pooling_mode_cls_token\":true}", WEFT_OK, POOL_FIRST,
      false, NULL },
    { "[" POOLING "]", "{\"pooling_mode_max_tokens\":true}", WEFT_OK, POOL_MAX, false, NULL },
    { "[" POOLING "]", "{\"pooling_mode_lasttoken\":true}", WEFT_OK, POOL_LAST, false, NULL },
    { "[" POOLING "]", "{\"pooling_mode\":\"cls\"}", WEFT_OK, POOL_FIRST, false, NULL },
    { "[" POOLING "]", "{\"pooling_mode\":\"lasttoken\"}", WEFT_OK, POOL_LAST, false, NULL },
    { "[" POOLING "]", "{}", WEFT_EUNSUPPORTED, 0, false, "exactly one of" },
    { "[" POOLING "]", "{\"pooling_mode_mean_tokens\":true,\"pooling_mode_cls_token\":true}",
      WEFT_EUNSUPPORTED, 0, false, "exactly one of" },
    { "[" POOLING "]", "{\"pooling_mode_mean_sqrt_len_tokens\":true}", WEFT_EUNSUPPORTED, 0, false,
      "exactly one of" },
    { "[" POOLING "]", "[", WEFT_EFORMAT, 0, false, "1_Pooling/config.json: line 1" },
    { "[" POOLING "]", NULL, WEFT_EFORMAT, 0, false,
      "1_Pooling/config.json, named by modules.json" },
    { "[{\"type\":\"Pooling\"}]", NULL, WEFT_EFORMAT, 0, false, "is not a name" },
    { "[{\"type\":\"Pooling\",\"path\":\"../x\"}]", NULL, WEFT_EFORMAT, 0, false, "is not a name" },
    { "[{\"type\":\"Pooling\",\"path\":\"..\"}]", NULL, WEFT_EFORMAT, 0, false, "is not a name" },
    { "[" BERT ",{\"type\":\"sentence_transformers.models.Dense\",\"path\":\"2_Dense\"}]", NULL,
      WEFT_EUNSUPPORTED, 0, false, "models.Dense" },
    { "7", NULL, WEFT_EFORMAT, 0, false, "modules.json: " },
    { "", NULL, WEFT_EFORMAT, 0, false, "modules.json: " },
};

static void modules(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        host h;
        model m;
        weft_error err;
        char sub[64];
        const char *directory = copy_of("bert", "\"model_type\"", "\"model_type\"");
        snprintf(sub, sizeof sub, "%s/1_Pooling", directory);
        mkdir(temp_path(sub), 0700);
        if (cases[i].modules)
            put(directory, "modules.json", cases[i].modules, strlen(cases[i].modules));
        if (cases[i].pooling)
            put(directory, "1_Pooling/config.json", cases[i].pooling, strlen(cases[i].pooling));
        const weft_status status = open_copy(directory, &m, &h, &err);
        if (status != cases[i].status || (cases[i].says && !strstr(err.message, cases[i].says)))
            fail_msg("case %d: status %d, \"%s\"", (int)i, (int)status, err.message);
        if (status == WEFT_OK) {
            assert_int_equal(m.pool.kind, cases[i].kind);
            assert_int_equal(m.pool.normalize, cases[i].normalize);
            model_close(&m);
        }
        assert_int_equal(h.mem.used, 0);
    }
}

/* Truncated after any byte, a file is an error or gives the same result; nothing leaks. */
static void cut_off_anywhere(void **state)
{
    (void)state;
    static const char *const texts[] = { "[" BERT "," POOLING "," NORMALIZE "]",
                                         "{\"pooling_mode_cls_token\":true}" };
    const char *directory = copy_of("bert", "\"model_type\"", "\"model_type\"");
    char sub[64];
    snprintf(sub, sizeof sub, "%s/1_Pooling", directory);
    mkdir(temp_path(sub), 0700);
    put(directory, "modules.json", texts[0], strlen(texts[0]));
    for (int which = 1; which >= 0; which--) {
        const char *name = which ? "1_Pooling/config.json" : "modules.json";
        for (size_t n = 0; n <= strlen(texts[which]); n++) {
            host h;
            model m;
            weft_error err;
            put(directory, name, texts[which], n);
            const bool whole = n == strlen(texts[which]);
            assert_int_equal(open_copy(directory, &m, &h, &err), whole ? WEFT_OK : WEFT_EFORMAT);
            if (whole) {
                assert_true(m.pool.kind == POOL_FIRST && m.pool.normalize);
                model_close(&m);
            }
            assert_int_equal(h.mem.used, 0);
        }
    }
}

/* Through GGUF and back: pooling and its length are kept, except max pooling, which GGUF has no
 * number for. */
static void through_gguf(void **state)
{
    (void)state;
    static const struct {
        const char *pooling;
        bool normalize;
        pool_kind kind;
    } ways[] = {
        { "{\"pooling_mode\":\"mean\"}", true, POOL_MEAN },
        { "{\"pooling_mode\":\"mean\"}", false, POOL_MEAN },
        { "{\"pooling_mode\":\"cls\"}", true, POOL_FIRST },
        { "{\"pooling_mode\":\"lasttoken\"}", false, POOL_LAST },
    };
    static convert_report report;
    host h;
    model m;
    weft_error err = { 0 };
    const convert_options o = { .force = true, .n_thread = 1 };
    const char *directory = copy_of("bert", "\"model_type\"", "\"model_type\"");
    char sub[64];
    snprintf(sub, sizeof sub, "%s/1_Pooling", directory);
    mkdir(temp_path(sub), 0700);
    host_plain(&h);
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        const char *list = ways[i].normalize ? "[" POOLING "," NORMALIZE "]" : "[" POOLING "]";
        put(directory, "modules.json", list, strlen(list));
        put(directory, "1_Pooling/config.json", ways[i].pooling, strlen(ways[i].pooling));
        const char *gguf = temp_path("pooled.gguf");
        if (convert_model(temp_path(directory), gguf, &o, &report, &h, &err) != WEFT_OK ||
            model_open(&m, gguf, WEFT_LOAD_COPY, &h, &err) != WEFT_OK)
            fail_msg("%s", err.message);
        assert_int_equal(m.pool.kind, ways[i].kind);
        assert_int_equal(m.pool.normalize, ways[i].normalize);
        assert_int_equal(m.n_type, 2);
        model_close(&m);
    }
    put(directory, "1_Pooling/config.json", "{\"pooling_mode\":\"max\"}", 22);
    const char *own = temp_path(
        "pooled.gguf"); /* GGUF has no number for it: weft's own kind of file */
    if (convert_model(temp_path(directory), own, &o, &report, &h, &err) != WEFT_OK ||
        model_open(&m, own, WEFT_LOAD_COPY, &h, &err) != WEFT_OK)
        fail_msg("%s", err.message);
    assert_int_equal(m.pool.kind, POOL_MAX);
    model_close(&m);
}

/* ---- labels and heads ------------------------------------------------------------------------ */

static void labels(void **state)
{
    (void)state;
    static const struct {
        const char *from, *to;
        bool named;
    } ways[] = {
        { "\"no\"", "\"no\"", true },
        { "\"perhaps\"", "\"\"", true },
        { "\"perhaps\"", "7", false },
        { "\"2\": \"yes\"", "\"3\": \"yes\"", false },
    };
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        host h;
        model m;
        weft_error err;
        assert_int_equal(
            open_copy(copy_of("bert-classify", ways[i].from, ways[i].to), &m, &h, &err), WEFT_OK);
        assert_int_equal(m.n_out, 3);
        assert_int_equal(m.task, WEFT_TASK_CLASSIFY);
        assert_int_equal(m.label != NULL, ways[i].named);
        model_close(&m);
    }
}

static void heads(void **state)
{
    (void)state;
    static const struct {
        const char *golden, *from, *to, *says;
    } ways[] = {
        { "bert", "BertModel", "BertForNextSentencePrediction", "unsupported head" },
        { "bert", "BertModel", "BertForMaskedLM", "is missing" },
        { "bert-fill", "BertForMaskedLM", "BertModel", "for a bert model" },
        { "bert-tag", "BertForTokenClassification", "BertForSequenceClassification", "pooler" },
        { "bert-fill", "\"hidden_size\": 24", "\"hidden_size\": 25", "cannot divide" },
        { "bert", "\"max_position_embeddings\": 29", "\"max_position_embeddings\": 30",
          "expected [30, 24]" },
        { "bert", "\"type_vocab_size\": 2", "\"type_vocab_size\": 257", "expected 0 to 256" },
        { "bert", "\"hidden_act\": \"gelu\"", "\"hidden_act\": \"mish\"",
          "unsupported activation" },
        { "roberta-fill", "\"pad_token_id\": 1", "\"pad_token_id\": 28",
          "max_position_embeddings is 29, expected 30" },
        { "roberta-fill", "\"pad_token_id\": 1", "\"pad_token_id\": -1", "pad_token_id is -1" },
    };
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        host h;
        model m;
        weft_error err;
        const char *directory = copy_of(ways[i].golden, ways[i].from, ways[i].to);
        if (open_copy(directory, &m, &h, &err) == WEFT_OK || !strstr(err.message, ways[i].says))
            fail_msg("case %d: \"%s\"", (int)i, err.message);
        assert_int_equal(h.mem.used, 0);
    }
}

/* Every allocation and file call fails once; each gives an error with a message. */
static void every_fault(void **state)
{
    (void)state;
    static const char list[] = "[" BERT "," POOLING "," NORMALIZE "]";
    static const char mode[] = "{\"pooling_mode\":\"cls\"}";
    const char *directory = copy_of("bert-classify", "\"model_type\"", "\"model_type\"");
    char sub[64];
    snprintf(sub, sizeof sub, "%s/1_Pooling", directory);
    mkdir(temp_path(sub), 0700);
    put(directory, "modules.json", list, sizeof list - 1);
    put(directory, "1_Pooling/config.json", mode, sizeof mode - 1);
    for (int kind = 0; kind < 2; kind++)
        for (int64_t k = 1;; k++) {
            host h;
            model m;
            faults f = { .fail_at = k };
            weft_error err = { 0 };
            host_faulty(&h, kind ? NULL : &f, kind ? &f : NULL);
            const weft_status status = model_open(&m, temp_path(directory), WEFT_LOAD_COPY, &h,
                                                  &err);
            if (status == WEFT_OK)
                model_close(&m);
            else
                assert_true(err.message[0] != '\0');
            assert_int_equal(h.mem.used, 0);
            assert_int_equal(f.live, 0);
            if (f.calls < k) {
                assert_int_equal(status, WEFT_OK);
                print_message("outputs: %d faults in %s\n", (int)k - 1, kind ? "files" : "memory");
                break;
            }
        }
}

/* TensorFlow's names of norm weights: the same model. */
static void gamma_and_beta(void **state)
{
    (void)state;
    host h, g;
    model m, plain;
    weft_error err;
    char path[128];
    size_t n;
    const char *directory = copy_of("bert", "\"model_type\"", "\"model_type\"");
    snprintf(path, sizeof path, "%s/model.safetensors", directory);
    char *data = read_whole(temp_path(path), &n);
    for (size_t i = 0; i + 17 < n; i++)
        if (memcmp(data + i, "LayerNorm.weight\"", 17) == 0)
            memcpy(data + i, "LayerNorm.gamma\" ", 17);
        else if (memcmp(data + i, "LayerNorm.bias\"", 15) == 0)
            memcpy(data + i, "LayerNorm.beta\"", 15);
    temp_file(path, data, n);
    free(data);
    if (open_copy(directory, &m, &h, &err) != WEFT_OK)
        fail_msg("%s", err.message);
    host_plain(&g);
    assert_int_equal(model_open(&plain, fixture("golden/bert"), WEFT_LOAD_COPY, &g, &err), WEFT_OK);
    assert_int_equal(m.n_param, plain.n_param);
    for (int64_t i = 0; i < m.n_param; i++)
        assert_memory_equal(m.param[i]->data, plain.param[i]->data,
                            (size_t)cols(m.param[i]) * sizeof(float));
    model_close(&m);
    model_close(&plain);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST("outputs: modules.json and 1_Pooling define how a text becomes one vector", modules),
        TEST("outputs: both files truncated anywhere are errors", cut_off_anywhere),
        TEST("outputs: pooling survives GGUF", through_gguf),
        TEST("outputs: all labels have names, or none", labels),
        TEST("outputs: the error names a missing or unknown head", heads),
        TEST("outputs: every failed allocation and file call is reported", every_fault),
        TEST("outputs: norms with TensorFlow's names are norms", gamma_and_beta),
    };
    return RUN(tests);
}
