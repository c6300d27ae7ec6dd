/* Adapters merged into their models: the files compute what PEFT computed beside the model, in both
 * formats; heads that shared the embedding get their own matrix; what cannot be merged is refused by
 * name. */
#include "adapt/merge.h"
#include "edited.h"
#include "golden_adapters.h"
#include "models/convert.h"
#include "support.h"

#include <math.h>

static const char *const both[] = { "merged.gguf", "merged" };

/* Merges into a file or a directory. */
static weft_status merge_into(const char *base, const char *lora_dir, double strength,
                              const char *to, const char *type, convert_report *report,
                              weft_error *err)
{
    host h;
    merge g;
    host_plain(&h);
    weft_status status = merge_open(&g, base, lora_dir, strength, WEFT_LOAD_COPY, &h, err);
    if (status == WEFT_OK) {
        const convert_options o = { .force = true,
                                    .n_thread = 1,
                                    .to = strstr(to, ".gguf") ? WEFT_FORMAT_GGUF : WEFT_FORMAT_HF,
                                    .target = type ? quant_target_by_name(type) : NULL,
                                    .merged = g.merged,
                                    .n_merged = g.m.n_param,
                                    .head = g.head };
        status = convert_model(base, to, &o, report, &h, err);
    }
    merge_close(&g);
    assert_int_equal(atomic_load(&h.mem.used), 0);
    return status;
}

static void check_merged(const char *name, const char *base, const char *how)
{
    for (int i = 0; i < 2; i++) {
        rig r;
        weft_error err = { 0 };
        static convert_report report;
        char what[64], to[4096];
        snprintf(what, sizeof what, "merged from %s into %s", how, i ? "a directory" : "GGUF");
        snprintf(to, sizeof to, "%s", temp_path(both[i]));
        if (merge_into(base, adapter_path(name), 1, to, NULL, &report, &err) != WEFT_OK)
            fail_msg("%s, %s: %s", name, what, err.message);
        open_model(&r, to);
        check_forward(name, &r.model, NULL, what);
        close_both(&r);
    }
}

static void outputs(void **state)
{
    (void)state;
    for (size_t i = 0; i < n_adapter_golden; i++)
        check_merged(adapter_goldens[i].name, golden_path(adapter_goldens[i].base), "a directory");
}

static void outputs_gguf(void **state)
{
    (void)state;
    for (size_t i = 0; i < n_adapter_golden; i++) {
        char base[4096];
        snprintf(base, sizeof base, "%s",
                 as_gguf(golden_path(adapter_goldens[i].base), "base.gguf"));
        check_merged(adapter_goldens[i].name, base, "GGUF");
    }
}

/* A directory of a model whose head shared the embedding says that it no longer does; one that is
 * not touched still does. */
static void heads(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        bool tied;
    } cases[] = { { "llama-head", false }, { "llama-embedding", false }, { "llama-lora", true } };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        rig r;
        size_t n;
        weft_error err = { 0 };
        static convert_report report;
        char to[4096], config[4200];
        snprintf(to, sizeof to, "%s", temp_path(cases[i].name));
        assert_int_equal(merge_into(golden_path("llama-gqa"), adapter_path(cases[i].name), 1, to,
                                    NULL, &report, &err),
                         WEFT_OK);
        snprintf(config, sizeof config, "%s/config.json", to);
        char *text = read_whole(config, &n);
        const char *at = memmem(text, n, "\"tie_word_embeddings\"", 21);
        assert_that(at && !strncmp(at + 23, cases[i].tied ? "true" : "false", 4), "%.40s",
                    at ? at : "no key");
        free(text);
        open_model(&r, to);
        assert_int_equal(container_tensor(&r.model.file, "lm_head.weight") == NULL, cases[i].tied);
        close_both(&r);
    }
}

/* The strength multiplies what is added; types are the base's, or the one asked for. */
static void strengths(void **state)
{
    (void)state;
    rig base, r[2];
    weft_error err = { 0 };
    static convert_report report;
    const char *path = golden_path("llama-gqa");
    open_model(&base, path);
    for (int i = 0; i < 2; i++) {
        char to[4096];
        snprintf(to, sizeof to, "%s", temp_path("half.gguf"));
        assert_int_equal(
            merge_into(path, adapter_path("llama-layers"), i ? 0.5 : 1, to, NULL, &report, &err),
            WEFT_OK);
        assert_ptr_equal(report.type, &dtype_f32);
        open_model(&r[i], to);
    }
    const tensor *w = param_of(&base.model, "blk.1.ffn_up", ".weight");
    const float *was = w->data, *whole = param_of(&r[0].model, "blk.1.ffn_up", ".weight")->data;
    const float *half = param_of(&r[1].model, "blk.1.ffn_up", ".weight")->data;
    double most = 0;
    for (int64_t k = 0; k < rows(w) * cols(w); k++) {
        const double full = (double)whole[k] - (double)was[k];
        const double other = (double)half[k] - (double)was[k];
        most = fabs(full) > most ? fabs(full) : most;
        assert_true(fabs(other - full / 2) < 1e-6);
    }
    assert_true(most > 0.1);
    for (int i = 0; i < 2; i++)
        close_both(&r[i]);
    close_both(&base);

    char to[4096];
    snprintf(to, sizeof to, "%s", temp_path("bf16.gguf"));
    assert_int_equal(merge_into(path, adapter_path("llama-layers"), 1, to, "bf16", &report, &err),
                     WEFT_OK);
    assert_ptr_equal(report.type, &dtype_bf16);
}

/* What changes in a quantised model becomes f16, and the rest stays as it was. */
static void quantised(void **state)
{
    (void)state;
    host h;
    rig r;
    weft_error err = { 0 };
    static convert_report report;
    char q8[4096], to[4096];
    const convert_options o = {
        .force = true, .n_thread = 1, .to = WEFT_FORMAT_GGUF, .target = quant_target_by_name("q8_0")
    };
    host_plain(&h);
    snprintf(q8, sizeof q8, "%s", temp_path("q8.gguf"));
    snprintf(to, sizeof to, "%s", temp_path("merged-q8.gguf"));
    assert_int_equal(convert_model(golden_path("phi3"), q8, &o, &report, &h, &err), WEFT_OK);
    assert_int_equal(merge_into(q8, adapter_path("phi3-fused"), 1, to, NULL, &report, &err),
                     WEFT_OK);
    open_model(&r, to);
    int n_f16 = 0, n_q8 = 0;
    for (int64_t i = 0; i < r.model.file.n_tensor; i++) {
        n_f16 += r.model.file.tensor[i].type == &dtype_f16;
        n_q8 += r.model.file.tensor[i].type == &dtype_q8_0;
    }
    assert_that(n_f16 > 0 && n_q8 > 0, "%d f16, %d q8_0", n_f16, n_q8);
    close_both(&r);
}

static void refusals(void **state)
{
    (void)state;
    static const struct {
        const char *name, *base;
        double strength;
        weft_status code;
        const char *says;
    } cases[] = {
        { "llama-dora", "llama-mqa", 0.5, WEFT_EINVAL, "is merged at strength 1, not 0.5" },
        { "llama-saved", "llama-mqa", 0.5, WEFT_EINVAL, "is merged at strength 1, not 0.5" },
        { "gpt2-lora", "llama-mqa", 1, WEFT_EFORMAT, "gpt2" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        host h;
        weft_error err = { 0 };
        static convert_report report;
        const char *to = temp_path("refused.gguf");
        host_plain(&h);
        assert_int_equal(merge_into(golden_path(cases[i].base), adapter_path(cases[i].name),
                                    cases[i].strength, to, NULL, &report, &err),
                         cases[i].code);
        assert_that(strstr(err.message, cases[i].says), "%s", err.message);
        assert_false(path_exists(to, &h));
    }
}

/* One merge in which the k-th allocation fails. False if there were fewer. */
static bool fault(const char *name, const char *base, int64_t k, int64_t *failed)
{
    host h;
    merge g;
    faults memory = { .fail_at = k };
    weft_error err = { 0 };
    host_faulty(&h, &memory, NULL);
    const weft_status status = merge_open(&g, base, adapter_path(name), 1, WEFT_LOAD_COPY, &h,
                                          &err);
    const bool enough = memory.calls >= k;
    merge_close(&g);
    assert_that(status == WEFT_OK || (err.code == WEFT_ENOMEM && err.message[0]),
                "%s: allocation %lld: %d \"%s\"", name, (long long)k, (int)status, err.message);
    assert_that(!memory.live && !atomic_load(&h.mem.used), "%s: allocation %lld: blocks are left",
                name, (long long)k);
    *failed += status != WEFT_OK;
    return enough;
}

static void injected(void **state)
{
    (void)state;
    static const char *const some[][2] = { { "llama-untied", "llama-gqa" },
                                           { "qwen2-lora-bias", "qwen2" } };
    for (size_t i = 0; i < sizeof some / sizeof *some; i++) {
        int64_t n = 0, failed = 0;
        char base[4096];
        snprintf(base, sizeof base, "%s", golden_path(some[i][1]));
        while (fault(some[i][0], base, n + 1, &failed))
            n++;
        print_message("%s: %lld allocations, %lld failed\n", some[i][0], (long long)n,
                      (long long)failed);
        assert_true(n > 20 && failed > n / 2);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST("merge: models in directories compute what PEFT computes", outputs),
        TEST("merge: so do models in GGUF files", outputs_gguf),
        TEST("merge: a shared head gets its own matrix if it must", heads),
        TEST("merge: strength and type", strengths),
        TEST("merge: of a quantised model, changed weights become f16", quantised),
        TEST("merge: what cannot be merged is refused", refusals),
        TEST("merge: every allocation may fail", injected),
    };
    return RUN(tests);
}
