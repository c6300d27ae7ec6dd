/* DeepSeek: attention over latents equals attention over keys and values, the cache holds nothing
 * else, experts may be quantised, both layouts of GGUF are one model, and invalid configurations
 * are refused by name. test_golden and test_train compare with transformers, test_arrangements
 * covers batches. */
#include "small_model.h"

#include "edited.h"
#include "formats/gguf_write.h"
#include "models/convert.h"
#include "tensor/tape.h"

enum { T = 40 };

/* ---- absorbed and naive ---------------------------------------------------------------------- */

typedef struct text {
    batch_row row[T];
    sequence seq;
    batch batch;
} text;

static void text_init(text *t, int64_t n_vocab)
{
    t->seq = (sequence){ .n = T, .source = -1 };
    t->batch = (batch){ .n_row = T, .n_seq = 1, .n_wanted = T, .row = t->row, .seq = &t->seq };
    for (int i = 0; i < T; i++)
        t->row[i] = (batch_row){ .id = (int32_t)(draw(3, (uint64_t)i) % (uint32_t)n_vocab),
                                 .pos = i,
                                 .wanted = true };
}

/* Logits of all rows, with keys and values or without. */
static real *logits_of(const model *m, bool naive)
{
    text t;
    run r;
    tape recorded = { 0 };
    weft_error err = { 0 };
    text_init(&t, m->n_vocab);
    assert_int_equal(run_init(&r, &m->host->mem, 1 << 20, 16 << 20, 16 << 20, &err), WEFT_OK);
    r.kern = kernels_select(&(log_sink){ 0 });
    run_begin(&r, &t.batch);
    if (naive)
        tape_begin(&r, &recorded);
    const tensor *z = model_forward(&r, m);
    real *kept = malloc((size_t)(T * m->n_vocab) * sizeof *kept);
    memcpy(kept, row(z, 0), (size_t)(T * m->n_vocab) * sizeof *kept);
    run_free(&r);
    return kept;
}

/* Largest difference over the largest number. */
static double distance(const real *a, const real *b, int64_t n)
{
    double worst = 0, largest = 0;
    for (int64_t k = 0; k < n; k++) {
        worst = fmax(worst, fabs((double)a[k] - (double)b[k]));
        largest = fmax(largest, fabs((double)b[k]));
    }
    return worst / largest;
}

static double absorbed_to_naive(const char *path)
{
    host h;
    model m;
    weft_error err = { 0 };
    host_plain(&h);
    if (model_open(&m, path, WEFT_LOAD_COPY, &h, &err) != WEFT_OK)
        fail_msg("%s", err.message);
    real *absorbed = logits_of(&m, false), *naive = logits_of(&m, true);
    const double off = distance(absorbed, naive, T * m.n_vocab);
    assert_true(off > 0); /* they are not the same sums */
    free(absorbed);
    free(naive);
    model_close(&m);
    assert_int_equal(h.mem.used, 0);
    return off;
}

static void absorbed_is_naive(void **state)
{
    (void)state;
    static const char *const goldens[] = { "deepseek-v2-lite", "deepseek-v2", "deepseek-v3",
                                           "deepseek-v3-dense", "glm4-moe-lite" };
    for (size_t i = 0; i < sizeof goldens / sizeof *goldens; i++) {
        char path[128];
        snprintf(path, sizeof path, "golden/%s", goldens[i]);
        const double off = absorbed_to_naive(fixture(path));
        print_message("%-20s absorbed and naive logits differ by %.1e of the largest\n", goldens[i],
                      off);
        assert_true(off < 1e-5);
    }
}

/* ---- the cache ------------------------------------------------------------------------------- */

static void cache_holds_latents(void **state)
{
    (void)state;
    fixture_model f;
    open_deepseek(&f, 3, "f32");
    const model *m = &f.model;
    const dtype *const types[] = { &dtype_f32, &dtype_f16, &dtype_q8_0 };
    for (int i = 0; i < 3; i++) {
        engine *e = make_engine(&f, (engine_options){ .n_thread = 1, .kv = types[i] });
        const size_t position = e->pages.layout.page_bytes / PAGE_ROWS;
        assert_int_equal(position, (size_t)m->n_layer * dtype_row_bytes(types[i], 64 + 32));
        const size_t heads = dtype_row_bytes(types[i], 4 * (16 + 32)) +
                             dtype_row_bytes(types[i], 4 * 24 / 32 * 32);
        print_message(
            "%s: %zu bytes a position, of a latent of 64 and 32 rotary numbers in 3 layers; "
            "keys and values of 4 heads would be %zu\n",
            types[i]->name, position, 3 * heads);
        engine_free(e);
    }
    close_llama(&f);
}

/* ---- what is read ---------------------------------------------------------------------------- */

static void add_read(void *ud, const run *r, const node *n)
{
    const cost c = n->op->cost(r, n);
    *(double *)ud += c.type ? c.read : 0;
}

/* Two of six experts for a row, of 3 matrices of 9 x 24; never more than there are. */
static void chosen_experts_are_read(void **state)
{
    (void)state;
    host h;
    model m;
    weft_error err = { 0 };
    host_plain(&h);
    assert_int_equal(model_open(&m, fixture("golden/deepseek-v3"), WEFT_LOAD_COPY, &h, &err),
                     WEFT_OK);
    for (int n = 1; n <= 5; n++) {
        double read = 0;
        assert_int_equal(engine_tally(&m, n, n - 1, 1, add_read, &read, &err), WEFT_OK);
        assert_true(read == (n < 3 ? 2 * n : 6) * 3 * 9 * 24 * 4);
    }
    model_close(&m);
}

/* ---- quantised ------------------------------------------------------------------------------- */

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Distances of rows of logits, ascending. A row whose experts have nearly equal scores may get
 * others and is then far off; most are not. */
static void row_distances(const real *a, const real *b, int64_t n_vocab, double off[T])
{
    for (int i = 0; i < T; i++)
        off[i] = distance(a + i * n_vocab, b + i * n_vocab, n_vocab);
    qsort(off, T, sizeof *off, by_size);
}

/* Logits of the same file with every weight decoded to f32. */
static real *logits_decoded(const char *path, host *h)
{
    weft_error err = { 0 };
    static convert_report report;
    const char *twin = temp_path("decoded.gguf");
    const convert_options o = { .force = true,
                                .n_thread = 1,
                                .target = quant_target_by_name("f32") };
    model m;
    if (convert_model(path, twin, &o, &report, h, &err) != WEFT_OK ||
        model_open(&m, twin, WEFT_LOAD_COPY, h, &err) != WEFT_OK)
        fail_msg("%s", err.message);
    real *z = logits_of(&m, false);
    model_close(&m);
    return z;
}

/* Two distances: to the same weights as f32, due only to the rounding of rows of x, and to the
 * weights before quantisation. */
static void experts_may_be_quantised(void **state)
{
    (void)state;
    static const struct {
        const char *type;
        double decoded, exact; /* of nine rows of ten */
    } bounds[] = { { "bf16", 0.01, 0.01 }, { "q8_0", 0.02, 0.03 }, { "q4_0", 0.02, 0.2 } };
    fixture_model f;
    open_deepseek(&f, 3, "f32");
    real *exact = logits_of(&f.model, false);
    close_llama(&f);
    for (int i = 0; i < 3; i++) {
        double to_decoded[T], to_exact[T];
        const char *path = open_deepseek(&f, 3, bounds[i].type);
        int64_t n = 0;
        for (int64_t k = 0; k < f.model.n_param; k++)
            n += strstr(f.model.param[k]->name, "_exps.") &&
                 strcmp(f.model.param[k]->type->name, bounds[i].type) == 0;
        assert_int_equal(n, 2 * 3 * 8);
        real *z = logits_of(&f.model, false), *decoded = logits_decoded(path, &f.host);
        row_distances(z, decoded, f.model.n_vocab, to_decoded);
        row_distances(z, exact, f.model.n_vocab, to_exact);
        print_message("%-5s nine rows of ten within %.1e of their decoded weights, %.1e of f32\n",
                      bounds[i].type, to_decoded[T * 9 / 10], to_exact[T * 9 / 10]);
        assert_true(to_decoded[T * 9 / 10] < bounds[i].decoded);
        assert_true(to_exact[0] > 0 && to_exact[T * 9 / 10] < bounds[i].exact);
        free(z);
        free(decoded);
        close_llama(&f);
    }
    free(exact);
}

/* ---- both layouts of GGUF -------------------------------------------------------------------- */

/* Of kv_b [H (P + V), R]: keys [H, R, P], transposed, and values [H, V, R]. */
static void split_heads(const stored *t, int64_t H, int64_t P, int64_t V, int64_t R, float *k,
                        float *v)
{
    const float *w = (const float *)(const void *)t->data;
    for (int64_t h = 0; h < H; h++)
        for (int64_t c = 0; c < R; c++) {
            for (int64_t p = 0; p < P; p++)
                k[(h * R + c) * P + p] = w[(h * (P + V) + p) * R + c];
            for (int64_t e = 0; e < V; e++)
                v[(h * V + e) * R + c] = w[(h * (P + V) + P + e) * R + c];
        }
}

static bool is_kv_b(const stored *t)
{
    return strstr(t->name, "attn_kv_b") != NULL;
}

static void put_keys(gguf_writer *w, const container *c)
{
    for (int64_t i = 0; i < c->n_entry; i++)
        if (!strstr(c->entry[i].key, "key_length") && !strstr(c->entry[i].key, "value_length"))
            gguf_add_meta(w, &c->entry[i]);
    gguf_add_u32(w, "deepseek2.attention.key_length", 64 + 32);
    gguf_add_u32(w, "deepseek2.attention.value_length", 64);
    gguf_add_u32(w, "deepseek2.attention.key_length_mla", 16 + 32);
    gguf_add_u32(w, "deepseek2.attention.value_length_mla", 24);
}

/* The file again in llama.cpp's layout since 2025. */
static void write_split(const container *c, const char *path, host *h)
{
    gguf_writer w;
    save s;
    weft_error err = { 0 };
    static float k[4 * 64 * 16], v[4 * 24 * 64];
    const int64_t k_shape[] = { 4, 64, 16 }, v_shape[] = { 4, 24, 64 };
    save_begin(&s, h, &err);
    gguf_writer_begin(&w, &s);
    put_keys(&w, c);
    for (int64_t i = 0; i < c->n_tensor; i++) {
        const stored *t = &c->tensor[i];
        char name[80];
        if (!is_kv_b(t)) {
            gguf_add_tensor(&w, t->name, t->type, t->n_dim, t->shape);
            continue;
        }
        snprintf(name, sizeof name, "%.6sattn_k_b.weight", t->name);
        gguf_add_tensor(&w, name, &dtype_f32, 3, k_shape);
        snprintf(name, sizeof name, "%.6sattn_v_b.weight", t->name);
        gguf_add_tensor(&w, name, &dtype_f32, 3, v_shape);
    }
    gguf_writer_head(&w, path);
    for (int64_t i = 0; i < c->n_tensor; i++) {
        const stored *t = &c->tensor[i];
        if (!is_kv_b(t)) {
            gguf_writer_data(&w, t->data, t->bytes);
            continue;
        }
        split_heads(t, 4, 16, 24, 64, k, v);
        gguf_writer_data(&w, k, sizeof k);
        gguf_writer_data(&w, v, sizeof v);
    }
    gguf_writer_end(&w);
    if (save_commit(&s) != WEFT_OK)
        fail_msg("%s", err.message);
}

static void layouts_are_one_model(void **state)
{
    (void)state;
    fixture_model f;
    host h;
    model m;
    weft_error err = { 0 };
    static convert_report report;
    const char *split = temp_path("split.gguf"), *again = temp_path("again.gguf");
    open_deepseek(&f, 2, "f32");
    host_plain(&h);
    write_split(&f.model.file, split, &h);
    real *z[3] = { logits_of(&f.model, false) };
    const convert_options o = { .force = true, .n_thread = 1, .to = WEFT_FORMAT_GGUF };
    if (convert_model(split, again, &o, &report, &h, &err) != WEFT_OK)
        fail_msg("%s", err.message);
    for (int i = 0; i < 2; i++) {
        if (model_open(&m, i ? again : split, WEFT_LOAD_COPY, &h, &err) != WEFT_OK)
            fail_msg("%s", err.message);
        z[i + 1] = logits_of(&m, false);
        real *naive = logits_of(&m, true);
        const double off = distance(z[i + 1], z[0], T * m.n_vocab);
        print_message("two tensors, %s: off by %.1e\n", i ? "written again" : "read", off);
        assert_true(off < 1e-5);
        assert_true(distance(naive, z[0], T * m.n_vocab) < 1e-5);
        free(naive);
        model_close(&m);
    }
    assert_memory_equal(z[1], z[2], (size_t)(T * 61) * sizeof(real));
    const convert_options to_hf = { .force = true, .n_thread = 1, .to = WEFT_FORMAT_HF };
    assert_int_equal(convert_model(split, temp_path("hf"), &to_hf, &report, &h, &err),
                     WEFT_EUNSUPPORTED);
    assert_non_null(strstr(err.message, "separate tensors for keys and values"));
    for (int i = 0; i < 3; i++)
        free(z[i]);
    close_llama(&f);
}

/* ---- there and back -------------------------------------------------------------------------- */

static void same_bytes(const char *a, const char *b)
{
    size_t n, k;
    char *x = read_whole(a, &n), *y = read_whole(b, &k);
    assert_int_equal(n, k);
    assert_memory_equal(x, y, n);
    free(x);
    free(y);
}

static void same_tensors(const char *a, const char *b, host *h)
{
    model m[2];
    weft_error err = { 0 };
    for (int i = 0; i < 2; i++)
        if (model_open(&m[i], i ? b : a, WEFT_LOAD_COPY, h, &err) != WEFT_OK)
            fail_msg("%s", err.message);
    assert_int_equal(m[0].file.n_tensor, m[1].file.n_tensor);
    for (int64_t i = 0; i < m[0].file.n_tensor; i++) {
        const stored *t = &m[0].file.tensor[i], *u = container_tensor(&m[1].file, t->name);
        if (!u || u->bytes != t->bytes || memcmp(u->data, t->data, t->bytes) != 0)
            fail_msg("%s: %s is not what it was", b, t->name);
    }
    model_close(&m[0]);
    model_close(&m[1]);
}

/* Directory, GGUF, directory; and GGUF in parts. */
static void there_and_back(void **state)
{
    (void)state;
    static const char *const goldens[] = { "deepseek-v2", "deepseek-v3", "glm4-moe-lite" };
    for (int i = 0; i < 3; i++) {
        host h;
        weft_error err = { 0 };
        static convert_report report;
        char from[128], first[256], second[256];
        const char *gguf = temp_path("back.gguf"), *back = temp_path("back");
        const convert_options o = { .force = true, .n_thread = 1 };
        snprintf(from, sizeof from, "golden/%s", goldens[i]);
        host_plain(&h);
        if (convert_model(fixture(from), gguf, &o, &report, &h, &err) != WEFT_OK ||
            convert_model(gguf, back, &o, &report, &h, &err) != WEFT_OK)
            fail_msg("%s", err.message);
        const convert_options cut = { .force = true, .n_thread = 1, .max_shard = 20000 };
        const char *parts = temp_path("parts.gguf"), *whole = temp_path("whole.gguf");
        if (convert_model(fixture(from), parts, &cut, &report, &h, &err) != WEFT_OK)
            fail_msg("%s", err.message);
        assert_true(report.n_file > 1); /* but the experts of a layer stay together */
        const convert_options join = { .to = WEFT_FORMAT_GGUF, .force = true, .n_thread = 1 };
        static char part[sizeof report.path];
        memcpy(part, report.path, sizeof part);
        if (convert_model(part, whole, &join, &report, &h, &err) != WEFT_OK)
            fail_msg("%s", err.message);
        snprintf(first, sizeof first, "%s/config.json", fixture(from));
        snprintf(second, sizeof second, "%s/config.json", back);
        same_bytes(first, second);
        same_tensors(fixture(from), back, &h);
    }
}

/* Layers that predict further tokens are left out and counted; the rest is the same model. */
static void further_layers(void **state)
{
    (void)state;
    static const edit hf[] = {
        { "model.layers.2.eh_proj.weight", &dtype_f32, 2, { 24, 48 }, NULL },
        { "model.layers.2.mlp.experts.0.up_proj.weight", &dtype_f32, 2, { 9, 24 }, NULL }
    };
    static const edit gguf[] = {
        { "blk.2.nextn.eh_proj.weight", &dtype_f32, 2, { 24, 48 }, NULL }
    };
    static convert_report report;
    host h;
    weft_error err = { 0 };
    const convert_options o = { .force = true, .n_thread = 1, .to = WEFT_FORMAT_GGUF };
    const char *plain = temp_path("plain.gguf"), *less = temp_path("less.gguf");
    host_plain(&h);
    if (convert_model(fixture("golden/glm4-moe-lite"), plain, &o, &report, &h, &err) != WEFT_OK)
        fail_msg("%s", err.message);
    const char *directory = edited_directory(fixture("golden/glm4-moe-lite"), "further", hf, 2,
                                             "\"n_group\"",
                                             "\"num_nextn_predict_layers\": 1, \"n_group\"");
    const char *other = edited_gguf(plain, "further.gguf", gguf, 1, "deepseek2.block_count", 3,
                                    "deepseek2.nextn_predict_layers", 1);
    for (int i = 0; i < 2; i++) {
        if (convert_model(i ? other : directory, less, &o, &report, &h, &err) != WEFT_OK)
            fail_msg("%s", err.message);
        assert_int_equal(report.n_left_out, i ? 1 : 2);
        same_tensors(plain, less, &h);
        model m;
        assert_int_equal(model_open(&m, less, WEFT_LOAD_COPY, &h, &err), WEFT_OK);
        assert_int_equal(m.n_layer, 2);
        assert_int_equal(container_meta(&m.file, "deepseek2.block_count")->integer, 2);
        assert_null(container_meta(&m.file, "deepseek2.nextn_predict_layers"));
        model_close(&m);
    }
    static const uint32_t wrong[] = { 3, 4 }; /* nothing would be left */
    for (int i = 0; i < 2; i++) {
        const char *all = edited_gguf(plain, "all.gguf", gguf, 1, "deepseek2.block_count", 3,
                                      "deepseek2.nextn_predict_layers", wrong[i]);
        model m;
        assert_int_equal(model_open(&m, all, WEFT_LOAD_COPY, &h, &err), WEFT_EFORMAT);
        assert_non_null(strstr(err.message, "nextn_predict_layers"));
    }
    /* Not announced, they are unexpected. */
    model m;
    const char *silent = edited_directory(fixture("golden/glm4-moe-lite"), "silent", hf, 2, NULL,
                                          NULL);
    assert_int_equal(model_open(&m, silent, WEFT_LOAD_COPY, &h, &err), WEFT_EUNSUPPORTED);
    assert_non_null(strstr(err.message, "unexpected tensor model.layers.2."));
}

/* A word for each layer: dense ones first. */
static void layer_words(void **state)
{
    (void)state;
    static const char was[] = "\"dense\",\n    \"sparse\"";
    static const struct {
        const char *is, *says;
    } cases[] = { { "\"sparse\", \"dense\"", "mlp_layer_types.1 is \"dense\"" },
                  { "\"dense\", \"some\"", "mlp_layer_types.1 is \"some\"" },
                  { "\"dense\"", "mlp_layer_types.1 is \"missing\"" },
                  { "\"dense\", 3", "mlp_layer_types.1 is not text" },
                  { "\"dense\", \"dense\"", "unexpected tensor" } };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        host h;
        model m;
        weft_error err = { 0 };
        host_plain(&h);
        const char *path = edited_directory(fixture("golden/glm4-moe-lite"), "words", NULL, 0, was,
                                            cases[i].is);
        assert_int_not_equal(model_open(&m, path, WEFT_LOAD_COPY, &h, &err), WEFT_OK);
        if (!strstr(err.message, cases[i].says) && i != 4)
            fail_msg("\"%s\" does not say %s", err.message, cases[i].says);
    }
}

/* ---- configurations -------------------------------------------------------------------------- */

static const struct {
    const char *version, *says, *expects; /* NULL: it is fine */
} configurations[] = {
    { "3", "\"n_routed_experts\": 8, \"num_experts_per_tok\": 3", NULL },
    { "3", "\"n_routed_experts\": 8, \"num_experts_per_tok\": 9", "num_experts_per_tok is 9" },
    { "3", "\"n_routed_experts\": 0, \"num_experts_per_tok\": 1", "n_routed_experts is 0" },
    { "3", "\"n_routed_experts\": 1025, \"num_experts_per_tok\": 1", "n_routed_experts is 1025" },
    { "3", "\"n_routed_experts\": 8, \"num_experts_per_tok\": 2, \"n_group\": 3", "of 3 groups" },
    { "3", "\"n_routed_experts\": 8, \"num_experts_per_tok\": 3, \"n_group\": 4, \"topk_group\": 1",
      "1 of 4 groups" },
    { "3", "\"n_routed_experts\": 8, \"num_experts_per_tok\": 2, \"rope_interleave\": false",
      "rope_interleave" },
    { "3", "\"n_routed_experts\": 8, \"num_experts_per_tok\": 2, \"moe_layer_freq\": 2",
      "moe_layer_freq" },
    { "2", "\"n_routed_experts\": 8, \"num_experts_per_tok\": 2, \"topk_method\": \"best\"",
      "topk_method" },
    { "2", "\"n_routed_experts\": 8, \"num_experts_per_tok\": 2, \"norm_topk_prob\": true",
      "norm_topk_prob" },
    { "2",
      "\"n_routed_experts\": 8, \"num_experts_per_tok\": 2, \"rope_scaling\": {\"type\": \"yarn\", "
      "\"factor\": 4, \"mscale\": -1}",
      "rope_scaling.mscale is -1" },
};

static void configurations_are_checked(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof configurations / sizeof *configurations; i++) {
        host h;
        model m;
        weft_error err = { 0 };
        char config[1024];
        host_plain(&h);
        const int n = snprintf(
            config, sizeof config,
            "{\"model_type\": \"deepseek_v%s\", \"num_hidden_layers\": 2, \"hidden_size\": 8,"
            "\"num_attention_heads\": 2, \"intermediate_size\": 8, \"vocab_size\": 9,"
            "\"max_position_embeddings\": 16, \"kv_lora_rank\": 4, \"qk_nope_head_dim\": 2,"
            "\"qk_rope_head_dim\": 2, \"v_head_dim\": 3, \"moe_intermediate_size\": 4, %s}",
            configurations[i].version, configurations[i].says);
        const weft_status status = model_design(&m, config, (size_t)n, &h, &err);
        if (configurations[i].expects) {
            assert_int_not_equal(status, WEFT_OK);
            if (!strstr(err.message, configurations[i].expects))
                fail_msg("\"%s\" does not tell of %s", err.message, configurations[i].expects);
        } else {
            if (status != WEFT_OK)
                fail_msg("%s", err.message);
            model_close(&m);
        }
        assert_int_equal(h.mem.used, 0);
    }
}

/* ---- learning -------------------------------------------------------------------------------- */

typedef struct watched {
    double first, last; /* highest load of an expert over the mean, at the start and smoothed */
} watched;

static bool watch(void *ud, const weft_train_progress *p, weft_model *m)
{
    (void)m;
    watched *w = ud;
    if (!isfinite(p->expert_most))
        return true;
    w->first = w->first > 0 ? w->first : p->expert_most;
    w->last = w->last > 0 ? 0.9 * w->last + 0.1 * p->expert_most : p->expert_most;
    assert_true(p->expert_least >= 0 && p->expert_least <= 1 && p->expert_most >= 1);
    return true;
}

/* Nats per letter if only frequencies are known. */
static double unigram(const char *path)
{
    size_t size;
    char *letters = read_whole(path, &size);
    double count[256] = { 0 }, nats = 0;
    for (size_t i = 0; i < size; i++)
        count[(unsigned char)letters[i]]++;
    for (int c = 0; c < 256; c++)
        nats -= count[c] > 0 ? count[c] / (double)size * log(count[c] / (double)size) : 0;
    free(letters);
    return nats;
}

static void learns_shakespeare(void **state)
{
    (void)state;
    const char *data = asset_head("data/tinyshakespeare/input.txt", quick() ? 20000 : SIZE_MAX);
    static const char *const archs_of[] = { "deepseek_v2", "deepseek_v3" };
    for (int i = 0; i < 2; i++) {
        weft_error err = { 0 };
        watched w = { 0 };
        weft_train_info info = { .struct_size = sizeof info };
        weft_train_options o;
        weft_train_defaults(&o, sizeof o);
        o.out = temp_path(archs_of[i]);
        o.arch = archs_of[i];
        o.data = &data;
        o.n_data = 1;
        o.characters = true;
        o.n_layer = 2;
        o.d_model = 32;
        o.n_head = 2;
        o.n_ctx = quick() ? 16 : 32;
        o.n_sample = quick() ? 2 : 8;
        o.n_step = quick() ? 6 : 200; /* emulators skip the training */
        o.lr = 5e-3;
        o.validation = quick() ? 0.01 : 0.002;
        o.eval_every = o.save_every = 0;
        o.threads = quick() ? 1 : 2;
        o.progress = watch;
        o.progress_ud = &w;
        if (weft_train(&o, &info, &err) != WEFT_OK)
            fail_msg("%s", err.message);
        print_message(
            "%s: %.3f nats after %lld steps, unigrams have %.3f; the busiest expert has %.2f "
            "of the mean, at first %.2f\n",
            archs_of[i], info.val_loss, (long long)info.step, unigram(data), w.last, w.first);
        assert_true(quick() || info.val_loss < unigram(data) - 0.1);
        assert_true(w.first > 0);
        weft_model *m = weft_model_open(o.out, NULL, &err);
        if (!m)
            fail_msg("%s", err.message);
        weft_model_close(m);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST("deepseek: absorbed equals naive within 1e-5", absorbed_is_naive),
        TEST("deepseek: the cache holds a latent and a rotary key, and nothing else",
             cache_holds_latents),
        TEST("deepseek: only chosen experts are read, and counted in estimates",
             chosen_experts_are_read),
        TEST("deepseek: experts of every type multiply", experts_may_be_quantised),
        TEST("deepseek: keys and values in one tensor of GGUF or in two are one model",
             layouts_are_one_model),
        TEST("deepseek: a directory survives the round trip through GGUF", there_and_back),
        TEST("deepseek: layers that predict further tokens are left out and counted",
             further_layers),
        TEST("deepseek: layers without experts come first", layer_words),
        TEST("deepseek: invalid configurations are named", configurations_are_checked),
        TEST("deepseek: learns tinyshakespeare, and reports the load of its experts",
             learns_shakespeare),
    };
    return RUN(tests);
}
