/* Adapters in GGUF files: written from what PEFT made they give the same logits, they come back with
 * the same bytes, and every file that is broken, or asks for more, is refused by name. */
#include "adapt/gguf_lora.h"
#include "adapt/peft.h"
#include "adapt/peft_write.h"
#include "adapt/ready.h"
#include "gguf_build.h"
#include "golden_adapters.h"
#include "hostile.h"
#include "support.h"

#include <math.h>

/* The goldens that GGUF has a form for; exact: one alpha serves all parts. */
static const struct {
    const char *name, *base;
    bool exact;
} forms[] = {
    { "llama-lora", "llama-gqa", true },
    { "llama-rslora", "llama-gqa", true },
    { "llama-patterns", "llama-gqa", false },
    { "llama-layers", "llama-gqa", true },
    { "llama-regex", "llama-mqa", true },
    { "llama-embedding", "llama-gqa", true },
    { "phi3-fused", "phi3", true },
    { "gpt2-lora", "gpt2", true },
    { "t5-lora", "t5", true },
};
#define N_FORM_HERE (sizeof forms / sizeof *forms)

static gguf_lora_report report;

/* The golden adapter as a GGUF file, written for the model in `base`. */
static const char *lora_file(const char *name, const char *base)
{
    rig r;
    weft_error err = { 0 };
    const char *path = temp_path("adapter.gguf");
    open_both(&r, base, adapter_path(name));
    if (gguf_lora_write(&r.adapter, &r.model, "base", path, true, &report, &err) != WEFT_OK)
        fail_msg("%s: %s", name, err.message);
    close_both(&r);
    return path;
}

static real *output_of(const char *name, const char *base, const char *path, int64_t *n)
{
    rig r;
    ready_adapter ready;
    weft_error err = { 0 };
    open_model(&r, base);
    if (ready_open(&ready, &r.model, path, &err) != WEFT_OK)
        fail_msg("%s: %s", name, err.message);
    check_forward(name, &r.model, &ready.set, "from GGUF");
    real *y = adapted_output(name, &r.model, &ready.set, n);
    ready_close(&ready);
    close_both(&r);
    return y;
}

static void same_output(size_t i, const char *base, const char *path)
{
    int64_t n, n_was;
    real *was = output_of(forms[i].name, base, adapter_path(forms[i].name), &n_was);
    real *is = output_of(forms[i].name, base, path, &n);
    assert_int_equal(n, n_was);
    if (forms[i].exact)
        assert_that(memcmp(was, is, (size_t)n * sizeof *is) == 0, "%s differs", forms[i].name);
    else
        assert_close(forms[i].name, is, was, n, float_bound(1e-6));
    free(was);
    free(is);
}

/* Written for a directory or for a GGUF model, read for either: four ways. */
static void outputs(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_FORM_HERE; i++) {
        char bases[2][4096], path[4096];
        snprintf(bases[0], sizeof bases[0], "%s", golden_path(forms[i].base));
        snprintf(bases[1], sizeof bases[1], "%s", as_gguf(bases[0], "model.gguf"));
        for (int k = 0; k < 4; k++) {
            snprintf(path, sizeof path, "%s", lora_file(forms[i].name, bases[k & 1]));
            same_output(i, bases[k >> 1], path);
        }
    }
}

/* ---- and back -------------------------------------------------------------------------------- */

static bool same_bytes(const stored *a, const stored *b)
{
    return a->type == b->type && a->bytes == b->bytes && memcmp(a->data, b->data, a->bytes) == 0;
}

/* PEFT -> GGUF -> PEFT: A is the same, and B where the scale allows. */
static void check_back(size_t i, const char *base)
{
    rig was, middle, is;
    char path[4096], directory[4096];
    weft_error err = { 0 };
    peft_contents c;
    snprintf(path, sizeof path, "%s", lora_file(forms[i].name, base));
    snprintf(directory, sizeof directory, "%s", temp_path("back"));
    open_model(&middle, base);
    assert_int_equal(gguf_lora_open(&middle.adapter, &middle.model, path, WEFT_LOAD_MAP, &err),
                     WEFT_OK);
    assert_int_equal(peft_contents_make(&c, &middle.adapter, &middle.model, "base", &err), WEFT_OK);
    assert_int_equal(peft_contents_write(&c, directory, true, &middle.host, &err), WEFT_OK);
    peft_contents_free(&c);
    close_both(&middle);
    open_both(&was, base, adapter_path(forms[i].name));
    open_both(&is, base, directory);
    int64_t n_b = 0, n_same = 0;
    for (int64_t k = 0; k < is.adapter.file.n_tensor; k++) {
        const stored *t = &is.adapter.file.tensor[k];
        const stored *old = container_tensor(&was.adapter.file, t->name);
        assert_that(old != NULL, "%s: %s is not PEFT's", forms[i].name, t->name);
        if (strstr(t->name, "_A"))
            assert_that(same_bytes(t, old), "%s: %s differs", forms[i].name, t->name);
        n_b += strstr(t->name, "_B") != NULL;
        n_same += strstr(t->name, "_B") && same_bytes(t, old);
    }
    assert_int_equal(is.adapter.n_part, was.adapter.n_part);
    assert_that(n_same == (forms[i].exact ? n_b : 4) && n_b > 0, "%s: %lld of %lld B are the same",
                forms[i].name, (long long)n_same, (long long)n_b);
    close_both(&is);
    close_both(&was);
}

static void there_and_back(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_FORM_HERE; i++) {
        char gguf[4096];
        check_back(i, golden_path(forms[i].base));
        snprintf(gguf, sizeof gguf, "%s", as_gguf(golden_path(forms[i].base), "model.gguf"));
        check_back(i, gguf);
    }
}

/* ---- the file -------------------------------------------------------------------------------- */

static void parse_file(container *c, host *h, char **data, const char *path)
{
    size_t n;
    weft_error err = { 0 };
    host_plain(h);
    *data = read_whole(path, &n);
    assert_int_equal(container_begin(c, "gguf", path, h, &err), WEFT_OK);
    assert_int_equal(gguf_parse(c, (const uint8_t *)*data, n, &err), WEFT_OK);
    assert_int_equal(container_index(c, &err), WEFT_OK);
}

/* As llama.cpp expects it: rows of q as convert_hf_to_gguf.py permutes them, of v in order. */
static void layout(void **state)
{
    (void)state;
    host h;
    container c;
    char *data;
    rig r;
    enum { HEADS = 6, E = 8, R = 2 };
    parse_file(&c, &h, &data, lora_file("llama-lora", golden_path("llama-gqa")));
    open_both(&r, golden_path("llama-gqa"), adapter_path("llama-lora"));
    assert_string_equal(container_meta(&c, "general.architecture")->text, "llama");
    assert_string_equal(container_meta(&c, "general.type")->text, "adapter");
    assert_string_equal(container_meta(&c, "adapter.type")->text, "lora");
    assert_true(container_meta(&c, "adapter.lora.alpha")->number == 4);
    const stored *q = container_tensor(&c, "blk.1.attn_q.weight.lora_b");
    const stored *v = container_tensor(&c, "blk.1.attn_v.weight.lora_b");
    const adapter_part *pq = part_named(&r, "blk.1.attn_q"), *pv = part_named(&r, "blk.1.attn_v");
    assert_true(q && v && pq && pv && q->shape[0] == HEADS * E && q->shape[1] == R);
    for (int64_t head = 0; head < HEADS; head++)
        for (int64_t k = 0; k < E / 2; k++)
            for (int64_t s = 0; s < 2; s++)
                assert_memory_equal(stored_row(q, head * E + 2 * k + s, R),
                                    (const float *)pq->b.data + (head * E + s * (E / 2) + k) * R,
                                    R * 4);
    assert_memory_equal(v->data, pv->b.data, v->bytes);
    close_both(&r);
    container_close(&c);
    free(data);

    parse_file(&c, &h, &data, lora_file("llama-embedding", golden_path("llama-gqa")));
    const stored *a = container_tensor(&c, "token_embd.weight.lora_a");
    const stored *b = container_tensor(&c, "token_embd.weight.lora_b");
    assert_true(a && a->shape[0] == 67 && a->shape[1] == 3);
    assert_true(b && b->shape[0] == 48 && b->shape[1] == 3);
    container_close(&c);
    free(data);

    parse_file(&c, &h, &data, lora_file("phi3-fused", golden_path("phi3")));
    assert_true(container_tensor(&c, "blk.0.attn_qkv.weight.lora_b") &&
                container_tensor(&c, "blk.0.ffn_up.weight.lora_b") &&
                !container_tensor(&c, "blk.0.attn_q.weight.lora_b"));
    container_close(&c);
    free(data);
}

/* ---- what GGUF cannot say -------------------------------------------------------------------- */

static void refused_forms(void **state)
{
    (void)state;
    static const struct {
        const char *name, *base, *says;
    } cases[] = {
        { "llama-dora", "llama-mqa", "blk.0.attn_q of the adapter: it has gains (DoRA)" },
        { "llama-saved", "llama-mqa", "token_embd.weight of the adapter: it is replaced" },
        { "llama-head", "llama-gqa", "output of the adapter: the head shares the embedding" },
        { "qwen2-bias-lora", "qwen2", "it is replaced as a whole" },
        { "qwen2-lora-bias", "qwen2", "it has a bias beside B" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        rig r;
        weft_error err = { 0 };
        const char *path = temp_path("refused.gguf");
        open_both(&r, golden_path(cases[i].base), adapter_path(cases[i].name));
        assert_int_equal(gguf_lora_write(&r.adapter, &r.model, NULL, path, false, &report, &err),
                         WEFT_EUNSUPPORTED);
        assert_that(strstr(err.message, cases[i].says), "%s", err.message);
        assert_false(path_exists(path, &r.host));
        close_both(&r);
    }
    rig r;
    weft_error err = { 0 };
    open_both(&r, golden_path("llama-gqa"), adapter_path("llama-lora"));
    const char *path = temp_file("refused.gguf", "x", 1);
    assert_int_equal(gguf_lora_write(&r.adapter, &r.model, NULL, path, false, &report, &err),
                     WEFT_EIO);
    close_both(&r);
}

/* ---- broken files ---------------------------------------------------------------------------- */

/* What differs from a small adapter that opens. */
typedef struct broken {
    const char *type, *arch, *kind, *a, *b; /* NULL: as it should be */
    float alpha;
    int rank_b;
    const dtype *number;
    bool aloud, text_alpha, empty, no_alpha, number_type, base;
} broken;

static const char *broken_file(const broken *k, size_t *n)
{
    gguf_build g = { 0 };
    const dtype *type = k->number ? k->number : &dtype_f32;
    gguf_text(&g, "general.architecture", k->arch ? k->arch : "llama");
    if (k->number_type)
        gguf_u32(&g, "general.type", 1);
    else
        gguf_text(&g, "general.type", k->type ? k->type : "adapter");
    if (k->base)
        gguf_text(&g, "general.base_model.0.name", "Llama");
    gguf_text(&g, "adapter.type", k->kind ? k->kind : "lora");
    if (k->text_alpha)
        gguf_text(&g, "adapter.lora.alpha", "4");
    else if (!k->no_alpha)
        gguf_f32(&g, "adapter.lora.alpha", k->alpha);
    if (k->aloud)
        gguf_u32(&g, "adapter.alora.invocation_tokens", 1);
    if (!k->empty) {
        gguf_tensor(&g, k->a ? k->a : "blk.0.attn_q.weight.lora_a", type, 2, 48, 0.1, 0);
        gguf_tensor(&g, k->b ? k->b : "blk.0.attn_q.weight.lora_b", &dtype_f32, 48,
                    k->rank_b ? k->rank_b : 2, 0.1, 0);
    }
    bytes whole = gguf_finish(&g);
    const char *path = temp_file("broken.gguf", whole.at, whole.n);
    *n = whole.n;
    free(whole.at);
    return path;
}

/* Opens it: NULL, or the message. */
static const char *opened(const rig *r, const char *path, double *scale)
{
    static weft_error err;
    adapter a;
    const size_t before = atomic_load(&r->model.host->mem.used);
    err = (weft_error){ 0 };
    const weft_status status = adapter_open(&a, &r->model, path, WEFT_LOAD_COPY, &err);
    if (status == WEFT_OK) {
        assert_true(a.n_part > 0);
        *scale = a.part[0].scale;
        adapter_close(&a);
    }
    assert_int_equal(atomic_load(&r->model.host->mem.used), before);
    assert_true(status == err.code && !err.message[0] == (status == WEFT_OK));
    return status == WEFT_OK ? NULL : err.message;
}

static void refused_files(void **state)
{
    (void)state;
    static const struct {
        broken k;
        const char *says; /* NULL: it opens, with this scale */
        double scale;
    } cases[] = {
        { { .alpha = 8 }, NULL, 4 },
        { { .alpha = -1 }, NULL, -0.5 },
        { { .alpha = 0 }, NULL, 1 },
        { { .no_alpha = true }, NULL, 1 },
        { { .alpha = NAN }, "adapter.lora.alpha is out of range", 0 },
        { { .alpha = INFINITY }, "adapter.lora.alpha is out of range", 0 },
        { { .alpha = 2e9F }, "adapter.lora.alpha is out of range", 0 },
        { { .number_type = true }, "general.type is missing; expected adapter", 0 },
        { { .a = "x", .b = "y", .base = true }, "the base model of the adapter (Llama)", 0 },
        { { .text_alpha = true }, "adapter.lora.alpha is not a number", 0 },
        { { .type = "model" }, "general.type is model; expected adapter", 0 },
        { { .arch = "qwen2" }, "general.architecture is qwen2; expected llama", 0 },
        { { .kind = "dora" }, "adapter.type is dora; expected lora", 0 },
        { { .aloud = true }, "adapter.alora.invocation_tokens is set", 0 },
        { { .empty = true }, "no tensors", 0 },
        { { .a = "blk.0.attn_k.weight.lora_a" }, "is missing; expected A and B", 0 },
        { { .b = "blk.0.attn_q.weight.lora_c" }, "blk.0.attn_q.weight.lora_b is missing", 0 },
        { { .a = "blk.0.attn_norm.weight", .b = "x" }, "tensor blk.0.attn_norm.weight;", 0 },
        { { .a = "blk.9.attn_q.weight.lora_a", .b = "blk.9.attn_q.weight.lora_b" },
          "tensor blk.9.attn_q.weight.lora_a;",
          0 },
        { { .a = "output.weight.lora_a", .b = "output.weight.lora_b" },
          "tensor output.weight.lora_a;",
          0 },
        { { .a = "blk.0.attn_k.weight.lora_a", .b = "blk.0.attn_k.weight.lora_b" },
          "is [48, 2]; expected [16, 2]",
          0 },
        { { .a = "token_embd.weight.lora_a", .b = "token_embd.weight.lora_b" },
          "is [2, 48]; expected [67, 48]",
          0 },
        { { .rank_b = 3 }, "is [48, 3]; expected [48, 2]", 0 },
        { { .number = &dtype_f16 }, NULL, 0 },
        { { .number = &dtype_bf16 }, NULL, 0 },
    };
    rig r;
    open_model(&r, golden_path("llama-gqa"));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        size_t n;
        double scale = 0;
        const char *message = opened(&r, broken_file(&cases[i].k, &n), &scale);
        assert_that(!message == !cases[i].says && (!message || strstr(message, cases[i].says)),
                    "case %zu: \"%s\", expected \"%s\"", i, message ? message : "it opens",
                    cases[i].says ? cases[i].says : "nothing");
        assert_that(cases[i].scale == 0 || scale == cases[i].scale, "case %zu: scale %g", i, scale);
    }
    assert_non_null(strstr(opened(&r, temp_file("no.gguf", "hello", 5), NULL), "GGUF adapter"));
    assert_non_null(strstr(opened(&r, temp_path("nothing"), NULL), "no such file"));
    close_both(&r);
}

/* Every count, length, dimension, type and offset, at the widths where arithmetic wraps. */
/* What is an adapter, and what is a model or neither. */
static void recognised(void **state)
{
    (void)state;
    host h;
    size_t n;
    host_plain(&h);
    assert_true(adapter_is_one(adapter_path("llama-lora"), &h));
    assert_true(adapter_is_one(broken_file(&(broken){ .alpha = 4 }, &n), &h));
    assert_false(adapter_is_one(broken_file(&(broken){ .type = "model" }, &n), &h));
    assert_false(adapter_is_one(broken_file(&(broken){ .number_type = true }, &n), &h));
    assert_false(adapter_is_one(golden_path("llama-gqa"), &h));
    assert_false(adapter_is_one(temp_file("text.gguf", "hello", 5), &h));
    assert_false(adapter_is_one(temp_file("short.gguf", "GGUF\3\0\0\0", 8), &h));
    assert_false(adapter_is_one(temp_file("empty.gguf", "", 0), &h));
    assert_false(adapter_is_one(temp_path("nothing"), &h));
}

static void extremes(void **state)
{
    (void)state;
    rig r;
    size_t n;
    static fields f;
    int n_open = 0, n_try = 0;
    double scale;
    open_model(&r, golden_path("llama-gqa"));
    uint8_t *whole = (uint8_t *)read_whole(broken_file(&(broken){ .alpha = 4 }, &n), &n);
    gguf_fields(&f, whole, n);
    assert_true(f.n > 20);
    for (int i = 0; i < f.n; i++)
        for (int k = 0; k < N_HOSTILE; k++, n_try++) {
            uint64_t was = 0;
            const size_t width = (size_t)f.field[i].width;
            memcpy(&was, whole + f.field[i].at, width);
            memcpy(whole + f.field[i].at, &hostile[k], width);
            n_open += opened(&r, temp_file("broken.gguf", whole, n), &scale) == NULL;
            memcpy(whole + f.field[i].at, &was, width);
        }
    print_message("%d of %d opened\n", n_open, n_try);
    assert_true(n_try > 300 && n_open < n_try / 4);
    free(whole);
    close_both(&r);
}

static void cut_short(void **state)
{
    (void)state;
    rig r;
    size_t n;
    double scale;
    open_model(&r, golden_path("llama-gqa"));
    char *whole = read_whole(broken_file(&(broken){ .alpha = 4 }, &n), &n);
    size_t last = n; /* padding may be missing */
    while (opened(&r, temp_file("broken.gguf", whole, last - 1), &scale) == NULL)
        last--;
    assert_true(n - last < 32);
    for (size_t k = 0; k < last; k++)
        assert_that(opened(&r, temp_file("broken.gguf", whole, k), &scale) != NULL,
                    "%zu of %zu bytes were accepted", k, n);
    print_message("%zu truncations\n", last);
    free(whole);
    close_both(&r);
}

/* ---- faults ---------------------------------------------------------------------------------- */

/* One opening, or writing in both formats, in which the k-th call fails. False if there were fewer
 * calls. */
static bool fault(bool write, const char *path, bool files, int64_t k, bool sticky, int64_t *failed)
{
    host h;
    model m;
    adapter a;
    peft_contents c = { 0 };
    faults memory = { 0 }, io = { 0 }, *chosen = files ? &io : &memory;
    weft_error err = { 0 };
    host_faulty(&h, &memory, &io);
    assert_int_equal(model_open(&m, golden_path("llama-gqa"), WEFT_LOAD_COPY, &h, &err), WEFT_OK);
    weft_status status = write ? adapter_open(&a, &m, path, WEFT_LOAD_COPY, &err) : WEFT_OK;
    assert_int_equal(status, WEFT_OK);
    chosen->fail_at = chosen->calls + k;
    chosen->sticky = sticky;
    if (!write) {
        status = adapter_open(&a, &m, path, WEFT_LOAD_COPY, &err);
    } else {
        status = gguf_lora_write(&a, &m, NULL, temp_path("fault.gguf"), true, &report, &err);
        if (status == WEFT_OK)
            status = peft_contents_make(&c, &a, &m, NULL, &err);
        if (status == WEFT_OK)
            status = peft_contents_write(&c, temp_path("fault"), true, &h, &err);
    }
    const bool enough = chosen->calls >= chosen->fail_at;
    chosen->fail_at = 0;
    peft_contents_free(&c);
    if (write || status == WEFT_OK)
        adapter_close(&a);
    model_close(&m);
    assert_that(status == WEFT_OK || (status == err.code && err.message[0]),
                "call %lld: %d without a message", (long long)k, (int)status);
    assert_that(!memory.live && !io.live && !atomic_load(&h.mem.used),
                "call %lld: %lld blocks and %lld files are left", (long long)k,
                (long long)memory.live, (long long)io.live);
    *failed += status != WEFT_OK;
    return enough;
}

static void injected(void **state)
{
    (void)state;
    char path[4096];
    snprintf(path, sizeof path, "%s", lora_file("llama-patterns", golden_path("llama-gqa")));
    for (int write = 0; write < 2; write++) {
        int64_t points = 0, failed = 0;
        for (int how = 0; how < 4; how++)
            for (int64_t k = 1; fault(write, path, how & 1, k, how & 2, &failed); k++)
                points++;
        print_message("%s: %lld fault points, %lld failed\n", write ? "writing" : "reading",
                      (long long)points, (long long)failed);
        assert_true(points > 20 && failed > points / 2);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST("gguf_lora: logits are those of the PEFT directory", outputs),
        TEST("gguf_lora: from PEFT to GGUF and back, bytes stay", there_and_back),
        TEST("gguf_lora: names and rows are llama.cpp's", layout),
        TEST("gguf_lora: what GGUF cannot say is refused by name", refused_forms),
        TEST("gguf_lora: broken files are refused by name", refused_files),
        TEST("gguf_lora: adapters differ from models", recognised),
        TEST("gguf_lora: extreme numbers", extremes),
        TEST("gguf_lora: files cut off at any byte are refused", cut_short),
        TEST("gguf_lora: every allocation and file call may fail", injected),
    };
    return RUN(tests);
}
