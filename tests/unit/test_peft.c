/* Adapters as PEFT saves them (tools/make_adapters.py): put into a copy of the model they give what
 * PEFT computes; what they say about a model is found and nothing else; and every file that is
 * broken, or that asks for more, is refused by name. */
#include "adapt/peft.h"
#include "adapt/peft_config.h"
#include "adapt/ready.h"
#include "edited.h"
#include "golden_adapters.h"
#include "hostile.h"
#include "support.h"

#include <math.h>
#include <sys/stat.h>

/* ---- into the weights ------------------------------------------------------------------------ */

static double at(const tensor *t, int64_t i, int64_t k)
{
    real x;
    t->type->decode(&x, tensor_rows(t, i, 1).data, k, 1);
    return (double)x;
}

/* One number of s B A, or of W if `w`. A table is W transposed. */
static double cell(const adapter_part *p, const tensor *w, int64_t o, int64_t i)
{
    double sum = 0;
    for (int64_t k = 0; !w && k < rows(&p->a); k++)
        sum += at(&p->b, o, k) * at(&p->a, k, i);
    return w ? (p->table ? at(w, i, o) : at(w, o, i)) : p->scale * sum;
}

/* W becomes g (W + s B A), and its bias b + s c. */
static void put_part(const model *m, const adapter_part *p)
{
    tensor *w = param_of(m, p->name, ".weight");
    const int64_t O = rows(&p->b), I = cols(&p->a);
    assert_ptr_equal(w->type, &dtype_f32);
    assert_int_equal(p->table ? cols(w) : rows(w), O);
    assert_int_equal(p->table ? rows(w) : cols(w), I);
    for (int64_t o = 0; o < O; o++) {
        double squares = 0;
        for (int64_t i = 0; i < I; i++)
            squares += pow(cell(p, w, o, i) + cell(p, NULL, o, i), 2);
        const double g = p->gain ? (double)p->gain[o] / sqrt(squares) : 1;
        for (int64_t i = 0; i < I; i++) {
            const double x = g * (cell(p, w, o, i) + cell(p, NULL, o, i));
            ((float *)w->data)[p->table ? i * O + o : o * I + i] = (float)x;
        }
        if (p->bias)
            ((real *)param_of(m, p->name, ".bias")->data)[o] += (real)p->scale * p->bias[o];
    }
}

static void put_whole(const model *m, const adapter_whole *whole)
{
    tensor *w = param_of(m, whole->name, "");
    const int64_t n_col = cols(w), n_row = w->n_dim > 1 ? rows(w) : 1;
    assert_ptr_equal(w->type, &dtype_f32);
    for (int64_t i = 0; i < n_row; i++)
        whole->value.type->decode((real *)w->data + i * n_col,
                                  tensor_rows(&whole->value, i, 1).data, 0, n_col);
}

static void put_adapter(const model *m, const adapter *a)
{
    for (int64_t i = 0; i < a->n_whole; i++)
        put_whole(m, &a->whole[i]);
    for (int64_t i = 0; i < a->n_part; i++)
        put_part(m, &a->part[i]);
}

/* The model `base` with the adapter that was read for it: as it runs, and in the weights of the
 * model `twin`, which has no weight with two uses. */
static void check_output(const char *name, const char *base, const char *twin, const char *form)
{
    char what[128];
    weft_error err = { 0 };
    rig read, changed;
    ready_adapter ready;
    open_both(&read, base, adapter_path(name));
    open_model(&changed, twin);
    put_adapter(&changed.model, &read.adapter);
    check_forward(name, &changed.model, NULL, form);
    close_both(&changed);
    if (ready_open(&ready, &read.model, adapter_path(name), &err) != WEFT_OK)
        fail_msg("%s: %s", name, err.message);
    snprintf(what, sizeof what, "%s, beside the model", form);
    check_forward(name, &read.model, &ready.set, what);
    ready_close(&ready);
    close_both(&read);
}

static void outputs(void **state)
{
    (void)state;
    for (size_t i = 0; i < n_adapter_golden; i++) {
        const char *base = golden_path(adapter_goldens[i].base);
        const bool tied = strcmp(adapter_goldens[i].base, "llama-gqa") == 0;
        check_output(adapter_goldens[i].name, base, tied ? untied() : base, "directory");
    }
}

/* Rows of q and k are in another order, GPT-2's matrices are not transposed, Phi-3's are fused. */
static void outputs_gguf(void **state)
{
    (void)state;
    for (size_t i = 0; i < n_adapter_golden; i++) {
        const char *base = golden_path(adapter_goldens[i].base);
        const bool tied = strcmp(adapter_goldens[i].base, "llama-gqa") == 0;
        char read[256], changed[256];
        snprintf(read, sizeof read, "%s", as_gguf(base, "read.gguf"));
        snprintf(changed, sizeof changed, "%s",
                 tied ? as_gguf(untied(), "changed.gguf") : temp_path("read.gguf"));
        check_output(adapter_goldens[i].name, read, changed, "gguf");
    }
}

/* ---- copies with a change --------------------------------------------------------------------- */

static const char *temp_adapter(const char *config, size_t n)
{
    static char path[4096];
    snprintf(path, sizeof path, "%s", temp_path("adapter"));
    mkdir(path, 0700);
    temp_file("adapter/adapter_config.json", config, n);
    return path;
}

/* The text with the first `was` replaced by `is`, malloc'ed. */
static char *replaced(const char *text, size_t *n, const char *was, const char *is)
{
    const char *found = memmem(text, *n, was, strlen(was));
    assert_that(found != NULL, "there is no %s", was);
    const size_t head = (size_t)(found - text), tail = *n - head - strlen(was);
    char *to = malloc(*n + strlen(is) + 1);
    assert_non_null(to);
    memcpy(to, text, head);
    memcpy(to + head, is, strlen(is));
    memcpy(to + head + strlen(is), found + strlen(was), tail);
    *n = head + strlen(is) + tail;
    return to;
}

static char *read_part(const char *of, const char *inner, size_t *n)
{
    char path[4200];
    snprintf(path, sizeof path, "%s/%s", adapter_path(of), inner);
    return read_whole(path, n);
}

#define CONFIG  "adapter_config.json"
#define WEIGHTS "adapter_model.safetensors"

/* A copy of an adapter in which one of the files, or the header of the other, has another text. */
static const char *variant(const char *of, const char *inner, const char *was, const char *is)
{
    size_t n, n_config, n_weights;
    char *old = read_part(of, inner, &n);
    char *text = was ? replaced(old, &n, was, is) : old;
    char *config = read_part(of, CONFIG, &n_config);
    char *weights = read_part(of, WEIGHTS, &n_weights);
    const bool in_config = strcmp(inner, CONFIG) == 0;
    if (!in_config) { /* the length of the header follows */
        uint64_t length;
        memcpy(&length, text, sizeof length);
        length += n - n_weights;
        memcpy(text, &length, sizeof length);
    }
    const char *path = temp_adapter(in_config ? text : config, in_config ? n : n_config);
    temp_file("adapter/" WEIGHTS, in_config ? weights : text, in_config ? n_weights : n);
    free(config);
    free(weights);
    if (text != old)
        free(text);
    free(old);
    return path;
}

/* ---- what is read ---------------------------------------------------------------------------- */

/* The bytes of the file's tensor from this row on are those of the part's. */
static void same_rows(const rig *r, const tensor *t, const char *name, int64_t row0)
{
    char whole[256];
    snprintf(whole, sizeof whole, "base_model.model.%s", name);
    const stored *s = container_tensor(&r->adapter.file, whole);
    assert_that(s != NULL, "%s is not in the file", whole);
    assert_ptr_equal(t->type, s->type);
    assert_int_equal(cols(t), s->shape[1]);
    assert_memory_equal(t->data, stored_row(s, row0, cols(t)),
                        (size_t)rows(t) * dtype_row_bytes(t->type, cols(t)));
}

static void plain_parts(void **state)
{
    (void)state;
    rig r;
    open_both(&r, golden_path("llama-gqa"), adapter_path("llama-lora"));
    assert_int_equal(r.adapter.n_part, 14);
    assert_int_equal(r.adapter.n_whole, 0);
    const adapter_part *q = part_named(&r, "blk.1.attn_q");
    assert_non_null(q);
    assert_string_equal(r.model.param[q->param]->name, "blk.1.attn_q.weight");
    assert_true(q->scale == 2 && !q->gain && !q->bias && !q->table);
    assert_string_equal(q->a.name, "blk.1.attn_q.lora_a");
    assert_int_equal(rows(&q->a), 2);
    assert_int_equal(rows(&q->b), 48);
    same_rows(&r, &q->a, "model.layers.1.self_attn.q_proj.lora_A.weight", 0);
    same_rows(&r, &q->b, "model.layers.1.self_attn.q_proj.lora_B.weight", 0);
    for (int64_t i = 1; i < r.adapter.n_part; i++)
        assert_true(r.adapter.part[i].param > r.adapter.part[i - 1].param);
    close_both(&r);
}

/* Tensors that begin at an odd byte. */
static void unaligned(void **state)
{
    (void)state;
    rig r;
    weft_error err = { 0 };
    open_model(&r, golden_path("llama-gqa"));
    const char *path = variant("llama-layers", WEIGHTS, "{", "{ ");
    if (peft_open(&r.adapter, &r.model, path, WEFT_LOAD_COPY, &err) != WEFT_OK)
        fail_msg("%s", err.message);
    const adapter_part *up = part_named(&r, "blk.1.ffn_up");
    assert_true(up && (uintptr_t)up->a.data % 4 == 0 && (uintptr_t)up->b.data % 4 == 0);
    same_rows(&r, &up->a, "model.layers.1.mlp.up_proj.lora_A.weight", 0);
    same_rows(&r, &up->b, "model.layers.1.mlp.up_proj.lora_B.weight", 0);
    close_both(&r);
}

static void scales(void **state)
{
    (void)state;
    rig r;
    open_both(&r, golden_path("llama-gqa"), adapter_path("llama-rslora"));
    const adapter_part *v = part_named(&r, "blk.0.attn_v");
    assert_true(v && v->scale == 3); /* 6 / sqrt(4) */
    assert_ptr_equal(v->a.type, &dtype_bf16);
    assert_int_equal(r.adapter.n_part, 6);
    close_both(&r);

    open_both(&r, golden_path("llama-gqa"), adapter_path("llama-patterns"));
    static const struct {
        const char *name;
        int64_t rank;
        double scale;
    } want[] = { { "blk.0.attn_q", 2, 2 },    { "blk.0.attn_k", 3, 3 }, { "blk.1.attn_k", 3, 3 },
                 { "blk.0.ffn_up", 2, 2 },    { "blk.1.ffn_up", 4, 1 }, { "blk.1.ffn_down", 2, 2 },
                 { "blk.0.ffn_down", 2, 0.5 } };
    assert_int_equal(r.adapter.n_part, sizeof want / sizeof *want);
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        const adapter_part *p = part_named(&r, want[i].name);
        assert_that(p && rows(&p->a) == want[i].rank && p->scale == want[i].scale,
                    "%s: rank %lld and scale %g", want[i].name, p ? (long long)rows(&p->a) : -1,
                    p ? p->scale : 0);
    }
    close_both(&r);
}

static void fused_parts(void **state)
{
    (void)state;
    rig r;
    open_both(&r, golden_path("phi3"), adapter_path("phi3-fused-dora"));
    static const struct {
        const char *name;
        int64_t row0, n;
    } want[] = { { "blk.1.attn_q", 0, 32 },
                 { "blk.1.attn_k", 32, 16 },
                 { "blk.1.attn_v", 48, 16 } };
    const stored *m = container_tensor(
        &r.adapter.file,
        "base_model.model.model.layers.1.self_attn.qkv_proj.lora_magnitude_vector");
    for (int i = 0; i < 3; i++) {
        const adapter_part *p = part_named(&r, want[i].name);
        assert_non_null(p);
        assert_int_equal(rows(&p->b), want[i].n);
        same_rows(&r, &p->a, "model.layers.1.self_attn.qkv_proj.lora_A.weight", 0);
        same_rows(&r, &p->b, "model.layers.1.self_attn.qkv_proj.lora_B.weight", want[i].row0);
        assert_memory_equal(p->gain, (const float *)m->data + want[i].row0,
                            (size_t)want[i].n * sizeof(float));
    }
    close_both(&r);
}

static void two_uses(void **state)
{
    (void)state;
    rig r;
    open_both(&r, golden_path("llama-gqa"), adapter_path("llama-untied"));
    const adapter_whole *table = whole_named(&r, "token_embd.weight");
    const adapter_whole *head = whole_named(&r, "output.weight");
    assert_true(table && head && table->param == head->param);
    assert_memory_not_equal(table->value.data, head->value.data, 64);
    close_both(&r);

    open_both(&r, golden_path("llama-gqa"), adapter_path("llama-head"));
    const adapter_part *p = part_named(&r, "output");
    assert_true(p && !p->table && r.adapter.n_part == 1);
    assert_int_equal(r.adapter.n_whole, 0); /* base_layer.weight is the model's own */
    close_both(&r);

    open_both(&r, golden_path("llama-gqa"), adapter_path("llama-embedding"));
    p = part_named(&r, "token_embd");
    assert_true(p && p->table && !part_named(&r, "output"));
    assert_int_equal(cols(&p->a), 67);
    assert_int_equal(rows(&p->b), 48);
    close_both(&r);
}

/* A base_layer that is not the model's own changes both uses. */
static void other_base(void **state)
{
    (void)state;
    rig r;
    weft_error err = { 0 };
    open_model(&r, golden_path("llama-gqa"));
    ((float *)param_of(&r.model, "token_embd", ".weight")->data)[5] += 1;
    assert_int_equal(
        peft_open(&r.adapter, &r.model, adapter_path("llama-embedding"), WEFT_LOAD_COPY, &err),
        WEFT_OK);
    assert_int_equal(r.adapter.n_whole, 2);
    assert_true(whole_named(&r, "token_embd.weight") && whole_named(&r, "output.weight"));
    close_both(&r);
}

static void biases(void **state)
{
    (void)state;
    rig r;
    open_both(&r, golden_path("qwen2"), adapter_path("qwen2-bias-all"));
    assert_int_equal(r.adapter.n_whole, 6);
    assert_non_null(whole_named(&r, "blk.1.attn_k.bias"));
    close_both(&r);
    open_both(&r, golden_path("qwen2"), adapter_path("qwen2-bias-lora"));
    assert_int_equal(r.adapter.n_whole, 2);
    close_both(&r);
    open_both(&r, golden_path("qwen2"), adapter_path("qwen2-lora-bias"));
    const adapter_part *p = part_named(&r, "blk.0.attn_k");
    assert_true(p && p->bias && r.adapter.n_whole == 0);
    close_both(&r);
}

/* ---- modules by name ------------------------------------------------------------------------- */

/* What an adapter_config.json of these keys says about a module: "" or "saved", or rank and scale. */
static const char *said(const char *keys, const char *module)
{
    static char answer[64];
    char config[2048];
    host h;
    peft_config c;
    peft_match match;
    weft_error err = { 0 };
    host_plain(&h);
    const int n = snprintf(config, sizeof config,
                           "{\"peft_type\": \"LORA\", \"r\": 4, \"lora_alpha\": 8, %s}", keys);
    if (peft_config_open(&c, temp_adapter(config, (size_t)n), &h, &err) != WEFT_OK)
        fail_msg("%s", err.message);
    const peft_module m = { module, strstr(module, "embed") != NULL,
                            strcmp(module, "lm_head") == 0 };
    if (peft_config_match(&c, &m, &match, &err) != WEFT_OK)
        fail_msg("%s", err.message);
    snprintf(answer, sizeof answer, "%s", match.saved ? "saved" : "");
    if (match.targeted)
        snprintf(answer, sizeof answer, "%lld %g", (long long)match.r, match.scale);
    peft_config_close(&c);
    assert_int_equal(h.mem.used, 0);
    return answer;
}

#define Q0 "model.layers.0.self_attn.q_proj"
#define Q1 "model.layers.1.self_attn.q_proj"

/* What PEFT 0.21 answers: check_target_module_exists and get_pattern_key. */
static void matching(void **state)
{
    (void)state;
    static const struct {
        const char *keys, *module, *answer;
    } cases[] = {
        { "\"target_modules\": [\"q_proj\"]", Q0, "4 2" },
        { "\"target_modules\": [\"q_proj\"]", "q_proj", "4 2" },
        { "\"target_modules\": [\"proj\"]", Q0, "" },
        { "\"target_modules\": [\"q.proj\"]", Q0, "" },
        { "\"target_modules\": [\"self_attn\"]", Q0, "" },
        { "\"target_modules\": [\"0.self_attn.q_proj\"]", Q0, "4 2" },
        { "\"target_modules\": [\"0.self_attn.q_proj\"]", "model.layers.10.self_attn.q_proj", "" },
        { "\"target_modules\": [\"v_proj\", \"" Q0 "\"]", Q0, "4 2" },
        { "\"target_modules\": \"q_proj\"", Q0, "" },
        { "\"target_modules\": \".*q_proj\"", Q0, "4 2" },
        { "\"target_modules\": \".*q_pro\"", Q0, "" },
        { "\"target_modules\": \".*\\\\.(q|v)_proj\"", Q0, "4 2" },
        { "\"target_modules\": \"(?:model\\\\.layers\\\\.[12]\\\\.self_attn\\\\.\\\\w_proj)\"", Q0,
          "" },
        { "\"target_modules\": \"(?:model\\\\.layers\\\\.[12]\\\\.self_attn\\\\.\\\\w_proj)\"", Q1,
          "4 2" },
        { "\"target_modules\": \"a|.*q_proj\"", Q0, "4 2" },
        { "\"target_modules\": \"ALL-linear\"", Q0, "4 2" },
        { "\"target_modules\": \"all-linear\"", "lm_head", "" },
        { "\"target_modules\": \"all-linear\"", "model.embed_tokens", "" },

        { "\"target_modules\": [\"q_proj\"], \"exclude_modules\": [\"q_proj\"]", Q0, "" },
        { "\"target_modules\": [\"q_proj\"], \"exclude_modules\": [\"0.self_attn.q_proj\"]", Q1,
          "4 2" },
        { "\"target_modules\": [\"q_proj\"], \"exclude_modules\": \".*\\\\.0\\\\..*\"", Q0, "" },
        { "\"target_modules\": [\"q_proj\"], \"exclude_modules\": \".*\\\\.0\\\\..*\"", Q1, "4 2" },
        { "\"target_modules\": \"all-linear\", \"exclude_modules\": [\"q_proj\"]", Q0, "" },

        { "\"target_modules\": [\"lm_head\"], \"modules_to_save\": [\"lm_head\"]", "lm_head",
          "saved" },
        { "\"target_modules\": [\"dense\"], \"modules_to_save\": [\"classifier\"]",
          "classifier.dense", "saved" },
        { "\"target_modules\": [\"dense\"], \"modules_to_save\": [\"classifier\"]",
          "my_classifier.dense", "4 2" },
        { "\"target_modules\": [\"dense\"], \"modules_to_save\": [\"class\"]",
          "classifier.class.dense", "saved" },
        { "\"target_modules\": [\"dense\"], \"modules_to_save\": [\"class\"]", "classifier.dense",
          "4 2" },
        { "\"target_modules\": [\"dense\"], \"modules_to_save\": [\"ssif\"]", "classifier.dense",
          "4 2" },

        { "\"target_modules\": [\"q_proj\"], \"layers_to_transform\": [1]", Q0, "" },
        { "\"target_modules\": [\"q_proj\"], \"layers_to_transform\": [0, 1]", Q1, "4 2" },
        { "\"target_modules\": [\"q_proj\"], \"layers_to_transform\": 1", Q1, "4 2" },
        { "\"target_modules\": [\"q_proj\"], \"layers_to_transform\": []", Q1, "4 2" },
        { "\"target_modules\": [\"" Q0 "\"], \"layers_to_transform\": [1]", Q0, "4 2" },
        { "\"target_modules\": [\"lm_head\"], \"layers_to_transform\": [1]", "a.lm_head", "" },
        { "\"target_modules\": [\"c\"], \"layers_to_transform\": [0]", "h.0.attn.c", "" },
        { "\"target_modules\": [\"c\"], \"layers_to_transform\": [0]", "t.h.0.attn.c", "4 2" },
        { "\"target_modules\": [\"w\"], \"layers_to_transform\": [1]", "model.layers.1.experts.0.w",
          "4 2" },
        { "\"target_modules\": [\"w\"], \"layers_to_transform\": [0]", "model.layers.1.experts.0.w",
          "" },
        { "\"target_modules\": [\"w\"], \"layers_to_transform\": [0], \"layers_pattern\": "
          "\"experts\"",
          "model.layers.1.experts.0.w", "4 2" },
        { "\"target_modules\": [\"c\"], \"layers_to_transform\": [0], \"layers_pattern\": [\"x\", "
          "\"h\"]",
          "h.0.attn.c", "4 2" },
        { "\"target_modules\": [\"q_proj\"], \"layers_to_transform\": [1], \"layers_pattern\": "
          "\"ayers\"",
          Q1, "" },

        { "\"target_modules\": [\"q_proj\"], \"rank_pattern\": {\"q_proj\": 16}", Q0, "16 0.5" },
        { "\"target_modules\": [\"q_proj\"], \"use_rslora\": true, \"rank_pattern\": {\"q_proj\": "
          "16}",
          Q0, "16 2" },
        { "\"target_modules\": [\"q_proj\"], \"alpha_pattern\": {\"q_proj\": 1.5}", Q0, "4 0.375" },
        { "\"target_modules\": [\"q_proj\"], \"rank_pattern\": {\"proj\": 16}", Q0, "4 2" },
        { "\"target_modules\": [\"q_proj\"], \"rank_pattern\": {\"q.proj\": 16}", Q0, "16 0.5" },
        { "\"target_modules\": [\"q_proj\"], \"rank_pattern\": {\"1.self_attn.q_proj\": 1, "
          "\"q_proj\": 2}",
          Q0, "2 4" },
        { "\"target_modules\": [\"q_proj\"], \"rank_pattern\": {\"1.self_attn.q_proj\": 1, "
          "\"q_proj\": 2}",
          Q1, "1 8" },
        { "\"target_modules\": [\"q_proj\"], \"rank_pattern\": {\"q_proj\": 2, "
          "\"1.self_attn.q_proj\": 1}",
          Q1, "2 4" },
        { "\"target_modules\": [\"q_proj\"], \"rank_pattern\": {\"^q_proj\": 2}", Q1, "4 2" },
        { "\"target_modules\": [\"q_proj\"], \"rank_pattern\": {\"^model.*q_proj\": 2}", Q1,
          "2 4" },
        { "\"target_modules\": [\"q_proj\"], \"rank_pattern\": {\"layers\\\\.[0]\\\\..*\": 2}", Q1,
          "4 2" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *answer = said(cases[i].keys, cases[i].module);
        assert_that(strcmp(answer, cases[i].answer) == 0, "%s, %s: \"%s\", expected \"%s\"",
                    cases[i].keys, cases[i].module, answer, cases[i].answer);
    }
}

/* ---- what is refused ------------------------------------------------------------------------- */

/* Opening fails with this message, and nothing is left. */
static void refused(const rig *r, const char *path, weft_status code, const char *says)
{
    adapter a;
    weft_error err = { 0 };
    const size_t before = atomic_load(&r->model.host->mem.used);
    const weft_status status = peft_open(&a, &r->model, path, WEFT_LOAD_COPY, &err);
    assert_that(status == code && err.code == code && strstr(err.message, says),
                "got %d %d \"%s\", expected %d \"%s\"", (int)status, (int)err.code, err.message,
                (int)code, says);
    assert_that(strstr(err.message, path) == err.message, "\"%s\" does not begin with the path",
                err.message);
    assert_int_equal(atomic_load(&r->model.host->mem.used), before);
    assert_int_equal(peft_open(&a, &r->model, path, WEFT_LOAD_COPY, NULL), code);
}

static void refused_config(void **state)
{
    (void)state;
    static const struct {
        const char *was, *is, *says;
        bool unsupported;
    } cases[] = {
        { "\"LORA\"", "\"LOHA\"", "peft_type is LOHA; expected LORA", true },
        { "\"peft_type\": \"LORA\"", "\"peft_type\": 3", "peft_type is missing; expected LORA",
          true },
        { "\"layer_replication\": null", "\"layer_replication\": [[0, 1]]",
          "layer_replication is set", true },
        { "\"alora_invocation_tokens\": null", "\"alora_invocation_tokens\": [1]",
          "alora_invocation_tokens is set", true },
        { "\"target_parameters\": null", "\"target_parameters\": [\"x\"]",
          "target_parameters is set", true },
        { "\"trainable_token_indices\": null", "\"trainable_token_indices\": {\"a\": [1]}",
          "trainable_token_indices is set", true },
        { "\"megatron_config\": null", "\"megatron_config\": {\"x\": 1}", "megatron_config is set",
          true },
        { "\"use_qalora\": false", "\"use_qalora\": true", "use_qalora is set", true },
        { "\"use_bdlora\": null", "\"use_bdlora\": {\"nblocks\": 1}", "use_bdlora is set", true },
        { "\"velora_config\": null", "\"velora_config\": {\"scale\": 1}", "velora_config is set",
          true },
        { "\"monteclora_config\": null", "\"monteclora_config\": {\"a\": 1}",
          "monteclora_config is set", true },
        { "\"arrow_config\": null", "\"arrow_config\": {\"top_k\": 1}", "arrow_config is set",
          true },
        { "\"kasa_config\": null", "\"kasa_config\": {\"beta\": 1}", "kasa_config is set", true },
        { "\"kasa_config\": null", "\"new_thing\": true", "the key new_thing is set", true },
        { "\"kasa_config\": null", "\"new_thing\": {\"x\": 1}", "the key new_thing is set", true },
        { "\"init_lora_weights\": true", "\"init_lora_weights\": \"pissa\"",
          "init_lora_weights is pissa", true },
        { "\"init_lora_weights\": true", "\"init_lora_weights\": \"pissa_niter_4\"",
          "path_initial_model_for_weight_conversion", true },
        { "\"init_lora_weights\": true", "\"init_lora_weights\": \"loftq\"",
          "init_lora_weights is loftq", true },
        { "\"init_lora_weights\": true", "\"init_lora_weights\": \"olora\"",
          "init_lora_weights is olora", true },
        { "\"init_lora_weights\": true", "\"init_lora_weights\": \"corda\"",
          "init_lora_weights is corda", true },
        { "\"init_lora_weights\": true", "\"init_lora_weights\": 1",
          "init_lora_weights is not a text", true },
        { "\"bias\": \"none\"", "\"bias\": \"some\"",
          "bias is some; expected none, all or lora_only", true },
        { "\"bias\": \"none\"", "\"bias\": true", "bias is not a text", true },
        { "\"r\": 3", "\"r\": 0", "r is 0; expected a rank from 1", false },
        { "\"r\": 3", "\"r\": 1.5", "r is 1.5; expected a rank from 1", false },
        { "\"r\": 3", "\"r\": \"3\"", "r is text; expected a rank", false },
        { "\"r\": 3", "\"r\": 65537", "r is 65537; expected a rank", false },
        { "\"r\": 3", "\"r\": 4",
          "tensor base_model.model.model.layers.1.self_attn.o_proj.lora_A.weight"
          " is [3, 48]; expected [4, 48]",
          false },
        { "\"lora_alpha\": 3", "\"lora_alpha\": \"3\"", "lora_alpha is text", false },
        { "\"lora_alpha\": 3", "\"lora_alpha\": 1e300", "lora_alpha is out of range", false },
        { "\"rank_pattern\": {}", "\"rank_pattern\": 3", "rank_pattern is one value", false },
        { "\"rank_pattern\": {}", "\"rank_pattern\": {\"o_proj\": 0}", "rank_pattern.o_proj is 0",
          false },
        { "\"rank_pattern\": {}", "\"rank_pattern\": {\"(o_proj\": 1}",
          "the regular expression of "
          "rank_pattern",
          false },
        { "\"alpha_pattern\": {}", "\"alpha_pattern\": {\"o_proj\": true}",
          "alpha_pattern.o_proj is a flag", false },
        { "\"use_dora\": false", "\"use_dora\": 1", "use_dora is a number; expected true or false",
          false },
        { "\"use_dora\": false", "\"use_dora\": true",
          "o_proj.lora_magnitude_vector is missing; expected it, because use_dora", false },
        { "\"lora_bias\": false", "\"lora_bias\": true",
          "o_proj.lora_B.bias is missing; expected it, because lora_bias", false },
        { "\"lora_bias\": false", "\"use_rslora\": 2", "duplicate object key", false },
        { "\"layers_pattern\": \"layers\"", "\"layers_pattern\": \"(\"",
          "the regular expression of layers_pattern", false },
        { "\"layers_pattern\": \"layers\"", "\"layers_pattern\": 3", "layers_pattern is a number",
          false },
        { "\"layers_pattern\": \"layers\"", "\"layers_pattern\": {\"a\": 3}",
          "layers_pattern is an object", false },
        { "\"layers_pattern\": \"layers\"", "\"layers_pattern\": \"\"", "layers_pattern is empty",
          false },
        { "[\n    1\n  ]", "null", "layers_pattern is set without layers_to_transform", false },
        { "[\n    1\n  ]", "[-1]",
          "layers_to_transform.0 is a number; expected the number of a layer", false },
        { "[\n    1\n  ]", "{\"a\": 1}", "layers_to_transform is an object", false },
        { "[\n    1\n  ]", "[1, null, 0]", "layers_to_transform is an object, or has a null",
          false },
        { "[\n    1\n  ]", "[[1]]", "layers_to_transform is an object", false },
        { "[\n    1\n  ]", "[0, 1]",
          "layers.0.self_attn.o_proj.lora_A.weight is missing; expected it, because target_modules",
          false },
        { "[\n    1\n  ]", "[7]", "belongs to no weight that adapter_config.json targets", false },
        { "[\n    \"o_proj\",\n    \"up_proj\"\n  ]", "null", "target_modules is missing or empty",
          false },
        { "[\n    \"o_proj\",\n    \"up_proj\"\n  ]", "[]", "target_modules is missing or empty",
          false },
        { "[\n    \"o_proj\",\n    \"up_proj\"\n  ]", "[\"o_proj\", 3]",
          "target_modules.1 is a number", false },
        { "[\n    \"o_proj\",\n    \"up_proj\"\n  ]", "[\"\\u0000\"]",
          "target_modules.0 is text with a NUL", false },
        { "[\n    \"o_proj\",\n    \"up_proj\"\n  ]", "[\"o_proj\", null, \"up_proj\"]",
          "target_modules is an object, or has a null", false },
        { "[\n    \"o_proj\",\n    \"up_proj\"\n  ]", "\"(\"",
          "the regular expression of target_modules", false },
        { "[\n    \"o_proj\",\n    \"up_proj\"\n  ]", "\".*o_proj\"",
          "layers_to_transform is set beside a text", false },
        { "[\n    \"o_proj\",\n    \"up_proj\"\n  ]", "[\"up_proj\"]",
          "o_proj.lora_A.weight belongs to no weight", false },
        { "\"exclude_modules\": null", "\"exclude_modules\": [\"up_proj\"]",
          "up_proj.lora_A.weight belongs to no weight", false },
        { "\"modules_to_save\": null", "\"modules_to_save\": [\"norm\"]",
          "model.norm.weight is missing; expected it, because modules_to_save", false },
        { "\"modules_to_save\": null", "\"modules_to_save\": [\"lm_head\"]",
          "lm_head.weight is missing; expected it, because modules_to_save", false },
        { "\"base_model_name_or_path\": \"llama-gqa\"", "\"base_model_name_or_path\": 5",
          "base_model_name_or_path is a number; expected text", false },
        { "{", "", "adapter_config.json", false },
    };
    rig r;
    open_model(&r, golden_path("llama-gqa"));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        refused(&r, variant("llama-layers", CONFIG, cases[i].was, cases[i].is),
                cases[i].unsupported ? WEFT_EUNSUPPORTED : WEFT_EFORMAT, cases[i].says);
    close_both(&r);
}

/* Patterns that would take forever, that are too long, and too many of them. */
static void refused_patterns(void **state)
{
    (void)state;
#define SLOW "(?:.*.*.*.*.*.*.*.*.*)*[^a-z0-9._]"
    static const char list[] = "[\n    \"o_proj\",\n    \"up_proj\"\n  ]";
    static const char *const slow[][2] = {
        { "\"exclude_modules\": null", "\"exclude_modules\": \"" SLOW "\"" },
        { "\"rank_pattern\": {}", "\"rank_pattern\": {\"" SLOW "\": 3}" },
        { "\"alpha_pattern\": {}", "\"alpha_pattern\": {\"" SLOW "\": 3}" },
        { "\"layers_pattern\": \"layers\"", "\"layers_pattern\": \"" SLOW "\"" },
    };
    rig r;
    open_model(&r, golden_path("llama-gqa"));
    for (size_t i = 0; i < sizeof slow / sizeof *slow; i++)
        refused(&r, variant("llama-layers", CONFIG, slow[i][0], slow[i][1]), WEFT_EUNSUPPORTED,
                "for the module model.");

    static char many[40000];
    memset(many, 'x', 2100);
    snprintf(many + 2100, 8, "(y)\"");
    many[0] = '"';
    refused(&r, variant("llama-layers", CONFIG, "\"layers\"", many), WEFT_EUNSUPPORTED,
            "layers_pattern has a regular expression of more than 2000 bytes");
    size_t n = (size_t)snprintf(many, sizeof many, "[\"a\"");
    for (int i = 0; i < 4096; i++)
        n += (size_t)snprintf(many + n, sizeof many - n, ", \"b\"");
    snprintf(many + n, sizeof many - n, "]");
    refused(&r, variant("llama-layers", CONFIG, list, many), WEFT_EUNSUPPORTED,
            "target_modules has 4097 entries; expected at most 4096");
    close_both(&r);
}

static void refused_weights(void **state)
{
    (void)state;
    rig r;
    open_model(&r, golden_path("llama-gqa"));
    refused(&r, variant("llama-layers", WEIGHTS, "o_proj.lora_A", "o_proj.lora_X"), WEFT_EFORMAT,
            "o_proj.lora_A.weight is missing");
    refused(&r, variant("llama-layers", WEIGHTS, "up_proj.lora_B", "up_proj.lora_b"), WEFT_EFORMAT,
            "up_proj.lora_B.weight is missing");
    refused(&r, variant("llama-layers", WEIGHTS, "F32", "I32"), WEFT_EUNSUPPORTED,
            "is i32; expected f32, f16 or bf16");
    refused(&r, variant("llama-layers", WEIGHTS, "[3,48]", "[48,3]"), WEFT_EFORMAT,
            "is [48, 3]; expected [3, 48]");
    refused(&r, variant("llama-layers", WEIGHTS, "[48,3]", "[144] "), WEFT_EFORMAT,
            "is [144]; expected [48, 3]");
    refused(&r,
            variant("llama-untied", WEIGHTS, "base_model.model.lm_head.weight",
                    "nase_model.model.lm_head.weight"),
            WEFT_EFORMAT, "lm_head.weight is missing");
    refused(&r,
            variant("llama-embedding", WEIGHTS, "base_model.model.model.embed_tokens.base_layer",
                    "nase_model.model.model.embed_tokens.base_layer"),
            WEFT_EFORMAT, "expected names that begin with base_model.model.");
    refused(&r, adapter_path("llama-dora"), WEFT_EFORMAT,
            "use the base model of the adapter "
            "(llama-mqa)");
    refused(&r, adapter_path("gpt2-lora"), WEFT_EFORMAT, "belongs to no weight");
    close_both(&r);
    open_model(&r, golden_path("mixtral"));
    refused(&r, adapter_path("llama-layers"), WEFT_EFORMAT, "expected");
    close_both(&r);
    open_model(&r, golden_path("llama-mqa"));
    refused(&r, adapter_path("llama-lora"), WEFT_EFORMAT, "expected");
    refused(&r, variant("llama-dora", CONFIG, "\"lora_bias\": false", "\"lora_bias\": true"),
            WEFT_EFORMAT, "lora_bias is true beside use_dora");
    close_both(&r);
}

/* The classes that hold a Llama: without a head, and with pictures in two ways. */
static void other_classes(void **state)
{
    (void)state;
    static const char was[] = "base_model.model.model.layers";
    static const char *const forms[] = { "base_model.model.layers",
                                         "base_model.model.model.language_model.layers",
                                         "base_model.model.language_model.model.layers" };
    rig r;
    open_model(&r, golden_path("llama-gqa"));
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        size_t n, n_old;
        uint64_t length;
        weft_error err = { 0 };
        char *weights = read_part("llama-layers", WEIGHTS, &n);
        n_old = n;
        for (int k = 0; k < 4; k++) {
            char *more = replaced(weights, &n, was, forms[i]);
            free(weights);
            weights = more;
        }
        memcpy(&length, weights, sizeof length);
        length += n - n_old;
        memcpy(weights, &length, sizeof length);
        const char *path = variant("llama-layers", CONFIG, NULL, NULL);
        temp_file("adapter/" WEIGHTS, weights, n);
        free(weights);
        assert_that(peft_open(&r.adapter, &r.model, path, WEFT_LOAD_COPY, &err) == WEFT_OK,
                    "%s: %s", forms[i], err.message);
        assert_true(r.adapter.n_part == 2 && part_named(&r, "blk.1.ffn_up"));
        adapter_close(&r.adapter);
    }
    close_both(&r);
}

static void refused_shared(void **state)
{
    (void)state;
    rig r;
    open_model(&r, golden_path("t5"));
    refused(&r, variant("t5-lora", CONFIG, "\"wo\"", "\"wo\", \"shared\""), WEFT_EUNSUPPORTED,
            "the embedding that encoder and decoder share");

    /* The same as a whole weight, at the end of the file. */
    size_t n;
    uint64_t length;
    char entry[256];
    char *old = read_part("t5-lora", WEIGHTS, &n);
    memcpy(&length, old, sizeof length);
    const size_t at_end = n - 8 - (size_t)length, bytes = 64 * 22 * 4;
    snprintf(entry, sizeof entry,
             "{\"base_model.model.shared.weight\":{\"dtype\":\"F32\",\"shape\":[64,22],"
             "\"data_offsets\":[%zu,%zu]},",
             at_end, at_end + bytes);
    char *weights = replaced(old, &n, "{", entry);
    length += strlen(entry) - 1;
    memcpy(weights, &length, sizeof length);
    weights = realloc(weights, n + bytes);
    assert_non_null(weights);
    memset(weights + n, 0, bytes);
    const char *path = variant("t5-lora", CONFIG, NULL, NULL);
    temp_file("adapter/" WEIGHTS, weights, n + bytes);
    refused(&r, path, WEFT_EUNSUPPORTED, "the embedding that encoder and decoder share");
    free(weights);
    free(old);
    close_both(&r);
}

static void refused_ties(void **state)
{
    (void)state;
    static const char was[] = "\"ensure_weight_tying\": false",
                      is[] = "\"ensure_weight_tying\": true";
    rig r;
    adapter a;
    weft_error err = { 0 };
    open_model(&r, golden_path("llama-gqa"));
    refused(&r, variant("llama-embedding", CONFIG, was, is), WEFT_EUNSUPPORTED,
            "ensure_weight_tying is true");
    refused(&r, variant("llama-untied", CONFIG, was, is), WEFT_EUNSUPPORTED,
            "ensure_weight_tying is true");
    assert_int_equal(
        peft_open(&a, &r.model, variant("llama-layers", CONFIG, was, is), WEFT_LOAD_COPY, &err),
        WEFT_OK);
    adapter_close(&a);
    close_both(&r);
    open_model(&r, golden_path("llama-mqa"));
    assert_int_equal(
        peft_open(&a, &r.model, variant("llama-saved", CONFIG, was, is), WEFT_LOAD_COPY, &err),
        WEFT_OK);
    assert_int_equal(a.n_whole, 2);
    adapter_close(&a);
    close_both(&r);
}

static void refused_files(void **state)
{
    (void)state;
    rig r;
    char config[4200];
    open_model(&r, golden_path("llama-gqa"));
    static char deep[5000];
    adapter a;
    weft_error err = { 0 };
    memset(deep, 'x', sizeof deep - 1);
    assert_int_equal(peft_open(&a, &r.model, deep, WEFT_LOAD_COPY, &err), WEFT_EINVAL);
    deep[4096 - sizeof "/" CONFIG] = '\0'; /* the name of the other file is longer */
    assert_int_equal(peft_open(&a, &r.model, deep, WEFT_LOAD_COPY, &err), WEFT_EIO);
    refused(&r, temp_path("nothing"), WEFT_EFORMAT, "adapter_config.json: no such file");
    refused(&r, temp_file("a-file", "x", 1), WEFT_EFORMAT, "adapter_config.json: no such file");
    refused(&r, golden_path("llama-gqa"), WEFT_EFORMAT, "give the directory that PEFT saved");
    snprintf(config, sizeof config, "%s", variant("llama-layers", CONFIG, NULL, NULL));
    assert_int_equal(remove(temp_path("adapter/" WEIGHTS)), 0);
    refused(&r, config, WEFT_EFORMAT, "no such file; expected the weights");
    temp_file("adapter/adapter_model.bin", "PK", 2);
    refused(&r, config, WEFT_EUNSUPPORTED, "a pickle");
    assert_int_equal(remove(temp_path("adapter/adapter_model.bin")), 0);
    temp_file("adapter/" WEIGHTS, "<!DOCTYPE html><html>", 21);
    refused(&r, config, WEFT_EFORMAT, "a web page");
    close_both(&r);
}

/* What is not an error: PEFT's own habits. */
static void accepted_configs(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        { "\"kasa_config\": null", "\"new_number\": 16" },
        { "\"kasa_config\": null", "\"new_flag\": false" },
        { "\"kasa_config\": null", "\"new_list\": []" },
        { "\"init_lora_weights\": true", "\"init_lora_weights\": \"gaussian\"" },
        { "\"init_lora_weights\": true", "\"init_lora_weights\": \"eva\"" },
        { "\"eva_config\": null", "\"eva_config\": {\"rho\": 2.0}" },
        { "\"lora_dropout\": 0.0", "\"lora_dropout\": 0.1" },
        { "\"fan_in_fan_out\": false", "\"fan_in_fan_out\": true" },
        { "\"modules_to_save\": null", "\"modules_to_save\": [\"classifier\", \"score\"]" },
        { "\"base_model_name_or_path\": \"llama-gqa\"", "\"base_model_name_or_path\": null" },
    };
    rig r;
    open_model(&r, golden_path("llama-gqa"));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        adapter a;
        weft_error err = { 0 };
        const char *path = variant("llama-layers", CONFIG, cases[i][0], cases[i][1]);
        assert_that(peft_open(&a, &r.model, path, WEFT_LOAD_COPY, &err) == WEFT_OK, "%s: %s",
                    cases[i][1], err.message);
        assert_int_equal(a.n_part, 2);
        adapter_close(&a);
    }
    close_both(&r);
}

static void heard(void *ud, weft_log_level level, const char *message)
{
    (void)level;
    snprintf(ud, 512, "%s", message);
}

static void other_names_of_the_base(void **state)
{
    (void)state;
    rig r;
    adapter a;
    weft_error err = { 0 };
    char log[512] = "";
    open_model(&r, golden_path("llama-gqa"));
    r.host.log = (log_sink){ heard, log };
    assert_int_equal(peft_open(&a, &r.model, adapter_path("llama-layers"), WEFT_LOAD_COPY, &err),
                     WEFT_OK);
    adapter_close(&a);
    assert_string_equal(log, "");
    const char *path = variant("llama-layers", CONFIG, "\"llama-gqa\"", "\"meta/Llama-9\"");
    assert_int_equal(peft_open(&a, &r.model, path, WEFT_LOAD_COPY, &err), WEFT_OK);
    adapter_close(&a);
    assert_non_null(strstr(log, "the adapter was made for meta/Llama-9"));
    close_both(&r);
}

/* ---- extreme numbers, files that end early --------------------------------------------------- */

/* OK or an error with a message; nothing is left. Returns whether it opened. */
static bool survives(const rig *r, const char *path)
{
    adapter a;
    weft_error err = { 0 };
    const size_t before = atomic_load(&r->model.host->mem.used);
    const bool opened = peft_open(&a, &r->model, path, WEFT_LOAD_COPY, &err) == WEFT_OK;
    if (opened)
        adapter_close(&a);
    assert_that(opened || (err.code != WEFT_OK && err.message[0]), "no message");
    assert_int_equal(atomic_load(&r->model.host->mem.used), before);
    return opened;
}

static void extremes(void **state)
{
    (void)state;
    static const char *const numbers[][2] = {
        { "\"r\": 3", "\"r\": %" },
        { "\"lora_alpha\": 3", "\"lora_alpha\": %" },
        { "[\n    1\n  ]", "[%]" },
        { "[\n    1\n  ]", "[1, %]" },
        { "\"rank_pattern\": {}", "\"rank_pattern\": {\"o_proj\": %}" },
        { "\"rank_pattern\": {}", "\"rank_pattern\": {\"o_pro.\": %, \"up_proj\": 3}" },
        { "\"alpha_pattern\": {}", "\"alpha_pattern\": {\"o_proj\": %}" },
        { "\"qalora_group_size\": 16", "\"qalora_group_size\": %" },
    };
    rig r;
    int opened = 0, n = 0;
    open_model(&r, golden_path("llama-gqa"));
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        for (int k = 0; k < 2 * N_HOSTILE + 5; k++) {
            static const char *const odd[] = { "-0.0", "1e308", "1e999", "5e-324", "-1.5" };
            char number[32], is[128];
            const char *gap = strchr(numbers[i][1], '%');
            snprintf(number, sizeof number, "%s%llu", k % 2 ? "-" : "",
                     (unsigned long long)hostile[k / 2 % N_HOSTILE]);
            snprintf(is, sizeof is, "%.*s%s%s", (int)(gap - numbers[i][1]), numbers[i][1],
                     k < 2 * N_HOSTILE ? number : odd[k - 2 * N_HOSTILE], gap + 1);
            opened += survives(&r, variant("llama-layers", CONFIG, numbers[i][0], is));
            n++;
        }
    print_message("%d of %d opened\n", opened, n);
    assert_true(opened > 0 && opened < n / 2);
    close_both(&r);
}

/* Every dimension and offset of the file. */
static void extreme_shapes(void **state)
{
    (void)state;
    rig r;
    int opened = 0, n = 0;
    open_model(&r, golden_path("llama-gqa"));
    for (int k = 0; k < N_HOSTILE; k++) {
        char is[64];
        snprintf(is, sizeof is, "[%llu,48]", (unsigned long long)hostile[k]);
        opened += survives(&r, variant("llama-layers", WEIGHTS, "[3,48]", is));
        snprintf(is, sizeof is, "[3,%llu]", (unsigned long long)hostile[k]);
        opened += survives(&r, variant("llama-layers", WEIGHTS, "[3,48]", is));
        n += 2;
    }
    assert_int_equal(opened, 0);
    assert_int_equal(n, 2 * N_HOSTILE);
    close_both(&r);
}

static void cut_short(void **state)
{
    (void)state;
    rig r;
    static const char *const files[] = { CONFIG, WEIGHTS };
    open_model(&r, golden_path("bert-classify"));
    for (int i = 0; i < 2; i++) {
        size_t n;
        char *text = read_part("bert-classify", files[i], &n), inner[64];
        const char *path = variant("bert-classify", files[i], NULL, NULL);
        snprintf(inner, sizeof inner, "adapter/%s", files[i]);
        const size_t end = i == 0 ? n - 1 : n; /* the last byte of the first is a line's end */
        for (size_t k = 0; k < end; k++) {
            temp_file(inner, text, k);
            assert_that(!survives(&r, path), "%zu of %zu bytes of %s were accepted", k, n,
                        files[i]);
        }
        print_message("%s: %zu truncations\n", files[i], end);
        free(text);
    }
    close_both(&r);
}

/* ---- faults ---------------------------------------------------------------------------------- */

/* One opening in which the k-th call of one kind fails. False if there were fewer calls. */
static bool fault(const char *base, const char *path, weft_load load, bool files, int64_t k,
                  bool sticky, int64_t *failed)
{
    host h;
    model m;
    adapter a;
    faults memory = { 0 }, io = { 0 }, *chosen = files ? &io : &memory;
    weft_error err = { 0 };
    host_faulty(&h, &memory, &io);
    assert_int_equal(model_open(&m, base, WEFT_LOAD_COPY, &h, &err), WEFT_OK);
    chosen->fail_at = chosen->calls + k;
    chosen->sticky = sticky;
    const weft_status status = peft_open(&a, &m, path, load, &err);
    const weft_status want = files ? WEFT_EIO : WEFT_ENOMEM;
    const bool enough = chosen->calls >= chosen->fail_at;
    chosen->fail_at = 0;
    if (status == WEFT_OK)
        adapter_close(&a);
    model_close(&m);
    assert_that(status == WEFT_OK || (status == want && err.code == want && err.message[0]),
                "%s: call %lld: got %d \"%s\", expected %d", path, (long long)k, (int)status,
                err.message, (int)want);
    assert_that(!memory.live && !io.live && !atomic_load(&h.mem.used),
                "%s: call %lld: %lld blocks and %lld files are left", path, (long long)k,
                (long long)memory.live, (long long)io.live);
    *failed += status != WEFT_OK;
    return enough;
}

static void injected(void **state)
{
    (void)state;
    char gguf[256];
    snprintf(gguf, sizeof gguf, "%s", as_gguf(golden_path("llama-gqa"), "faults.gguf"));
    const char *const some[][2] = { { golden_path("llama-gqa"), "llama-patterns" },
                                    { gguf, "llama-patterns" },
                                    { golden_path("qwen2"), "qwen2-lora-bias" },
                                    { golden_path("gpt2"), "gpt2-saved" } };
    for (size_t i = 0; i < sizeof some / sizeof *some; i++) {
        char path[4096];
        int64_t points = 0, failed = 0;
        snprintf(path, sizeof path, "%s", adapter_path(some[i][1]));
        for (int how = 0; how < 8; how++)
            for (int64_t k = 1; fault(some[i][0], path, how & 1 ? WEFT_LOAD_MAP : WEFT_LOAD_COPY,
                                      how & 2, k, how & 4, &failed);
                 k++)
                points++;
        print_message("%s: %lld fault points, %lld failed\n", some[i][1], (long long)points,
                      (long long)failed);
        assert_true(points > 0 && failed > points / 2);
    }
}

/* The cap is checked before memory is allocated. */
static void capped(void **state)
{
    (void)state;
    rig r;
    adapter a;
    weft_error err = { 0 };
    open_model(&r, golden_path("llama-gqa"));
    r.host.mem.cap = atomic_load(&r.host.mem.used) + 1000;
    assert_int_equal(peft_open(&a, &r.model, adapter_path("llama-lora"), WEFT_LOAD_COPY, &err),
                     WEFT_ELIMIT);
    assert_int_equal(atomic_load(&r.host.mem.used), r.host.mem.cap - 1000);
    r.host.mem.cap = 0;
    close_both(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST("peft: a model with an adapter in its weights computes what PEFT does", outputs),
        TEST("peft: the same for a GGUF file", outputs_gguf),
        TEST("peft: A and B are the tensors of the file", plain_parts),
        TEST("peft: unaligned tensors are copied", unaligned),
        TEST("peft: ranks and scales follow rsLoRA and patterns", scales),
        TEST("peft: a fused matrix is cut by rows, its A is shared", fused_parts),
        TEST("peft: an embedding and the head that shares it are two uses", two_uses),
        TEST("peft: a base layer that differs changes both uses", other_base),
        TEST("peft: biases are replaced, or beside B", biases),
        TEST("peft: modules match as in PEFT", matching),
        TEST("peft: a configuration that weft cannot follow is refused by name", refused_config),
        TEST("peft: patterns without an end are refused", refused_patterns),
        TEST("peft: tensors that are missing, left over or misshapen are refused", refused_weights),
        TEST("peft: names of other classes are found", other_classes),
        TEST("peft: an embedding of encoder and decoder is refused", refused_shared),
        TEST("peft: kept ties are refused where there are some", refused_ties),
        TEST("peft: a directory that is no adapter is refused", refused_files),
        TEST("peft: what does not matter is accepted", accepted_configs),
        TEST("peft: another name of the base is only a warning", other_names_of_the_base),
        TEST("peft: extreme numbers in the configuration", extremes),
        TEST("peft: extreme shapes", extreme_shapes),
        TEST("peft: files cut off at any byte are refused", cut_short),
        TEST("peft: every allocation and file call may fail", injected),
        TEST("peft: the memory cap holds", capped),
    };
    return RUN(tests);
}
