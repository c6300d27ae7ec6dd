/* Memory is linear in the length of a text: no tensor of a model is n x n, in inference or in
 * training. */
#include "small_model.h"

#include "train/learner.h"

enum { LENGTHS = 3 };

/* The shortest text: two pages of keys, one if instructions are expensive. */
static int shortest(void)
{
    return quick() ? 64 : 128;
}

/* The small Llama, with a context for the longest text. */
static void open_long(fixture_model *f)
{
    llama_shape s = small_shape;
    s.type = &dtype_f32;
    s.n_ctx = shortest() << (LENGTHS - 1);
    open_llama(f, s);
}

/* A prompt of n tokens in one forward, at a context of n. */
static void prompt_bytes(int n, size_t *planned, size_t *taken)
{
    fixture_model f;
    weft_error err = { 0 };
    engine_plan plan;
    open_long(&f);
    engine_options o = { .n_thread = 1, .n_batch = n, .n_ctx = n };
    assert_int_equal(engine_resolve(&f.model, &o, &err), WEFT_OK);
    assert_int_equal(engine_predict(&f.model, &o, NULL, &plan, &err), WEFT_OK);
    int32_t *ids = malloc((size_t)n * sizeof *ids);
    story(ids, n, 5);
    engine *e = make_engine(&f, o);
    session *s = make_session(e);
    must_feed(s, ids, n);
    *planned = plan.total;
    *taken = f.host.mem.peak;
    session_free(s);
    engine_free(e);
    free(ids);
    close_llama(&f);
}

static void prompts_are_linear(void **state)
{
    (void)state;
    size_t planned[LENGTHS], taken[LENGTHS];
    for (int i = 0; i < LENGTHS; i++)
        prompt_bytes(shortest() << i, &planned[i], &taken[i]);
    assert_linear("prompt, planned", planned[0], planned[1], planned[2]);
    assert_linear("prompt, taken", taken[0], taken[1], taken[2]);
}

/* A text of n tokens with every row's target the next. */
static batch lesson_of(int n, sequence *seq)
{
    batch b = { .n_row = n, .n_seq = 1, .n_wanted = n - 1, .seq = seq };
    b.row = calloc((size_t)n, sizeof *b.row);
    *seq = (sequence){ .n = n, .source = -1 };
    int32_t *ids = malloc((size_t)n * sizeof *ids);
    story(ids, n, 6);
    for (int i = 0; i < n; i++)
        b.row[i] = (batch_row){ .id = ids[i],
                                .pos = i,
                                .target = i + 1 < n ? ids[i + 1] : NO_TARGET,
                                .weight = 1,
                                .wanted = i + 1 < n };
    free(ids);
    return b;
}

static void lesson_bytes(int n, bool recompute, size_t *planned, size_t *taken)
{
    fixture_model f;
    weft_error err = { 0 };
    learner l;
    learner_plan plan;
    sequence seq;
    open_long(&f);
    const batch b = lesson_of(n, &seq);
    const learner_options o = { .n_thread = 1,
                                .recompute = recompute,
                                .adamw = { 0.9, 0.95, 1e-8, 0.1, 1.0 } };
    if (learner_init(&l, &f.model, &o, &b, &err) != WEFT_OK)
        fail_msg("%s", err.message);
    assert_int_equal(learner_predict(&l, &b, &plan, &err), WEFT_OK);
    assert_int_equal(learner_begin(&l, &err), WEFT_OK);
    learner_backward(&l, &b);
    *planned = plan.meta + plan.data + plan.scratch;
    *taken = l.run.meta.peak + l.run.data.peak + l.run.scratch_peak;
    assert_true(f.host.mem.peak >= *taken);
    learner_free(&l);
    close_llama(&f);
    free(b.row);
}

static void lessons_are_linear(void **state)
{
    (void)state;
    for (int recompute = 0; recompute < 2; recompute++) {
        size_t planned[LENGTHS], taken[LENGTHS];
        for (int i = 0; i < LENGTHS; i++)
            lesson_bytes(shortest() << i, recompute, &planned[i], &taken[i]);
        const char *how = recompute ? "recomputed" : "kept";
        char name[64];
        snprintf(name, sizeof name, "training step, blocks %s, planned", how);
        assert_linear(name, planned[0], planned[1], planned[2]);
        snprintf(name, sizeof name, "training step, blocks %s, taken", how);
        assert_linear(name, taken[0], taken[1], taken[2]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST("memory: a prompt takes memory linear in its length, as planned", prompts_are_linear),
        TEST("memory: a training step takes memory linear in its text, as planned",
             lessons_are_linear),
    };
    return RUN(tests);
}
