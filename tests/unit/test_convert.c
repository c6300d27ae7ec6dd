/* Conversion: every row of the architecture table through both formats, bit by bit; types, parts,
 * tokenizers; and every call that can fail. */
#include "engine/encode.h"
#include "engine/session.h"
#include "formats/safetensors_write.h"
#include "gguf_build.h"
#include "models/convert.h"
#include "models/stop_ids.h"
#include "support.h"
#include "text/sources/source.h"

#include <dirent.h>
#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#define N_TOKEN 9

/* ---- models, their logits, their tensors ----------------------------------------------------- */

/* A golden model's directory. */
static const char *golden_path(const char *name)
{
    static char text[4][1024];
    static unsigned next;
    char *to = text[next++ % 4];
    snprintf(to, sizeof text[0], "%s/golden/%s", WEFT_TESTS_DIR, name);
    return to;
}

static weft_status try_with(const char *from, const char *to, convert_options o, host *h,
                            convert_report *r, weft_error *err)
{
    *err = (weft_error){ 0 };
    return convert_model(from, to, &o, r, h, err);
}

static convert_report converted(const char *from, const char *to, convert_options o)
{
    host h;
    weft_error err;
    static convert_report r;
    host_plain(&h);
    o.force = true;
    if (try_with(from, to, o, &h, &r, &err) != WEFT_OK)
        fail_msg("%s -> %s: %s", from, to, err.message);
    assert_int_equal(atomic_load(&h.mem.used), 0);
    return r;
}

static void refused(const char *from, const char *to, convert_options o, weft_status code,
                    const char *says)
{
    host h;
    weft_error err;
    convert_report r;
    host_plain(&h);
    const weft_status status = try_with(from, to, o, &h, &r, &err);
    if (status != code || err.code != code || !strstr(err.message, says))
        fail_msg("got %d \"%s\", expected %d \"%s\"", (int)status, err.message, (int)code, says);
    assert_int_equal(atomic_load(&h.mem.used), 0);
}

/* The output of a model that encodes the whole prompt. */
static float *outputs(const model *m, const int32_t *prompt, int64_t *n)
{
    weft_error err = { 0 };
    encode_engine *e = encode_engine_new(m, &(encode_engine_options){ .n_thread = 1 }, &err);
    assert_non_null(e);
    weft_input in = { .ids = prompt, .n = N_TOKEN };
    *n = encode_engine_rows(e, &in) * m->n_out;
    in.out = calloc((size_t)*n, sizeof *in.out);
    assert_int_equal(encode_engine_eval(e, &in, 1, &err), WEFT_OK);
    encode_engine_free(e);
    return in.out;
}

static float *logits(const char *path, int64_t *n)
{
    static const int32_t prompt[N_TOKEN] = { 1, 5, 3, 2, 7, 7, 30, 11, 4 };
    host h;
    model m;
    weft_error err = { 0 };
    host_plain(&h);
    if (model_open(&m, path, WEFT_LOAD_MAP, &h, &err) != WEFT_OK)
        fail_msg("%s", err.message);
    if (m.task != WEFT_TASK_GENERATE) {
        float *read = outputs(&m, prompt, n);
        model_close(&m);
        return read;
    }
    engine *e = engine_new(&m, &(engine_options){ .n_thread = 1, .n_ctx = 16 }, &err);
    session *s = session_new(e, &err);
    float *all = calloc((size_t)(N_TOKEN * m.n_vocab), sizeof *all);
    if (model_has_source(&m))
        assert_int_equal(engine_encode(e, &(source_text){ s, prompt, N_TOKEN }, 1, &err), WEFT_OK);
    for (int i = 0; i < N_TOKEN; i++) {
        assert_int_equal(
            engine_eval(e, &(work){ .session = s, .ids = &prompt[i], .n = 1 }, 1, &err), WEFT_OK);
        memcpy(all + i * m.n_vocab, s->logits, (size_t)m.n_vocab * sizeof *all);
    }
    *n = N_TOKEN * m.n_vocab;
    session_free(s);
    engine_free(e);
    model_close(&m);
    assert_int_equal(atomic_load(&h.mem.used), 0);
    return all;
}

static double same_logits(const char *a, const char *b, double tolerance)
{
    int64_t n, k;
    float *x = logits(a, &n), *y = logits(b, &k);
    assert_int_equal(n, k);
    const double worst = assert_close(b, y, x, n, tolerance);
    free(x);
    free(y);
    return worst;
}

/* Every tensor of both, by name: type, shape and bytes. */
static void same_tensors(const char *a, const char *b)
{
    host h;
    container x, y;
    weft_error err = { 0 };
    host_plain(&h);
    assert_int_equal(container_open(&x, a, WEFT_LOAD_COPY, &h, &err), WEFT_OK);
    if (container_open(&y, b, WEFT_LOAD_COPY, &h, &err) != WEFT_OK)
        fail_msg("%s", err.message);
    if (x.n_tensor != y.n_tensor)
        fail_msg("%s has %d tensors, %s has %d", a, (int)x.n_tensor, b, (int)y.n_tensor);
    for (int64_t i = 0; i < x.n_tensor; i++) {
        const stored *s = &x.tensor[i], *t = container_tensor(&y, s->name);
        if (!t || t->type != s->type || t->n_dim != s->n_dim || t->bytes != s->bytes ||
            memcmp(t->shape, s->shape, sizeof t->shape) != 0 ||
            memcmp(t->data, s->data, s->bytes) != 0)
            fail_msg("%s: tensor %s is missing or not what it is in %s", b, s->name, a);
    }
    container_close(&x);
    container_close(&y);
}

static void same_file(const char *a, const char *b)
{
    size_t n, k;
    char *x = read_whole(a, &n), *y = read_whole(b, &k);
    if (n != k || memcmp(x, y, n) != 0)
        fail_msg("%s and %s differ", a, b);
    free(x);
    free(y);
}

/* A copy of a golden model in which `from` in config.json is replaced by `to`. */
static const char *variant(const char *golden, const char *name, const char *from, const char *to)
{
    char path[256], copy[256];
    size_t n, k;
    snprintf(path, sizeof path, "golden/%s/config.json", golden);
    char *config = read_whole(fixture(path), &n);
    snprintf(path, sizeof path, "golden/%s/model.safetensors", golden);
    char *weights = read_whole(fixture(path), &k);
    char *at = from ? strstr(config, from) : config;
    assert_non_null(at);
    bytes b = { 0 };
    put(&b, config, (size_t)(at - config));
    put(&b, to ? to : "", to ? strlen(to) : 0);
    put(&b, at + (from ? strlen(from) : 0), n - (size_t)(at - config) - (from ? strlen(from) : 0));
    const char *directory = temp_path(name);
    mkdir(directory, 0700);
    snprintf(copy, sizeof copy, "%s/config.json", name);
    temp_file(copy, b.at, b.n);
    snprintf(copy, sizeof copy, "%s/model.safetensors", name);
    temp_file(copy, weights, k);
    free(b.at);
    free(config);
    free(weights);
    return directory;
}

/* The file as if it had never been a directory: its keys are renamed. */
static void forget(const char *path)
{
    size_t n;
    char *data = read_whole(path, &n);
    for (size_t i = 0; i + 5 < n; i++)
        if (memcmp(data + i, "weft.", 5) == 0)
            data[i] = 'x';
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
    free(data);
}

/* ---- there and back -------------------------------------------------------------------------- */

static const char *const lines[] = {
    "llama-gqa",
    "llama-mqa",
    "llama-linear",
    "llama-yarn",
    "mistral-window",
    "qwen2",
    "qwen3",
    "gpt2",
    "gpt2-rope",
    "bert-classify",
    "t5",
    "gemma2",
    "gemma3",
    "gemma3-text",
    "granite",
    "smollm3",
    "olmo2",
    "olmo3",
    "phi3",
    "phi3-short",
    "exaone4",
    "glm4",
    "ministral3",
    "qwen3-moe",
    "mixtral",
    "nomic",
    "gpt-oss",
    "qwen3-rank",
    "deepseek-v2",
    "deepseek-v3",
    "glm4-moe-lite",
};
#define N_LINE (sizeof lines / sizeof *lines)

static void there_and_back(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_LINE; i++) {
        char name[64];
        const char *from = golden_path(lines[i]);
        snprintf(name, sizeof name, "%s.gguf", lines[i]);
        const char *gguf = temp_path(name);
        snprintf(name, sizeof name, "%s.hf", lines[i]);
        const char *back = temp_path(name);
        converted(from, gguf, (convert_options){ .load = WEFT_LOAD_MAP });
        converted(gguf, back, (convert_options){ .load = WEFT_LOAD_MAP });
        same_tensors(from, back);
        char a[1200], b[1200];
        snprintf(a, sizeof a, "%s/config.json", from);
        snprintf(b, sizeof b, "%s/config.json", back);
        same_file(a, b);
        same_logits(from, back, 0);
        print_message("%s: logits through GGUF differ by %.1e\n", lines[i],
                      same_logits(from, gguf, 1e-5));
    }
}

/* With only GGUF's own keys, config.json is made from them. */
static void configuration_from_facts(void **state)
{
    (void)state;
    for (size_t i = 1; i < N_LINE; i++) { /* the first has a scaling that GGUF cannot name */
        char name[64];
        if (strcmp(lines[i], "gemma3-text") == 0)
            continue; /* GGUF cannot say that names lack their prefix */
        const char *from = golden_path(lines[i]);
        snprintf(name, sizeof name, "%s-facts.gguf", lines[i]);
        const char *gguf = temp_path(name);
        snprintf(name, sizeof name, "%s-facts", lines[i]);
        const char *back = temp_path(name);
        converted(from, gguf, (convert_options){ 0 });
        forget(gguf);
        converted(gguf, back, (convert_options){ 0 });
        if (strcmp(lines[i], "nomic") != 0) /* a class without a head: its names had no prefix */
            same_tensors(from, back);
        same_logits(from, back, 1e-5);
    }
    host h;
    model m;
    weft_error err = { 0 };
    host_plain(&h);
    assert_int_equal(model_open(&m, temp_path("bert-classify-facts"), WEFT_LOAD_COPY, &h, &err),
                     WEFT_OK);
    assert_string_equal(m.label[1], "perhaps");
    model_close(&m);

    const char *odd = temp_path("odd.gguf");
    converted(golden_path("llama-gqa"), odd, (convert_options){ 0 });
    forget(odd);
    refused(odd, temp_path("odd"), (convert_options){ 0 }, WEFT_EUNSUPPORTED, "rope_freqs");

    const char *known = variant("llama-gqa", "llama32", "embeddings\": 64", "embeddings\": 8192");
    const char *gguf = temp_path("llama32.gguf"), *back = temp_path("llama32-back");
    converted(known, gguf, (convert_options){ 0 });
    forget(gguf);
    converted(gguf, back, (convert_options){ 0 });
    same_tensors(known, back);
    same_logits(known, back, 1e-5);
}

/* Every key of GGUF file a but those of the directory is in b, with the same value. */
static void same_keys(const char *a, const char *b)
{
    static const char *const own[] = { "weft.", "xeft.", "general.name" };
    host h;
    container x, y;
    weft_error err = { 0 };
    host_plain(&h);
    assert_int_equal(container_open(&x, a, WEFT_LOAD_COPY, &h, &err), WEFT_OK);
    assert_int_equal(container_open(&y, b, WEFT_LOAD_COPY, &h, &err), WEFT_OK);
    for (int64_t i = 0; i < x.n_entry; i++) {
        const meta *m = &x.entry[i], *k = container_meta(&y, m->key);
        bool skip = false;
        for (size_t n = 0; n < sizeof own / sizeof *own; n++)
            skip |= strncmp(m->key, own[n], strlen(own[n])) == 0;
        if (skip)
            continue;
        if (!k || k->type != m->type)
            fail_msg("%s: %s is missing or of another type", b, m->key);
        const bool same = m->type == META_TEXT
                              ? m->length == k->length && memcmp(m->text, k->text, m->length) == 0
                          : m->type == META_ARRAY ? m->length == k->length
                          : m->type == META_BOOL  ? m->flag == k->flag
                                                  : m->number == k->number;
        if (!same)
            fail_msg("%s: %s has another value", b, m->key);
    }
    container_close(&x);
    container_close(&y);
}

/* GGUF, directory, GGUF: the same file, if it was a directory before; otherwise the same tensors
 * and keys. */
static void from_gguf_and_back(void **state)
{
    (void)state;
    mkdir(temp_path("again"), 0700);
    for (size_t i = 0; i < N_LINE; i++) {
        char name[64];
        const bool named = strcmp(lines[i], "llama-gqa") != 0 && /* as configuration_from_facts */
                           strcmp(lines[i], "gemma3-text") != 0;
        const char *first = temp_path("first.gguf"), *second = temp_path("second.gguf");
        const convert_options over = { .force = true };
        snprintf(name, sizeof name, "again/%s", lines[i]); /* the file contains the name */
        const char *between = temp_path(name);
        converted(golden_path(lines[i]), first, over);
        for (int forgotten = 0; forgotten <= named; forgotten++) {
            if (forgotten)
                forget(first);
            converted(first, between, over);
            converted(between, second, over);
            if (!forgotten)
                same_file(first, second);
            same_tensors(first, second);
            same_keys(first, second);
        }
    }
}

/* Windows on other layers than the architecture's usual ones: full, window, full in a Gemma 3. */
static void windows_by_layer(void **state)
{
    (void)state;
    const char *from = variant("gemma3-layers", "pattern", "pre_attn_scalar\": 11",
                               "pre_attn_scalar\": 8");
    const char *gguf = temp_path("pattern.gguf"), *back = temp_path("pattern-back");
    host h;
    container c;
    weft_error err = { 0 };
    host_plain(&h);
    converted(from, gguf, (convert_options){ 0 });
    forget(gguf);
    assert_int_equal(container_open(&c, gguf, WEFT_LOAD_COPY, &h, &err), WEFT_OK);
    const meta *m = container_meta(&c, "gemma3.attention.sliding_window_pattern");
    assert_true(m && m->type == META_ARRAY && m->length == 3);
    assert_true(!m->at[0] && m->at[1] && !m->at[2]);
    container_close(&c);
    same_logits(from, gguf, 1e-5);
    converted(gguf, back, (convert_options){ 0 });
    same_logits(from, back, 1e-5);
}

/* Blocks and scales of a directory become GGUF's blocks, byte for byte the same numbers; back in a
 * directory they are BF16, and its config.json no longer says mxfp4. */
static void packed_experts(void **state)
{
    (void)state;
    const char *from = golden_path("gpt-oss-mxfp4"), *gguf = temp_path("packed.gguf");
    const char *direct = temp_path("packed-direct"), *back = temp_path("packed-back");
    host h;
    container c;
    weft_error err = { 0 };
    host_plain(&h);
    converted(from, gguf, (convert_options){ .load = WEFT_LOAD_MAP });
    assert_int_equal(container_open(&c, gguf, WEFT_LOAD_COPY, &h, &err), WEFT_OK);
    assert_ptr_equal(container_tensor(&c, "blk.1.ffn_gate_exps.weight")->type, &dtype_mxfp4);
    assert_ptr_equal(container_tensor(&c, "blk.1.ffn_down_exps.weight")->type, &dtype_mxfp4);
    assert_int_equal(container_tensor(&c, "blk.1.ffn_up_exps.bias")->n_dim, 2);
    container_close(&c);
    same_logits(from, gguf, 0);
    converted(from, direct, (convert_options){ .to = WEFT_FORMAT_HF });
    converted(gguf, back, (convert_options){ 0 });
    same_tensors(direct, back);
    char a[1200], b[1200];
    snprintf(a, sizeof a, "%s/config.json", direct);
    snprintf(b, sizeof b, "%s/config.json", back);
    same_file(a, b);
    assert_int_equal(container_open(&c, back, WEFT_LOAD_COPY, &h, &err), WEFT_OK);
    assert_ptr_equal(container_tensor(&c, "model.layers.0.mlp.experts.gate_up_proj")->type,
                     &dtype_bf16);
    assert_null(container_meta(&c, "quantization_config.quant_method"));
    container_close(&c);
}

/* ---- types ----------------------------------------------------------------------------------- */

static void types_come_back(void **state)
{
    (void)state;
    static const struct {
        const char *golden;
        const dtype *type;
    } cases[] = { { "llama-gqa", &dtype_bf16 }, { "qwen2", &dtype_f16 }, { "gpt2", &dtype_bf16 } };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *low = temp_path("low"), *gguf = temp_path("low.gguf"),
                   *back = temp_path("low-back");
        const convert_options to_low = { .to = WEFT_FORMAT_HF,
                                         .target = quant_target_by_name(cases[i].type->name) };
        assert_ptr_equal(converted(golden_path(cases[i].golden), low, to_low).type, cases[i].type);
        converted(low, gguf, (convert_options){ 0 });
        converted(gguf, back, (convert_options){ 0 });
        same_tensors(low, back); /* vectors were f32 in between */
        same_logits(low, gguf, 1e-5);
        converted(low, gguf, (convert_options){ .target = quant_target_by_name("f32") });
        converted(gguf, back, (convert_options){ 0 });
        same_tensors(low, back);
    }
}

static void blocks_or_f16(void **state)
{
    (void)state;
    const llama_shape shape = { .n_layer = 1,
                                .d_model = 32,
                                .n_head = 4,
                                .n_head_kv = 2,
                                .d_ff = 40,
                                .n_vocab = 40,
                                .n_ctx = 64,
                                .type = &dtype_f32 };
    const bytes b = gguf_llama(&shape);
    const char *from = temp_file("plain.gguf", b.at, b.n), *to = temp_path("q8.gguf");
    free(b.at);
    assert_ptr_equal(
        converted(from, to, (convert_options){ .target = quant_target_by_name("q8_0") }).type,
        &dtype_q8_0);
    host h;
    container c;
    weft_error err;
    host_plain(&h);
    assert_int_equal(container_open(&c, to, WEFT_LOAD_COPY, &h, &err), WEFT_OK);
    assert_ptr_equal(container_tensor(&c, "blk.0.attn_q.weight")->type, &dtype_q8_0);
    assert_ptr_equal(container_tensor(&c, "blk.0.ffn_down.weight")->type, &dtype_f16);
    assert_ptr_equal(container_tensor(&c, "blk.0.attn_norm.weight")->type, &dtype_f32);
    assert_int_equal(container_meta(&c, "general.file_type")->integer, 7);
    container_close(&c);
    same_logits(from, to, 0.05);
    const char *back = temp_path("q8-hf"); /* block formats become f32, exactly */
    assert_ptr_equal(converted(to, back, (convert_options){ 0 }).type, &dtype_f32);
    same_logits(to, back, 0.02);
}

typedef struct losses {
    int n;
    double worst[4]; /* q4_k, q6_k, f32, others */
} losses;

static void note_loss(void *ud, const weft_converted_tensor *t)
{
    losses *l = ud;
    const int k = strcmp(t->to, "q4_k") == 0   ? 0
                  : strcmp(t->to, "q6_k") == 0 ? 1
                  : strcmp(t->to, "f32") == 0  ? 2
                                               : 3;
    l->worst[k] = t->error > l->worst[k] ? t->error : l->worst[k];
    l->n++;
}

/* A mix, for any number of threads; its error is that of its formats. */
static void a_mix(void **state)
{
    (void)state;
    const llama_shape shape = { 2, 256, 4, 2, 256, 40, 64, 0, &dtype_f32, "llama" };
    const bytes b = gguf_llama(&shape);
    const char *from = temp_file("mix.gguf", b.at, b.n);
    free(b.at);
    char *first = NULL;
    size_t size = 0;
    for (int threads = 1; threads <= 4; threads *= 2) {
        losses l = { 0 };
        const char *to = temp_path("mix-q.gguf");
        const convert_report r = converted(from, to,
                                           (convert_options){
                                               .target = quant_target_by_name("q4_k_m"),
                                               .to = WEFT_FORMAT_GGUF,
                                               .force = true,
                                               .n_thread = threads,
                                               .converted = note_loss,
                                               .converted_ud = &l,
                                           });
        assert_string_equal(convert_type_name(&r), "q4_k_m");
        assert_int_equal(l.n, r.n_tensor);
        assert_true(l.worst[0] > 0.03 && l.worst[0] < 0.09);
        assert_true(l.worst[1] > 0.008 && l.worst[1] < 0.02);
        assert_true(l.worst[2] == 0 && l.worst[3] == 0);
        size_t n;
        char *bytes_now = read_whole(to, &n);
        assert_true(!first || (n == size && memcmp(first, bytes_now, n) == 0));
        free(first);
        first = bytes_now;
        size = n;
    }
    free(first);
}

static void numbers_that_do_not_fit(void **state)
{
    (void)state;
    const char *from = variant("qwen2", "large", NULL, NULL);
    char path[1200];
    size_t n;
    snprintf(path, sizeof path, "%s/model.safetensors", from);
    char *weights = read_whole(path, &n);
    const float large = 70000;
    uint64_t head;
    memcpy(&head, weights, sizeof head);
    memcpy(weights + 8 + head, &large, 4); /* of the first tensor, a matrix */
    temp_file("large/model.safetensors", weights, n);
    free(weights);
    const char *to = temp_path("large.gguf");
    refused(from, to, (convert_options){ .target = quant_target_by_name("f16") }, WEFT_ENUMERIC,
            "holds 70000, which does not fit f16");
    assert_int_equal(access(to, F_OK), -1);
    converted(from, to, (convert_options){ .target = quant_target_by_name("bf16") });
}

/* ---- several files --------------------------------------------------------------------------- */

static void parts(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_LINE; i += 4) {
        const char *from = golden_path(lines[i]);
        const convert_options small = { .max_shard = 15000, .load = WEFT_LOAD_MAP };
        convert_report r = converted(from, temp_path("parts.gguf"), small);
        assert_true(r.n_file > 2);
        assert_non_null(strstr(r.path, "-00001-of-"));
        same_logits(from, r.path, 1e-5);
        convert_options shards = small;
        shards.to = WEFT_FORMAT_HF;
        const char *dir = temp_path("shards");
        converted(r.path, dir, shards);
        same_tensors(from, dir);
        same_logits(from, dir, 0);
        assert_int_equal(access(temp_path("shards/model.safetensors.index.json"), F_OK), 0);
        assert_int_equal(access(temp_path("shards/model.safetensors"), F_OK), -1);
        shards.max_shard = 0; /* one file again: the old index would be wrong */
        converted(r.path, dir, shards);
        assert_int_equal(access(temp_path("shards/model.safetensors.index.json"), F_OK), -1);
        same_tensors(from, dir);
    }
}

static uint64_t bytes_of_tensors(const char *path)
{
    host h;
    container c;
    weft_error err = { 0 };
    uint64_t sum = 0;
    host_plain(&h);
    assert_int_equal(container_open(&c, path, WEFT_LOAD_COPY, &h, &err), WEFT_OK);
    for (int64_t i = 0; i < c.n_tensor; i++)
        sum += c.tensor[i].bytes;
    container_close(&c);
    return sum;
}

/* A tensor that just fits into a file is put there. */
static void full_parts(void **state)
{
    (void)state;
    const char *from = golden_path("gpt2"), *one = temp_path("one.gguf");
    converted(from, one, (convert_options){ 0 });
    convert_options o = { .max_shard = bytes_of_tensors(one) };
    assert_int_equal(converted(from, temp_path("full.gguf"), o).n_file, 1);
    o.max_shard--;
    assert_int_equal(converted(from, temp_path("full.gguf"), o).n_file, 2);
}

static void onto_itself(void **state)
{
    (void)state;
    const char *from = golden_path("gpt2");
    for (int load = WEFT_LOAD_COPY; load <= WEFT_LOAD_MAP; load++) {
        const char *gguf = temp_path("self.gguf"), *dir = temp_path("self");
        const convert_options o = { .load = (weft_load)load },
                              hf = { .to = WEFT_FORMAT_HF, .load = (weft_load)load };
        converted(from, gguf, o);
        converted(gguf, gguf, o);
        same_logits(from, gguf, 1e-5);
        converted(from, dir, hf);
        converted(dir, dir, hf);
        same_tensors(from, dir);
    }
}

/* ---- tokenizers ------------------------------------------------------------------------------ */

static void put_json(bytes *b, const char *text)
{
    put(b, text, strlen(text));
}

/* Three special tokens, 256 bytes, the bar and some letters, and merges: SentencePiece's kind. */
static bytes piece_tokenizer(void)
{
    static const char *const more[] = { "\xE2\x96\x81",
                                        "a",
                                        "b",
                                        "c",
                                        "ab",
                                        "\xE2\x96\x81"
                                        "a",
                                        "abc",
                                        "\xE2\x96\x81"
                                        "ab" };
    bytes b = { 0 };
    char line[64];
    put_json(&b, "{\"version\":\"1.0\",\"truncation\":null,\"padding\":null,\"added_tokens\":[");
    static const char *const special[] = { "<unk>", "<s>", "</s>" };
    for (int i = 0; i < 3; i++) {
        snprintf(line, sizeof line, "%s{\"id\":%d,\"content\":\"%s\"", i ? "," : "", i, special[i]);
        put_json(&b, line);
        put_json(&b, ",\"single_word\":false,\"lstrip\":false,\"rstrip\":false,"
                     "\"normalized\":false,\"special\":true}");
    }
    put_json(&b,
             "],\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"Prepend\","
             "\"prepend\":\"\xE2\x96\x81\"},{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},"
             "\"content\":\"\xE2\x96\x81\"}]},\"pre_tokenizer\":null,\"post_processor\":"
             "{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"<s>\","
             "\"type_id\":0}},{\"Sequence\":{\"id\":\"A\",\"type_id\":0}}],\"pair\":[{\"Sequence\":"
             "{\"id\":\"A\",\"type_id\":0}},{\"Sequence\":{\"id\":\"B\",\"type_id\":1}}],"
             "\"special_tokens\":{\"<s>\":{\"id\":\"<s>\",\"ids\":[1],\"tokens\":[\"<s>\"]}}},"
             "\"decoder\":null,\"model\":{\"type\":\"BPE\",\"dropout\":null,\"unk_token\":"
             "\"<unk>\",\"continuing_subword_prefix\":null,\"end_of_word_suffix\":null,"
             "\"fuse_unk\":true,\"byte_fallback\":true,\"vocab\":{");
    for (int i = 0; i < 3; i++) {
        snprintf(line, sizeof line, "\"%s\":%d,", special[i], i);
        put_json(&b, line);
    }
    for (int i = 0; i < 256; i++) {
        snprintf(line, sizeof line, "\"<0x%02X>\":%d,", (unsigned)i, 3 + i);
        put_json(&b, line);
    }
    for (int i = 0; i < 8; i++) {
        snprintf(line, sizeof line, "%s\"%s\":%d", i ? "," : "", more[i], 259 + i);
        put_json(&b, line);
    }
    put_json(&b, "},\"merges\":[[\"a\",\"b\"],[\"\xE2\x96\x81\",\"a\"],[\"ab\",\"c\"],"
                 "[\"\xE2\x96\x81\",\"ab\"],[\"\xE2\x96\x81"
                 "a\",\"b\"]]}}");
    return b;
}

/* A model with room for n tokens as a directory. */
static const char *directory_with(const char *name, const bytes *tokenizer_json, int64_t n)
{
    const llama_shape shape = { .n_layer = 1,
                                .d_model = 8,
                                .n_head = 2,
                                .n_head_kv = 1,
                                .d_ff = 8,
                                .n_vocab = n,
                                .n_ctx = 64,
                                .type = &dtype_f32 };
    const bytes b = gguf_llama(&shape);
    const char *gguf = temp_file("vocabulary.gguf", b.at, b.n), *directory = temp_path(name);
    char path[128];
    free(b.at);
    converted(gguf, directory, (convert_options){ 0 });
    snprintf(path, sizeof path, "%s/tokenizer.json", name);
    temp_file(path, tokenizer_json->at, tokenizer_json->n);
    snprintf(path, sizeof path, "%s/tokenizer_config.json", name);
    static const char config[] = "{\"bos_token\": \"<s>\", \"eos_token\": \"</s>\", "
                                 "\"model_max_length\": 1000000000000000019884624838656, "
                                 "\"chat_template\": \"{{ messages }}\"}";
    temp_file(path, config, sizeof config - 1);
    return directory;
}

/* Both sources of a GGUF file's tokenizer: the kept one, and GGUF's own keys. */
static void same_ids(const char *directory, const char *gguf, const char *text, const char *pre)
{
    const char *path[] = { directory, gguf, gguf }, *how[] = { NULL, NULL, pre };
    uint32_t id[3][64];
    size_t n[3];
    for (int i = 0; i < 3; i++) {
        host h;
        tokenizer t;
        encoding k;
        weft_error err = { 0 };
        host_plain(&h);
        if (tokenizer_load(&t, path[i], how[i], WEFT_LOAD_COPY, &h, &err) != WEFT_OK)
            fail_msg("%s", err.message);
        encoder *e = encoder_new(&t, &h.mem, &err);
        assert_int_equal(
            encoder_encode(e, text, strlen(text), NULL, 0, &(encode_options){ 0 }, &k, &err),
            WEFT_OK);
        n[i] = k.n;
        assert_true(k.n <= 64);
        memcpy(id[i], k.id, k.n * sizeof *k.id);
        encoder_free(e);
        tokenizer_free(&t);
        if (n[i] != n[0] || memcmp(id[i], id[0], n[0] * sizeof *k.id) != 0)
            fail_msg("\"%s\" gives other ids (%zu and %zu) in way %d", text, n[0], n[i], i);
    }
}

static void tokenizers(void **state)
{
    (void)state;
    size_t n;
    const bytes pieces = piece_tokenizer();
    const char *directory = directory_with("pieces", &pieces, 300),
               *gguf = temp_path("pieces.gguf");
    converted(directory, gguf, (convert_options){ 0 });
    static const char *const texts[] = { "abc ab", "", " ", "a\xC3\xA9 cab abcabc", "<s> b" };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        same_ids(directory, gguf, texts[i], NULL);
    host h;
    container c;
    weft_error err;
    host_plain(&h);
    assert_int_equal(container_open(&c, gguf, WEFT_LOAD_COPY, &h, &err), WEFT_OK);
    const meta *type = container_meta(&c, "tokenizer.ggml.token_type");
    assert_int_equal(type->length, 300);
    assert_true(gguf_number(type, 0) == PIECE_UNKNOWN && gguf_number(type, 1) == PIECE_CONTROL &&
                gguf_number(type, 3) == PIECE_BYTE && gguf_number(type, 259) == PIECE_NORMAL &&
                gguf_number(type, 299) == PIECE_UNUSED);
    assert_string_equal(container_meta(&c, "tokenizer.ggml.model")->text, "llama");
    assert_int_equal(container_meta(&c, "tokenizer.ggml.eos_token_id")->integer, 2);
    assert_true(container_meta(&c, "tokenizer.ggml.add_bos_token")->flag);
    assert_false(container_meta(&c, "tokenizer.ggml.add_eos_token")->flag);
    assert_string_equal(container_meta(&c, "tokenizer.chat_template")->text, "{{ messages }}");
    container_close(&c);
    const char *back = temp_path("pieces-back");
    converted(gguf, back, (convert_options){ 0 });
    same_file(temp_path("pieces/tokenizer.json"), temp_path("pieces-back/tokenizer.json"));
    same_file(temp_path("pieces/tokenizer_config.json"),
              temp_path("pieces-back/tokenizer_config.json"));
    refused(directory_with("pieces", &pieces, 260), gguf, (convert_options){ .force = true },
            WEFT_EFORMAT, "267 tokens, but the model has 260");
    free(pieces.at);

    const char *corpus[] = { fixture("golden/train-tokenizer/corpus.txt") };
    weft_tokenizer_train_options o = { .struct_size = sizeof o,
                                       .n_vocab = 400,
                                       .special = (const char *[]){ "<s>", "</s>" },
                                       .n_special = 2 };
    assert_int_equal(weft_tokenizer_train(corpus, 1, temp_path("learned.json"), &o, NULL, &err),
                     WEFT_OK);
    bytes learned = { 0 };
    learned.at = (uint8_t *)read_whole(temp_path("learned.json"), &n);
    learned.n = n;
    directory = directory_with("learned", &learned, 400);
    gguf = temp_path("learned.gguf");
    converted(directory, gguf, (convert_options){ 0 });
    same_ids(directory, gguf, "the baker's bread, 12 loaves \xC3\xA9", "gpt-2");
    free(learned.at);

    static const char *const berts[] = { "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]" };
    for (int cased = 0; cased < 2; cased++) {
        weft_tokenizer_train_options words = { .struct_size = sizeof words,
                                               .model = WEFT_TOKENS_WORDPIECE,
                                               .n_vocab = 300,
                                               .cased = cased,
                                               .special = berts,
                                               .n_special = 5 };
        assert_int_equal(
            weft_tokenizer_train(corpus, 1, temp_path("words.json"), &words, NULL, &err), WEFT_OK);
        learned.at = (uint8_t *)read_whole(temp_path("words.json"), &n);
        learned.n = n;
        directory = directory_with(cased ? "cased" : "words", &learned, 310);
        gguf = temp_path(cased ? "cased.gguf" : "words.gguf");
        converted(directory, gguf, (convert_options){ 0 });
        same_ids(directory, gguf, "The BAKER'S bread, 12 loaves \xC3\xA9 \xE6\x97\xA5", "default");
        same_ids(directory, gguf, "[MASK] unbreadable", "default");
        free(learned.at);
    }
}

/* ---- tokens that end a text ------------------------------------------------------------------ */

static void ends_of_texts(void **state)
{
    (void)state;
    static const char generation[] = "{\"eos_token_id\": [2, 5, 9, 99999], \"temperature\": 0.6}";
    char dir[256], gguf[256];
    snprintf(dir, sizeof dir, "%s",
             variant("llama-gqa", "ends", "\"eos_token_id\": 2", "\"eos_token_id\": [7, 2]"));
    snprintf(gguf, sizeof gguf, "%s", temp_path("ends.gguf"));
    temp_file("ends/generation_config.json", generation, sizeof generation - 1);
    converted(dir, gguf, (convert_options){ 0 });
    const char *path[] = { dir, gguf };
    for (int i = 0; i < 2; i++) {
        weft_error err;
        weft_model *m = weft_model_open(path[i], NULL, &err);
        assert_non_null(m);
        weft_model_info info = { .struct_size = sizeof info };
        weft_model_get_info(m, &info);
        assert_int_equal(info.eos_id, 7);
        for (int32_t id = -1; id < 20; id++)
            assert_int_equal(weft_model_is_end(m, id), id == 2 || id == 5 || id == 7 || id == 9);
        weft_model_close(m);
    }
    for (int64_t k = 1;; k++) {
        host h;
        model m;
        stop_ids e;
        faults memory = { 0 };
        weft_error err = { 0 };
        host_faulty(&h, &memory, NULL);
        assert_int_equal(model_open(&m, dir, WEFT_LOAD_COPY, &h, &err), WEFT_OK);
        memory.fail_at = memory.calls + k;
        const weft_status status = stop_ids_read(&e, &m, &err);
        const bool last = memory.calls < memory.fail_at;
        assert_true(last ? status == WEFT_OK : err.code == WEFT_ENOMEM);
        model_close(&m);
        assert_int_equal(memory.live, 0);
        if (last)
            break;
    }
    temp_file("ends/generation_config.json", "{", 1);
    weft_error err;
    assert_null(weft_model_open(dir, NULL, &err));
    assert_non_null(strstr(err.message, "generation_config.json: line 1"));
}

/* ---- what cannot be -------------------------------------------------------------------------- */

static void wrong_wishes(void **state)
{
    (void)state;
    const char *from = golden_path("gpt2"), *gguf = temp_path("wishes.gguf");
    converted(from, gguf, (convert_options){ 0 });
    refused(from, gguf, (convert_options){ 0 }, WEFT_EIO,
            "already exists; use --force to overwrite");
    refused(gguf, from, (convert_options){ 0 }, WEFT_EIO, "config.json: already exists");
    refused(from, temp_path("wishes.bin"), (convert_options){ 0 }, WEFT_EINVAL,
            "not a directory; the name of a GGUF file must end in .gguf");
    refused(gguf, temp_path("wishes.gguf/x"), (convert_options){ 0 }, WEFT_EIO, "cannot create");
    refused(from, temp_path("nowhere/wishes.gguf"), (convert_options){ 0 }, WEFT_EIO,
            "cannot create: No such file");
    refused(gguf, temp_path("wishes.d"),
            (convert_options){ .target = quant_target_by_name("q8_0") }, WEFT_EINVAL,
            "not a safetensors type; expected f32, f16 or bf16");
    refused(temp_path("absent"), gguf, (convert_options){ .force = true }, WEFT_EIO, "cannot open");
    const bytes b = gguf_llama(&(llama_shape){ 1, 32, 4, 2, 32, 40, 64, 0, &dtype_f32, "qwen2" });
    refused(temp_file("no-biases.gguf", b.at, b.n), temp_path("no-biases"), (convert_options){ 0 },
            WEFT_EUNSUPPORTED, "config.json has no key for biases on some");
    free(b.at);
    const char *dir = temp_path("named");
    mkdir(dir, 0700);
    const convert_report r = converted(from, dir,
                                       (convert_options){ .target = quant_target_by_name("f16") });
    assert_string_equal(strrchr(r.path, '/') + 1, "gpt2-30K-F16.gguf");
    assert_int_equal(unlink(r.path), 0);
    assert_int_equal(mkdir(r.path, 0700), 0); /* a directory already has that name */
    refused(from, dir, (convert_options){ .target = quant_target_by_name("f16") }, WEFT_EIO,
            "gpt2-30K-F16.gguf: already exists");
    rmdir(r.path);
}

/* GPT-2 with another GELU: GGUF has no key for it, weft's own file keeps config.json. */
static void no_key_for_it(void **state)
{
    (void)state;
    const char *gelu = variant("gpt2", "gelu", "\"gelu_new\"", "\"gelu\"");
    converted(gelu, temp_path("gelu.gguf"), (convert_options){ 0 });
    same_logits(gelu, temp_path("gelu.gguf"), 0);
    converted(golden_path("gpt2"), temp_path("gelu.gguf"), (convert_options){ 0 });
    int64_t n;
    float *plain = logits(temp_path("gelu.gguf"), &n), *other = logits(gelu, &n);
    assert_memory_not_equal(plain, other, (size_t)n * sizeof *plain);
    free(plain);
    free(other);
}

static void changed_behind_its_back(void **state)
{
    (void)state;
    const char *gguf = temp_path("changed.gguf");
    size_t n;
    converted(golden_path("gpt2"), gguf, (convert_options){ 0 });
    char *data = read_whole(gguf, &n);
    char *key = memmem(data, n, "layer_norm_epsilon", 18);
    assert_non_null(key);
    memcpy(key + 18 + 4, &(float){ 0.5f }, 4);
    gguf = temp_file("changed.gguf", data, n);
    free(data);
    refused(gguf, temp_path("changed"), (convert_options){ 0 }, WEFT_EFORMAT,
            "attention.layer_norm_epsilon is 0.5, but 1e-05 in its embedded config.json");
}

static bool stop_at_half(void *ud, uint64_t done, uint64_t total)
{
    *(int *)ud += 1;
    return done < total / 2;
}

static void stopped(void **state)
{
    (void)state;
    int calls = 0;
    const char *gguf = temp_path("stopped.gguf");
    refused(golden_path("gpt2"), gguf,
            (convert_options){ .progress = stop_at_half, .progress_ud = &calls }, WEFT_ESTOPPED,
            "stopped");
    assert_true(calls > 1);
    assert_int_equal(access(gguf, F_OK), -1);
}

/* ---- what no model needs --------------------------------------------------------------------- */

/* GPT-2 as its authors published it, with attention masks among the weights. */
static const char *with_masks(void)
{
    static const char *const masks[] = { "transformer.h.0.attn.bias",
                                         "transformer.h.0.attn.masked_bias",
                                         "transformer.h.1.attn.bias" };
    static const float number[1] = { 1 };
    const int64_t one = 1;
    host h;
    save s;
    container x;
    safetensors_writer w;
    weft_error err = { 0 };
    size_t n;
    char *config = read_whole(fixture("golden/gpt2/config.json"), &n);
    host_plain(&h);
    assert_int_equal(container_open(&x, golden_path("gpt2"), WEFT_LOAD_COPY, &h, &err), WEFT_OK);
    save_begin(&s, &h, &err);
    save_directory(&s, temp_path("masks"));
    save_file(&s, temp_path("masks/config.json"));
    save_put(&s, config, n);
    safetensors_writer_begin(&w, &s);
    for (int64_t i = 0; i < x.n_tensor; i++)
        safetensors_add(&w, x.tensor[i].name, x.tensor[i].type, x.tensor[i].n_dim,
                        x.tensor[i].shape);
    for (int i = 0; i < 3; i++)
        safetensors_add(&w, masks[i], &dtype_f32, 1, &one);
    safetensors_writer_head(&w, temp_path("masks/model.safetensors"));
    for (int64_t i = 0; i < x.n_tensor; i++)
        safetensors_writer_data(&w, x.tensor[i].data, x.tensor[i].bytes);
    for (int i = 0; i < 3; i++)
        safetensors_writer_data(&w, number, sizeof number);
    safetensors_writer_end(&w);
    assert_int_equal(save_commit(&s), WEFT_OK);
    container_close(&x);
    free(config);
    return temp_path("masks");
}

static void left_out(void **state)
{
    (void)state;
    char from[1024];
    snprintf(from, sizeof from, "%s", with_masks());
    const convert_report plain = converted(golden_path("gpt2"), temp_path("plain.gguf"),
                                           (convert_options){ 0 });
    const convert_report masked = converted(from, temp_path("masked.gguf"), (convert_options){ 0 });
    assert_int_equal(plain.n_left_out, 0);
    assert_int_equal(masked.n_left_out, 3);
    assert_int_equal(masked.n_tensor, plain.n_tensor);
    same_logits(golden_path("gpt2"), temp_path("masked.gguf"), 0);
}

/* ---- every call that can fail ---------------------------------------------------------------- */

static void no_leftovers(void)
{
    DIR *d = opendir(temp_path("faults"));
    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d)) != NULL;)
        if (strstr(e->d_name, ".part"))
            fail_msg("%s is left behind", e->d_name);
    closedir(d);
}

typedef struct tally {
    int64_t points, survived;
} tally;

/* A failure leaves the old file; only the fsync of its directory comes after the rename. Restores
 * the old file. */
static void old_or_new(const char *path, const char *old, size_t n_old, weft_status status,
                       const weft_error *err)
{
    size_t n;
    char *now = read_whole(path, &n);
    const bool is_old = n == n_old && memcmp(now, old, n_old) == 0;
    free(now);
    if (status != WEFT_OK && !is_old && !strstr(err->message, "the directory of"))
        fail_msg("%s: the old file is gone (%s)", path, err->message);
    if (is_old)
        return;
    FILE *f = fopen(path, "wb");
    assert_int_equal(fwrite(old, 1, n_old, f), n_old);
    assert_int_equal(fclose(f), 0);
}

/* The directory has all files, with the right contents. */
static void whole_directory(const char *path)
{
    DIR *d = opendir(temp_path("faults/whole"));
    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d)) != NULL;) {
        char a[2048], b[2048];
        if (e->d_name[0] == '.')
            continue;
        snprintf(a, sizeof a, "%s/%s", temp_path("faults/whole"), e->d_name);
        snprintf(b, sizeof b, "%s/%s", path, e->d_name);
        same_file(a, b);
    }
    closedir(d);
}

/* One conversion over an existing file, in which the k-th call fails. */
static bool fault(const char *from, const char *to, convert_options o, bool files, int64_t k,
                  bool sticky, const char *old, size_t n_old, tally *n)
{
    host h;
    weft_error err;
    convert_report r;
    faults memory = { 0 }, io = { 0 }, *chosen = files ? &io : &memory;
    *chosen = (faults){ .fail_at = k, .sticky = sticky };
    host_faulty(&h, &memory, &io);
    const weft_status status = try_with(from, to, o, &h, &r, &err);
    const weft_status want = files ? WEFT_EIO : WEFT_ENOMEM;
    if (status != WEFT_OK && (err.code != want || !err.message[0]))
        fail_msg("%s: call %lld failed: got %d \"%s\", expected %d", to, (long long)k,
                 (int)err.code, err.message, (int)want);
    if (memory.live || io.live || atomic_load(&h.mem.used))
        fail_msg("%s: call %lld failed: %lld blocks, %lld files are left", to, (long long)k,
                 (long long)memory.live, (long long)io.live);
    if (old)
        old_or_new(to, old, n_old, status, &err);
    else if (status == WEFT_OK)
        whole_directory(to);
    no_leftovers();
    if (chosen->calls < k)
        return false;
    n->points++;
    n->survived += status == WEFT_OK;
    return true;
}

static int64_t stride = 1; /* of the calls that fail */

static void all_faults(const char *source, const char *target, convert_options o, const char *what)
{
    char from[1024], to[1024];
    snprintf(from, sizeof from, "%s", source);
    snprintf(to, sizeof to, "%s", target);
    size_t n_old = 0;
    char *old = o.to == WEFT_FORMAT_HF ? NULL : read_whole(to, &n_old);
    for (int files = 0; files < 2; files++) {
        tally n = { 0 };
        for (int sticky = 0; sticky < 2; sticky++)
            for (int64_t k = 1; fault(from, to, o, files, k, sticky, old, n_old, &n);
                 k += quick() ? 7 : stride) {}
        print_message("%s: %lld fault points in %s, %lld survived\n", what, (long long)n.points,
                      files ? "files" : "memory", (long long)n.survived);
        assert_true(n.points > 0 && n.survived < n.points);
    }
    free(old);
}

static void faults_everywhere(void **state)
{
    (void)state;
    const bytes json = piece_tokenizer();
    char from[1024], gguf[1024];
    snprintf(from, sizeof from, "%s", directory_with("faulty", &json, 300));
    free(json.at);
    mkdir(temp_path("faults"), 0700);
    snprintf(gguf, sizeof gguf, "%s", temp_file("faults/model.gguf", "old", 3));
    all_faults(from, gguf, (convert_options){ .force = true, .load = WEFT_LOAD_MAP },
               "a directory into GGUF");
    converted(from, gguf, (convert_options){ .target = quant_target_by_name("f16") });
    all_faults(gguf, gguf, (convert_options){ .force = true, .load = WEFT_LOAD_MAP },
               "a mapped GGUF file onto itself");
    const convert_options directory = { .to = WEFT_FORMAT_HF, .force = true, .max_shard = 4000 };
    converted(from, temp_path("faulty.gguf"), (convert_options){ 0 });
    converted(temp_path("faulty.gguf"), temp_path("faults/whole"), directory);
    all_faults(temp_path("faulty.gguf"), temp_path("faults/hf"), directory,
               "GGUF into a directory");
    convert_options typed = directory;
    typed.target = quant_target_by_name("f16");
    converted(from, temp_path("faults/whole"), typed);
    all_faults(from, temp_path("faults/hf"), typed, "a directory into another type");
    const convert_options whole = { .to = WEFT_FORMAT_HF, .force = true };
    converted(golden_path("gpt-oss-mxfp4"), temp_path("faults/whole"), whole);
    stride = 5;
    all_faults(golden_path("gpt-oss-mxfp4"), temp_path("faults/hf"), whole, "MXFP4 into BF16");
    stride = 1;
}

/* A directory that did not exist is removed on any failure. */
static void no_half_directories(void **state)
{
    (void)state;
    const char *from = temp_path("whole.gguf"), *to = temp_path("half");
    converted(golden_path("qwen2"), from, (convert_options){ 0 });
    for (int64_t k = 1;; k++) {
        host h;
        weft_error err;
        convert_report r;
        faults io = { .fail_at = k, .sticky = true };
        host_faulty(&h, NULL, &io);
        const weft_status status = try_with(from, to, (convert_options){ .max_shard = 50000 }, &h,
                                            &r, &err);
        if (status == WEFT_OK)
            break;
        if (access(to, F_OK) == 0 && !strstr(err.message, "the directory of"))
            fail_msg("call %lld failed (%s), and the directory is left", (long long)k, err.message);
        if (access(to, F_OK) == 0)
            break;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST("convert: unused tensors are left out and counted", left_out),
        TEST("convert: each row of the table survives the round trip bit by bit, and computes the "
             "same",
             there_and_back),
        TEST("convert: config.json is made from GGUF's keys if none was kept",
             configuration_from_facts),
        TEST("convert: GGUF to a directory and back gives the same file", from_gguf_and_back),
        TEST("convert: windows on unusual layers go to GGUF and back", windows_by_layer),
        TEST("convert: experts in MXFP4 go from a directory to GGUF without loss", packed_experts),
        TEST("convert: types survive the round trip, vectors too", types_come_back),
        TEST("convert: rows that do not fill blocks become f16", blocks_or_f16),
        TEST("convert: the error of a mix is that of its formats, on any number of threads", a_mix),
        TEST("convert: a value that f16 cannot hold is an error", numbers_that_do_not_fit),
        TEST("convert: several files hold the same as one", parts),
        TEST("convert: a file may be exactly full", full_parts),
        TEST("convert: onto its own source file", onto_itself),
        TEST("convert: tokenizers give the same ids from both sources, and survive the round trip",
             tokenizers),
        TEST("convert: all stop tokens are known in both formats", ends_of_texts),
        TEST("convert: impossible requests are refused by name", wrong_wishes),
        TEST("convert: settings without a GGUF key keep their config.json", no_key_for_it),
        TEST("convert: a file whose keys were changed does not get its old config.json",
             changed_behind_its_back),
        TEST("convert: the caller can stop it, and nothing is left", stopped),
        TEST("convert: any failed call leaves the old file complete and no new one",
             faults_everywhere),
        TEST("convert: a directory is written completely or not at all", no_half_directories),
    };
    return RUN(tests);
}
