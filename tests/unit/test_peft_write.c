/* Adapters written as PEFT directories: what PEFT made comes back byte by byte, whatever the model
 * is stored as, and what PEFT cannot say is refused by name. */
#include "adapt/modules.h"
#include "adapt/peft.h"
#include "adapt/peft_write.h"
#include "adapt/take.h"
#include "golden_adapters.h"
#include "support.h"

static void write_adapter(const rig *r, const char *directory)
{
    peft_contents c;
    weft_error err = { 0 };
    if (peft_contents_make(&c, &r->adapter, &r->model, "base", &err) != WEFT_OK)
        fail_msg("%s", err.message);
    if (peft_contents_write(&c, directory, true, r->model.host, &err) != WEFT_OK)
        fail_msg("%s", err.message);
    peft_contents_free(&c);
}

static void same_reals(const char *what, const real *a, const real *b, int64_t n)
{
    assert_that(!a == !b && (!a || memcmp(a, b, (size_t)n * sizeof *a) == 0), "%s differs", what);
}

static void same_matrix(const tensor *a, const tensor *b)
{
    assert_that(a->type == b->type && rows(a) == rows(b) && cols(a) == cols(b) &&
                    memcmp(a->data, b->data, (size_t)rows(a) * dtype_row_bytes(a->type, cols(a))) ==
                        0,
                "%s differs", a->name);
}

static void same_adapter(const adapter *a, const adapter *b)
{
    assert_int_equal(a->n_part, b->n_part);
    assert_int_equal(a->n_whole, b->n_whole);
    for (int64_t i = 0; i < a->n_part; i++) {
        const adapter_part *p = &a->part[i], *q = &b->part[i];
        assert_string_equal(p->name, q->name);
        assert_that(p->scale == q->scale, "%s: scale %.17g, expected %.17g", p->name, q->scale,
                    p->scale);
        assert_true(p->param == q->param && p->table == q->table);
        same_matrix(&p->a, &q->a);
        same_matrix(&p->b, &q->b);
        same_reals(p->name, p->gain, q->gain, rows(&p->b));
        same_reals(p->name, p->bias, q->bias, rows(&p->b));
    }
    for (int64_t i = 0; i < a->n_whole; i++) {
        assert_string_equal(a->whole[i].name, b->whole[i].name);
        assert_true(take_same(&a->whole[i].value, &b->whole[i].value));
    }
}

/* Every tensor written is one of the original file, with its bytes; A, B and gains all are, except
 * those of BERT's pooler, which the model leaves out. A
 * written norm may differ in the last bit, as the model's gain is 1 more. */
static void same_file(const char *name, const container *old, const container *new, bool gains)
{
    int64_t n_lora = 0, n_new_lora = 0;
    for (int64_t i = 0; i < old->n_tensor; i++)
        n_lora += strstr(old->tensor[i].name, ".lora_") && !strstr(old->tensor[i].name, "pooler");
    for (int64_t i = 0; i < new->n_tensor; i++) {
        const stored *t = &new->tensor[i], *was = container_tensor(old, t->name);
        assert_that(was != NULL, "%s: %s is not PEFT's", name, t->name);
        assert_that(t->n_dim == was->n_dim && t->shape[0] == was->shape[0], "%s: shape", t->name);
        const bool added = strstr(t->name, ".lora_") != NULL;
        n_new_lora += added;
        if (gains && !added)
            continue;
        assert_that(t->type == was->type && t->bytes == was->bytes &&
                        memcmp(t->data, was->data, t->bytes) == 0,
                    "%s: %s has other bytes", name, t->name);
    }
    assert_int_equal(n_lora, n_new_lora);
}

static void round_trip(const char *name, const char *base)
{
    rig r, back;
    char path[4096];
    snprintf(path, sizeof path, "%s", temp_path("written"));
    open_both(&r, base, adapter_path(name));
    write_adapter(&r, path);
    open_both(&back, base, path);
    same_file(name, &r.adapter.file, &back.adapter.file, strstr(name, "gemma") != NULL);
    if (!strstr(name, "gemma"))
        same_adapter(&r.adapter, &back.adapter);
    close_both(&back);
    close_both(&r);
}

static void round_trips(void **state)
{
    (void)state;
    for (size_t i = 0; i < n_adapter_golden; i++)
        round_trip(adapter_goldens[i].name, golden_path(adapter_goldens[i].base));
}

static void round_trips_gguf(void **state)
{
    (void)state;
    for (size_t i = 0; i < n_adapter_golden; i++)
        round_trip(adapter_goldens[i].name,
                   as_gguf(golden_path(adapter_goldens[i].base), "read.gguf"));
}

/* ---- the configuration ------------------------------------------------------------------------ */

static void shows(const char *name, const char *base, const char *text)
{
    rig r;
    peft_contents c;
    weft_error err = { 0 };
    open_both(&r, golden_path(base), adapter_path(name));
    assert_int_equal(peft_contents_make(&c, &r.adapter, &r.model, "a \"base\"", &err), WEFT_OK);
    buffer_put(&c.config, "", 1);
    assert_that(strstr((char *)c.config.at, text) != NULL, "%s: %s\nlacks\n%s", name,
                (char *)c.config.at, text);
    peft_contents_free(&c);
    close_both(&r);
}

static void configs(void **state)
{
    (void)state;
    shows("llama-lora", "llama-gqa", "\"base_model_name_or_path\": \"a \\\"base\\\"\",\n");
    shows("llama-lora", "llama-gqa",
          "\"target_modules\": [\n    \"q_proj\",\n    \"k_proj\",\n    \"v_proj\",\n"
          "    \"o_proj\",\n    \"gate_proj\",\n    \"up_proj\",\n    \"down_proj\"\n  ]");
    shows("llama-patterns", "llama-gqa",
          "\"rank_pattern\": {\n    \"k_proj\": 3,\n"
          "    \"model\\\\.layers\\\\.1\\\\.mlp\\\\.up_proj\": 4\n  }");
    shows("llama-rslora", "llama-gqa", "\"lora_alpha\": 12,");
    shows("llama-saved", "llama-mqa", "\"modules_to_save\": [\n    \"embed_tokens\",\n");
    shows("qwen2-bias-all", "qwen2", "\"bias\": \"all\"");
    shows("qwen2-bias-lora", "qwen2", "\"bias\": \"lora_only\"");
    shows("gpt2-lora", "gpt2", "\"fan_in_fan_out\": true");
    shows("gpt2-saved", "gpt2", "\"target_modules\": [\n    \"attn.c_proj\"\n  ]");
    shows("bert-classify", "bert-classify", "\"task_type\": \"SEQ_CLS\"");
    shows("t5-dora", "t5", "\"use_dora\": true");
}

/* ---- what PEFT cannot say --------------------------------------------------------------------- */

static void refused(rig *r, const char *says)
{
    peft_contents c;
    weft_error err = { 0 };
    const size_t before = atomic_load(&r->host.mem.used);
    assert_int_equal(peft_contents_make(&c, &r->adapter, &r->model, NULL, &err), WEFT_EUNSUPPORTED);
    assert_that(strstr(err.message, says), "%s", err.message);
    assert_int_equal(atomic_load(&r->host.mem.used), before);
}

static void refusals(void **state)
{
    (void)state;
    rig r;
    static float other[4096];
    open_both(&r, golden_path("phi3"), adapter_path("phi3-fused"));
    adapter_part *p = &r.adapter.part[1];
    const adapter_part was = *p;
    p->scale *= 2;
    refused(&r, "its scale is not that of the other parts");
    *p = was;
    p->a.data = other;
    refused(&r, "its A is not the A of the other parts");
    *p = was;
    p->gain = other;
    refused(&r, "some parts have gains (DoRA) and some have none");
    *p = was;
    p->param = 0;
    refused(&r, "expected none of experts");
    *p = was;
    r.adapter.n_part = 0;
    refused(&r, "no A and B");
    close_both(&r);

    open_both(&r, golden_path("phi3"), adapter_path("phi3-fused-dora"));
    r.adapter.n_part--; /* one of gate and up */
    refused(&r, "whose other parts have gains (DoRA)");
    close_both(&r);
}

/* A module's name, with its tail, is a tensor of the model's directory. Experts, images' patches and
 * what no file has are no modules. */
static void names(void **state)
{
    (void)state;
    static const char *const bases[] = { "llama-gqa",   "gpt2",  "mixtral",          "gpt-oss",
                                         "deepseek-v3", "vit",   "transformer-2017", "bart",
                                         "t5",          "mpnet", "electra",          "bahdanau" };
    for (size_t b = 0; b < sizeof bases / sizeof *bases; b++) {
        rig r;
        modules s;
        weft_error err = { 0 };
        int64_t n_use = 0, n_adaptable = 0;
        open_model(&r, golden_path(bases[b]));
        assert_int_equal(modules_open(&s, &r.model, &err), WEFT_OK);
        for (int64_t i = 0; i < modules_count(&s); i++) {
            module_use u;
            char name[MODULE_BYTES + 8];
            if (!modules_use(&s, i, &u) || u.shared)
                continue;
            snprintf(name, sizeof name, "%s%s", u.module, u.tail);
            assert_that(container_tensor(&r.model.file, name), "%s: no tensor %s", bases[b], name);
            n_use++;
            n_adaptable += u.adaptable;
        }
        assert_that(n_use > 0 && n_adaptable > 0, "%s: no modules", bases[b]);
        assert_int_equal(modules_check_shared(&s, 0, "x", &err) != WEFT_OK,
                         model_has_source(&r.model) &&
                             strcmp(r.model.param[0]->name, "token_embd.weight") == 0);
        modules_close(&s);
        close_both(&r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST("peft_write: what PEFT made is written with the same bytes", round_trips),
        TEST("peft_write: the same for models in GGUF files", round_trips_gguf),
        TEST("peft_write: names are as short as they can be", configs),
        TEST("peft_write: what PEFT cannot say is refused by name", refusals),
        TEST("modules: their names are those of the file's tensors", names),
    };
    return RUN(tests);
}
