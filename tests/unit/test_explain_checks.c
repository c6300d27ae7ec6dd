/* The identities on a page: they hold for every family, and each fails when one number that it is
 * about is changed. */
#include "engine/encode.h"
#include "engine/lens.h"
#include "explain/checks.h"
#include "explain/page.h"
#include "explain/squeeze.h"
#include "small_model.h"

enum { N = 7 };

static const int32_t text_ids[N] = { 1, 5, 7, 2, 9, 4, 3 };

static const char *const models[] = {
    "llama-gqa",
    "llama-yarn",
    "mistral-window",
    "gpt2",
    "gpt2-rope",
    "gemma2",
    "gemma3",
    "olmo3",
    "phi3-long",
    "gpt-oss",
    "qwen3-moe",
    "granite",
    "mixtral",
    "qwen2",
    "deepseek-v2",
    "deepseek-v3",
    "deepseek-v2-lite",
    "exaone4",
    "t5",
    "flan-t5",
    "bart",
    "marian",
    "m2m",
    "bahdanau",
    "transformer-2017",
    "vit",
    "deit",
};

#define N_MODEL   ((int)(sizeof models / sizeof *models))
#define MAX_LAYER 64

/* A model, one forward of it, and the page's view of that. */
typedef struct scene {
    fixture_model f;
    record seen;
    layer_parts layer[MAX_LAYER];
    float *logits, *cached, *lens, *stream;
    subject subject, source;
} scene;

static const int32_t source_ids[] = { 4, 5, 6, 7, 8 };
enum { S = 5 };

static void see_text(scene *s, const trace_spec *w)
{
    weft_error err = { 0 };
    const model *m = &s->f.model;
    engine *e = make_engine(&s->f, (engine_options){ .n_thread = 1, .n_ctx = N, .n_batch = N });
    session *one = make_session(e);
    assert_int_equal(engine_trace(e, w, &err), WEFT_OK);
    if (m->n_layer_src > 0)
        must_encode(e, &(source_text){ one, source_ids, S }, 1);
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
}

static void see_picture(scene *s, const trace_spec *w)
{
    weft_error err = { 0 };
    const model *m = &s->f.model;
    const encode_engine_options o = { .n_thread = 1 };
    const int64_t lead = m->image.n_lead * m->d_feature, n = m->n_ctx * m->d_feature;
    float *x = calloc((size_t)n, sizeof *x), out[64];
    for (int64_t k = lead; k < n; k++)
        x[k] = (float)sin((double)k);
    encode_engine *e = encode_engine_new(m, &o, &err);
    assert_non_null(e);
    assert_int_equal(encode_engine_trace(e, w, &err), WEFT_OK);
    const weft_input in = { .features = x, .n = m->n_ctx, .out = out };
    assert_int_equal(encode_engine_eval(e, &in, 1, &err), WEFT_OK);
    encode_engine_free(e);
    free(x);
}

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
                        .d_model = m->d_model,
                        .n_layer_src = m->n_layer_src,
                        .n_layer = m->n_layer };
    const trace_spec w = { .observe = record_add,
                           .observe_ud = &s->seen,
                           .show = {
                               .maps = true, .open = true, .all_logits = m->n_layer_src > 0 } };
    (m->d_feature > 0 ? see_picture : see_text)(s, &w);
    assert_false(s->seen.failed);
    assert_true(parts_count(m) <= MAX_LAYER);
    for (int64_t l = 0; l < parts_count(m); l++)
        s->layer[l] = parts_find(&s->seen, l);
    s->subject = (subject){ .model = m,
                            .title = name,
                            .seen = &s->seen,
                            .layer = s->layer,
                            .n_layer = parts_count(m),
                            .at_layer = m->n_layer_src,
                            .n_token = m->d_feature > 0 ? m->n_ctx : N,
                            .logits = s->logits,
                            .cached = s->cached,
                            .lens = s->lens };
    s->source = s->subject;
    s->source.n_token = S;
    s->subject.source = m->n_layer_src > 0 ? &s->source : NULL;
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

/* Of an encoder-decoder: the maps of each stack, and of the cross-attention. */
static const layer_parts *of_stack(const scene *s, stack which)
{
    const layer_parts *l = s->layer;
    while (l->stack != which || !l->probs)
        l++;
    return l;
}

static void spoil_encoder_rows(scene *s)
{
    of_stack(s, STACK_ENCODER)->probs->data[0] += 3e-5F;
}

static void spoil_decoder_rows(scene *s)
{
    of_stack(s, STACK_DECODER)->probs->data[0] += 3e-5F;
}

static void spoil_cross_rows(scene *s)
{
    of_stack(s, STACK_CROSS)->probs->data[S - 1] += 3e-5F;
}

static void spoil_cross_scores(scene *s)
{
    of_stack(s, STACK_CROSS)->scores->data[1] += 1e-3F;
}

static void spoil_cross_values(scene *s)
{
    of_stack(s, STACK_CROSS)->v->data[2] += 1e-2F;
}

static void spoil_encoder_values(scene *s)
{
    of_stack(s, STACK_ENCODER)->v->data[2] += 1e-2F;
}

static const seen *in_decoder(const scene *s, const char *rest)
{
    return record_in(&s->seen, s->f.model.n_layer_src, rest);
}

static void spoil_alignment(scene *s)
{
    in_decoder(s, "cross_attention.probs")->data[S * N - 1] += 3e-5F;
}

static void spoil_alignment_scores(scene *s)
{
    in_decoder(s, "cross_attention.scores")->data[S * N - 1] += 1e-3F;
}

static void spoil_context(scene *s)
{
    in_decoder(s, "gru.context")->data[3] += 1e-4F;
}

static void spoil_memory(scene *s)
{
    record_in(&s->seen, 0, "gru")->data[3] += 1e-3F;
}

static void spoil_state(scene *s)
{
    in_decoder(s, "gru_attend")->data[3] += 1e-4F;
}

static void spoil_gates(scene *s)
{
    const seen *t = in_decoder(s, "gru.gates");
    t->data[t->rows * t->cols - 1] += 1e-3F;
}

static void spoil_patch(scene *s)
{
    const seen *t = record_find(&s->seen, "patch_embd");
    flip(&t->data[t->rows * t->cols - 1]);
}

static void spoil_class(scene *s)
{
    flip(record_find(&s->seen, s->f.model.image.n_lead > 1 ? "distill_embd" : "class_embd")->data);
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
    { "t5", "rows", spoil_encoder_rows },
    { "t5", "rows", spoil_decoder_rows },
    { "bart", "rows", spoil_cross_rows },
    { "marian", "softmax", spoil_cross_scores },
    { "marian", "order", spoil_cross_values },
    { "bart", "order", spoil_encoder_values },
    { "t5", "cache", spoil_cache },
    { "transformer-2017", "lens", spoil_lens },
    { "bahdanau", "alignment", spoil_alignment },
    { "bahdanau", "alignment", spoil_alignment_scores },
    { "bahdanau", "context", spoil_context },
    { "bahdanau", "context", spoil_memory },
    { "bahdanau", "state", spoil_state },
    { "bahdanau", "state", spoil_gates },
    { "vit", "patches", spoil_patch },
    { "vit", "patches", spoil_class },
    { "deit", "patches", spoil_patch },
    { "deit", "patches", spoil_class },
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

/* What a reader of scripts needs, a page does not; what is in quotes stays. */
static void scripts_are_squeezed(void **state)
{
    (void)state;
    static const struct {
        const char *from, *to;
    } of[] = {
        { "// a line\nconst x = 1,\n  y = 2;\n", "const x=1,y=2;" },
        { "a  +  +b - -c;\n  d ( e )", "a+ +b- -c;d(e)" },
        { "let s = \"a  // b\" + 'c  d'  ;", "let s=\"a  // b\"+'c  d';" },
        { "`a  ${ b ? `c  ${ {d : 1} }` : 2 }  e`  + f", "`a  ${b?`c  ${{d:1}}`:2}  e`+f" },
        { "s.replace(/a  b\\/ /g, 1) / 2", "s.replace(/a  b\\/ /g,1)/2" },
        { "f()\n  g()", "f()\ng()" },
        { "return  \"\\\"  \" in  x", "return\"\\\"  \"in x" },
    };
    fixture_model f;
    open_golden(&f, "gpt2");
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        weft_error err = { 0 };
        buffer b;
        buffer_begin(&b, &f.host.mem, &err);
        squeeze_script(&b, of[i].from, strlen(of[i].from));
        assert_that(b.n == strlen(of[i].to) && memcmp(b.at, of[i].to, b.n) == 0, "%s: %.*s",
                    of[i].from, (int)b.n, b.at);
        buffer_end(&b);
    }
    close_llama(&f);
}

static size_t script_size(scene *s, const char *only)
{
    weft_error err = { 0 };
    buffer b;
    buffer_begin(&b, &s->f.host.mem, &err);
    page_scripts(&s->subject, only, &b);
    assert_false(b.failed);
    const size_t n = b.n;
    buffer_end(&b);
    return n;
}

/* Scripts are part of every page, but for those of views that it does not show. */
static void scripts_are_small(void **state)
{
    (void)state;
    for (int i = 0; i < N_MODEL; i++) {
        static scene s;
        scene_open(&s, models[i]);
        const size_t n = script_size(&s, NULL);
        assert_that(n > 20000 && n <= 60 * 1024, "%s: scripts have %zu bytes", models[i], n);
        const bool rope = s.f.model.rope.n_rot > 0, pair = s.f.model.n_layer_src > 0;
        const bool picture = s.f.model.d_feature > 0;
        const size_t least = script_size(&s, "mask");
        assert_true(least > 20000);
        assert_int_equal(script_size(&s, "rope") > least, rope);
        assert_int_equal(script_size(&s, "encoder-decoder") > least, pair);
        assert_int_equal(script_size(&s, "picture") > least, picture);
        assert_true(n - least >= script_size(&s, "rope,encoder-decoder,picture") - least);
        scene_close(&s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST("checks: every identity holds in every family", all_hold),
        TEST("checks: each identity fails on a planted defect", defects_are_found),
        TEST("checks: NaN is an error", nan_is_an_error),
        TEST("page: scripts lose comments and blanks, not text", scripts_are_squeezed),
        TEST("page: scripts have at most 60 KiB", scripts_are_small),
    };
    return RUN(tests);
}
