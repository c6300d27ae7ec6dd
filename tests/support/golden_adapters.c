/* golden_adapters.c - see golden_adapters.h. */
#define SET_UP /* assertions here are not counted */
#include "golden_adapters.h"

#include "adapt/peft.h"
#include "edited.h"
#include "golden.h"
#include "models/convert.h"
#include "support.h"

#define TOLERANCE 1e-5

const char *golden_path(const char *name)
{
    static char path[8][4096];
    static int next;
    char *to = path[next++ % 8], inner[512];
    snprintf(inner, sizeof inner, "golden/%s", name);
    snprintf(to, sizeof path[0], "%s", fixture(inner));
    return to;
}

const char *adapter_path(const char *name)
{
    char inner[256];
    snprintf(inner, sizeof inner, "adapters/%s", name);
    return golden_path(inner);
}

void open_model(rig *r, const char *path)
{
    weft_error err = { 0 };
    *r = (rig){ 0 };
    host_plain(&r->host);
    if (model_open(&r->model, path, WEFT_LOAD_COPY, &r->host, &err) != WEFT_OK)
        fail_msg("%s", err.message);
}

void open_both(rig *r, const char *base, const char *path)
{
    weft_error err = { 0 };
    open_model(r, base);
    if (peft_open(&r->adapter, &r->model, path, WEFT_LOAD_MAP, &err) != WEFT_OK)
        fail_msg("%s: %s", path, err.message);
}

void close_both(rig *r)
{
    adapter_close(&r->adapter);
    model_close(&r->model);
    assert_int_equal(r->host.mem.used, 0);
}

/* The part or the whole weight of this name; NULL if there is none. */
const adapter_part *part_named(const rig *r, const char *name)
{
    for (int64_t i = 0; i < r->adapter.n_part; i++)
        if (strcmp(r->adapter.part[i].name, name) == 0)
            return &r->adapter.part[i];
    return NULL;
}

const adapter_whole *whole_named(const rig *r, const char *name)
{
    for (int64_t i = 0; i < r->adapter.n_whole; i++)
        if (strcmp(r->adapter.whole[i].name, name) == 0)
            return &r->adapter.whole[i];
    return NULL;
}

tensor *param_of(const model *m, const char *name, const char *tail)
{
    char whole[2 * NAME_BYTES];
    snprintf(whole, sizeof whole, "%s%s", name, tail);
    for (int64_t i = 0; i < m->n_param; i++)
        if (strcmp(m->param[i]->name, whole) == 0)
            return m->param[i];
    fail_msg("the model has no %s", whole);
    return NULL;
}

/* ---- the output ------------------------------------------------------------------------------ */

#define MAX_ROW 64

typedef struct sentence {
    batch_row row[MAX_ROW];
    sequence seq;
    batch batch;
} sentence;

static void sentence_init(sentence *t, const stored *ids, const stored *types)
{
    const int32_t n = (int32_t)ids->shape[0];
    t->seq = (sequence){ .n = n, .source = -1 };
    t->batch = (batch){ .n_row = n, .n_seq = 1, .row = t->row, .seq = &t->seq };
    for (int32_t i = 0; i < n; i++)
        t->row[i] = (batch_row){ .id = ((const int32_t *)ids->data)[i],
                                 .pos = i,
                                 .type = types ? ((const int32_t *)types->data)[i] : 0 };
}

/* set: the adapter, or NULL. */
static void forward(const model *m, lora_set *set, const golden *g, trace_fn *see, void *ud)
{
    static sentence target, source;
    sentence_init(&target, golden_tensor(g, "ids"), golden_tensor(g, "types"));
    batch b = target.batch;
    b.n_wanted = m->task == WEFT_TASK_CLASSIFY ? 1 : b.n_row;
    for (int32_t i = 0; i < b.n_wanted; i++)
        target.row[i].wanted = true;
    if (m->n_layer_src > 0) {
        sentence_init(&source, golden_tensor(g, "source"), NULL);
        source.batch.rank = set ? set->rank : 0;
        source.batch.whole = set;
        source.seq.adapted = (adaption){ set, 1 };
        b.src = &source.batch;
        target.seq.source = 0;
    }
    b.rank = set ? set->rank : 0;
    b.whole = set;
    target.seq.adapted = (adaption){ set, 1 };
    weft_error err = { 0 };
    run r[2];
    assert_int_equal(run_init_dry(&r[0], &m->host->mem, (int)(m->n_layer + m->n_layer_src), &err),
                     WEFT_OK);
    for (int real_run = 0; real_run < 2; real_run++) {
        if (real_run)
            assert_int_equal(run_init(&r[1], &m->host->mem, r[0].meta.peak, r[0].data.peak,
                                      r[0].scratch_peak, &err),
                             WEFT_OK);
        r[real_run].kern = m->kern;
        r[real_run].n_ctx = b.n_row;
        r[real_run].trace = real_run ? see : NULL;
        r[real_run].trace_ud = ud;
        run_begin(&r[real_run], &b);
        model_forward(&r[real_run], m);
    }
    run_free(&r[1]);
    run_free(&r[0]);
}

void check_forward(const char *name, const model *m, lora_set *set, const char *how)
{
    char trace[256], what[128];
    golden g;
    snprintf(trace, sizeof trace, "golden/adapters/%s/trace.safetensors", name);
    snprintf(what, sizeof what, "%s, %s", name, how);
    golden_open(&g, fixture(trace), TOLERANCE);
    forward(m, set, &g, golden_compare, &g);
    golden_finish(&g, what);
    golden_close(&g);
}

typedef struct kept_output {
    const golden *g;
    real *to;
    int64_t n;
} kept_output;

static void keep_output(void *ud, const tensor *t, const op *by)
{
    (void)by;
    kept_output *k = ud;
    if (!golden_tensor(k->g, t->name))
        return;
    k->n = rows(t) * cols(t);
    k->to = realloc(k->to, (size_t)k->n * sizeof *k->to);
    assert_non_null(k->to);
    for (int64_t i = 0; i < rows(t); i++)
        memcpy(k->to + i * cols(t), row(t, i), (size_t)cols(t) * sizeof *k->to);
}

real *adapted_output(const char *name, const model *m, lora_set *set, int64_t *n)
{
    char trace[256];
    golden g;
    snprintf(trace, sizeof trace, "golden/adapters/%s/trace.safetensors", name);
    golden_open(&g, fixture(trace), TOLERANCE);
    kept_output k = { .g = &g };
    forward(m, set, &g, keep_output, &k);
    golden_close(&g);
    assert_non_null(k.to);
    *n = k.n;
    return k.to;
}

/* The Llama whose head is its embedding, with a head of its own that equals it. */
const char *untied(void)
{
    static const char *path;
    if (path)
        return path;
    static char kept[4096];
    rig r;
    open_model(&r, golden_path("llama-gqa"));
    const tensor *t = param_of(&r.model, "token_embd", ".weight");
    const edit head = { "lm_head.weight", &dtype_f32, 2, { rows(t), cols(t) }, t->data };
    snprintf(kept, sizeof kept, "%s",
             edited_directory(golden_path("llama-gqa"), "untied", &head, 1,
                              "\"tie_word_embeddings\": true", "\"tie_word_embeddings\": false"));
    close_both(&r);
    return path = kept;
}

const char *as_gguf(const char *directory, const char *name)
{
    host h;
    weft_error err = { 0 };
    static convert_report report;
    const convert_options o = { .force = true, .n_thread = 1, .to = WEFT_FORMAT_GGUF };
    const char *path = temp_path(name);
    host_plain(&h);
    if (convert_model(directory, path, &o, &report, &h, &err) != WEFT_OK)
        fail_msg("%s", err.message);
    return path;
}

const struct adapter_golden adapter_goldens[] = {
    { "llama-lora", "llama-gqa" },
    { "llama-rslora", "llama-gqa" },
    { "llama-dora", "llama-mqa" },
    { "llama-patterns", "llama-gqa" },
    { "llama-layers", "llama-gqa" },
    { "llama-regex", "llama-mqa" },
    { "llama-saved", "llama-mqa" },
    { "llama-untied", "llama-gqa" },
    { "llama-embedding", "llama-gqa" },
    { "llama-head", "llama-gqa" },
    { "qwen2-bias-all", "qwen2" },
    { "llama-embedding-dora", "llama-mqa" },
    { "qwen2-bias-lora", "qwen2" },
    { "qwen2-lora-bias", "qwen2" },
    { "phi3-fused", "phi3" },
    { "phi3-fused-dora", "phi3" },
    { "gpt2-lora", "gpt2" },
    { "gpt2-dora", "gpt2" },
    { "gpt2-saved", "gpt2" },
    { "gemma2-saved", "gemma2" },
    { "bert-lora", "bert" },
    { "bert-classify", "bert-classify" },
    { "t5-lora", "t5" },
    { "t5-dora", "t5" },
};
const size_t n_adapter_golden = sizeof adapter_goldens / sizeof *adapter_goldens;
