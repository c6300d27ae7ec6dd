/* The identities on a page: they hold for every family, and each fails when one number that it is
 * about is changed. */
#include "engine/lens.h"
#include "explain/checks.h"
#include "explain/page.h"
#include "small_model.h"

enum { N = 7 };

static const int32_t text_ids[N] = { 1, 5, 7, 2, 9, 4, 3 };

static const char *const models[] = {
    "llama-gqa", "llama-yarn", "mistral-window", "gpt2",        "gpt2-rope",        "gemma2",
    "gemma3",    "olmo3",      "phi3-long",      "gpt-oss",     "qwen3-moe",        "granite",
    "mixtral",   "qwen2",      "deepseek-v2",    "deepseek-v3", "deepseek-v2-lite", "exaone4",
};

#define N_MODEL   ((int)(sizeof models / sizeof *models))
#define MAX_LAYER 64

/* A model, one forward of it, and the page's view of that. */
typedef struct scene {
    fixture_model f;
    record seen;
    layer_parts layer[MAX_LAYER];
    float *logits, *cached, *lens, *stream;
    subject subject;
} scene;

static void scene_open(scene *s, const char *name)
{
    weft_error err = { 0 };
    *s = (scene){ 0 };
    open_golden(&s->f, name);
    const model *m = &s->f.model;
    s->stream = calloc((size_t)(m->n_layer * m->d_model), sizeof *s->stream);
    s->seen = (record){ .mem = &s->f.host.mem,
                        .err = &err,
                        .keep_all = true,
                        .stream = s->stream,
                        .n_layer = m->n_layer };
    engine *e = make_engine(&s->f, (engine_options){ .n_thread = 1, .n_ctx = N, .n_batch = N });
    const trace_spec w = { .observe = record_add,
                           .observe_ud = &s->seen,
                           .show = { .maps = true, .open = true } };
    assert_int_equal(engine_trace(e, &w, &err), WEFT_OK);
    session *one = make_session(e);
    must_feed(one, text_ids, N);
    const size_t size = (size_t)m->n_out * sizeof(float);
    s->logits = malloc(size);
    s->cached = malloc(size);
    memcpy(s->logits, one->logits, size);
    memcpy(s->cached, one->logits, size);
    s->lens = malloc(size * (size_t)m->n_layer);
    assert_int_equal(lens_logits(m, e->pool, s->stream, m->n_layer, s->lens, &err), WEFT_OK);
    session_free(one);
    engine_free(e);
    assert_false(s->seen.failed);
    assert_true(m->n_layer <= MAX_LAYER);
    for (int64_t l = 0; l < m->n_layer; l++)
        s->layer[l] = parts_find(&s->seen, l);
    s->subject = (subject){ .model = m,
                            .title = name,
                            .seen = &s->seen,
                            .layer = s->layer,
                            .n_token = N,
                            .logits = s->logits,
                            .cached = s->cached,
                            .lens = s->lens };
}

static void scene_close(scene *s)
{
    record_free(&s->seen);
    free(s->logits);
    free(s->cached);
    free(s->lens);
    free(s->stream);
    close_llama(&s->f);
}

static identity run_one(const scene *s, const char *name)
{
    identity all[MAX_IDENTITY];
    const int n = checks_run(&s->subject, all);
    for (int i = 0; i < n; i++)
        if (strcmp(all[i].name, name) == 0)
            return all[i];
    fail_msg("no identity is named %s", name);
    return (identity){ 0 };
}

static void all_hold(void **state)
{
    (void)state;
    for (int i = 0; i < N_MODEL; i++) {
        static scene s;
        identity all[MAX_IDENTITY];
        scene_open(&s, models[i]);
        const int n = checks_run(&s.subject, all);
        int checked = 0;
        for (int k = 0; k < n; k++) {
            assert_that(all[k].holds, "%s: %s is off by %g", models[i], all[k].name, all[k].error);
            checked += !all[k].why_not;
            assert_true(all[k].why_not || all[k].n > 0);
        }
        assert_that(checked >= 5, "%s: only %d apply", models[i], checked);
        scene_close(&s);
    }
}

/* ---- planted defects ------------------------------------------------------------------------- */

static void flip(float *x)
{
    uint32_t bits;
    memcpy(&bits, x, sizeof bits);
    bits ^= 1;
    memcpy(x, &bits, sizeof bits);
}

static void swap_rows(const seen *t, int64_t a, int64_t b)
{
    for (int64_t k = 0; k < t->cols; k++) {
        const float was = t->data[a * t->cols + k];
        t->data[a * t->cols + k] = t->data[b * t->cols + k];
        t->data[b * t->cols + k] = was;
    }
}

/* Each changes as little as its identity must notice. */
static void spoil_rows(scene *s)
{
    s->layer[s->f.model.n_layer - 1].probs->data[0] += 3e-5F;
}

static void spoil_softmax(scene *s)
{
    s->layer[0].scores->data[(N - 1) * s->layer[0].n_head * N] += 1e-3F;
}

static void spoil_order(scene *s)
{
    const layer_parts *l = &s->layer[0];
    l->v->data[(N - 2) * l->v->cols] *= 1.01F;
}

static void spoil_lengths(scene *s)
{
    const seen *t = record_in(&s->seen, 1, "attn_q.rope");
    t = t ? t : record_in(&s->seen, 1, "attn_q_b.rope");
    t->data[t->rows * t->cols - 1] += 1e-2F;
}

static void spoil_distance(scene *s) /* as if two tokens had each other's position */
{
    const seen *t = record_in(&s->seen, 0, "attn_q.rope");
    t = t ? t : record_in(&s->seen, 0, "attn_q_b.rope");
    swap_rows(t, 1, 2);
    swap_rows(record_find(&s->seen, t->input[0]), 1, 2);
}

static void spoil_absorbed(scene *s)
{
    record_in(&s->seen, 0, "attn_k.join")->data[0] += 1e-2F;
}

static void spoil_sums(scene *s)
{
    const seen *t = s->layer[1].ffn_sum;
    flip(&t->data[t->rows * t->cols - 1]);
}

static void spoil_lens(scene *s)
{
    flip(&s->lens[(s->f.model.n_layer - 1) * s->f.model.n_out + 3]);
}

static void spoil_cache(scene *s)
{
    flip(&s->cached[s->f.model.n_out - 1]);
}

static const struct {
    const char *model, *name;
    void (*spoil)(scene *s);
} defects[] = {
    { "llama-gqa", "rows", spoil_rows },
    { "llama-gqa", "softmax", spoil_softmax },
    { "llama-gqa", "order", spoil_order },
    { "deepseek-v2", "order", spoil_order },
    { "gpt2", "order", spoil_order },
    { "llama-gqa", "lengths", spoil_lengths },
    { "llama-yarn", "lengths", spoil_lengths },
    { "deepseek-v2", "lengths", spoil_lengths },
    { "llama-gqa", "distance", spoil_distance },
    { "deepseek-v2", "distance", spoil_distance },
    { "gpt2-rope", "distance", spoil_distance },
    { "deepseek-v2", "absorbed", spoil_absorbed },
    { "deepseek-v3", "absorbed", spoil_absorbed },
    { "llama-gqa", "sums", spoil_sums },
    { "gpt2", "sums", spoil_sums },
    { "llama-gqa", "lens", spoil_lens },
    { "deepseek-v2", "lens", spoil_lens },
    { "llama-gqa", "cache", spoil_cache },
    { "gpt2", "cache", spoil_cache },
};

static void defects_are_found(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof defects / sizeof *defects; i++) {
        static scene s;
        scene_open(&s, defects[i].model);
        const identity before = run_one(&s, defects[i].name);
        assert_that(before.holds && !before.why_not, "%s: %s does not hold before",
                    defects[i].model, defects[i].name);
        defects[i].spoil(&s);
        const identity after = run_one(&s, defects[i].name);
        assert_that(!after.holds, "%s: %s holds with a defect, off by %g", defects[i].model,
                    defects[i].name, after.error);
        scene_close(&s);
    }
}

/* A row of NaN is no identity. */
static void nan_is_an_error(void **state)
{
    (void)state;
    static scene s;
    scene_open(&s, "llama-gqa");
    s.layer[0].probs->data[2] = NAN;
    assert_false(run_one(&s, "rows").holds);
    assert_false(run_one(&s, "order").holds);
    scene_close(&s);
}

/* Scripts are part of every page. */
static void scripts_are_small(void **state)
{
    (void)state;
    size_t n = 0;
    for (const page_file *f = page_files; f->name; f++)
        n += strstr(f->name, ".js") ? f->n : 0;
    assert_that(n > 20000 && n <= 60 * 1024, "scripts have %zu bytes", n);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST("checks: every identity holds in every family", all_hold),
        TEST("checks: each identity fails on a planted defect", defects_are_found),
        TEST("checks: NaN is an error", nan_is_an_error),
        TEST("page: scripts have at most 60 KiB", scripts_are_small),
    };
    return RUN(tests);
}
