/* Weights of a model in panels: which weights are packed and when not, that memory is predicted,
 * and that results have the same bits as without packing. */
#include "small_model.h"

#include "engine/encode.h"
#include "models/pack.h"

#include <pthread.h>
#include <string.h>

static int64_t n_packed(const model *m)
{
    int64_t n = 0;
    for (int64_t i = 0; i < m->n_param; i++)
        n += m->param[i]->panels != NULL;
    return n;
}

enum { N = 27, MAX_VOCAB = 256 };

/* The logits after 26 tokens in two calls and a last one alone. */
static void answer(fixture_model *f, int n_thread, float *logits)
{
    int32_t ids[N];
    story(ids, N, 3);
    engine *e = make_engine(f, (engine_options){ .n_thread = n_thread });
    session *s = make_session(e);
    must_feed(s, ids, 7);
    must_feed(s, ids + 7, N - 8);
    must_feed(s, ids + N - 1, 1);
    assert_true(f->model.n_vocab <= MAX_VOCAB);
    memcpy(logits, s->logits, (size_t)f->model.n_vocab * sizeof *logits);
    session_free(s);
    engine_free(e);
}

static void formats_have_the_same_bits(void **state)
{
    (void)state;
    static const char *const types[] = { "f32",  "f16",   "bf16",   "q8_0",  "q4_0", "q4_1",
                                         "q5_0", "q5_1",  "q4_k",   "q5_k",  "q6_k", "q2_k",
                                         "q3_k", "mxfp4", "iq4_nl", "iq4_xs" };
    for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
        fixture_model f, plain;
        float got[MAX_VOCAB], want[MAX_VOCAB];
        llama_shape shape = small_shape;
        shape.type = dtype_by_name(types[t]);
        if (shape.type->block > 32) { /* of 256, which rows must fill */
            shape.d_model = 256;
            shape.d_ff = 512;
        }
        open_llama(&f, shape);
        open_llama(&plain, shape);
        pack_never(&plain.model);
        answer(&f, 2, got);
        answer(&plain, 1, want);
        /* seven matrices per layer, and the table tied to the head */
        assert_int_equal(n_packed(&f.model), f.model.kern->pack_panel ? 2 * 7 + 1 : 0);
        assert_int_equal(n_packed(&plain.model), 0);
        assert_memory_equal(got, want, (size_t)f.model.n_vocab * sizeof *got);
        close_llama(&f);
        close_llama(&plain);
    }
}

static void families_have_the_same_bits(void **state)
{
    (void)state;
    static const char *const names[] = { "llama-gqa", "gpt2",        "qwen2",
                                         "qwen3",     "deepseek-v3", "deepseek-v2-lite" };
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        fixture_model f, plain;
        float got[MAX_VOCAB], want[MAX_VOCAB];
        open_golden(&f, names[k]);
        open_golden(&plain, names[k]);
        pack_never(&plain.model);
        answer(&f, 2, got);
        answer(&plain, 1, want);
        assert_true(!f.model.kern->pack_panel || n_packed(&f.model) > 0);
        assert_memory_equal(got, want, (size_t)f.model.n_vocab * sizeof *got);
        close_llama(&f);
        close_llama(&plain);
    }
}

/* A table used only for lookups is not packed. */
static void tables_stay(void **state)
{
    (void)state;
    fixture_model f;
    float logits[MAX_VOCAB];
    open_golden(&f, "gpt2");
    answer(&f, 1, logits);
    for (int64_t i = 0; i < f.model.n_param; i++)
        if (strcmp(f.model.param[i]->name, "position_embd.weight") == 0)
            assert_null(f.model.param[i]->panels);
    close_llama(&f);
}

static char told[512];

static void listen(void *ud, weft_log_level level, const char *message)
{
    (void)ud, (void)level;
    snprintf(told, sizeof told, "%s", message);
}

/* One byte less than the plan: the weights are not packed, with a log line, and everything else is
 * unchanged. */
static void a_small_cap_leaves_them(void **state)
{
    (void)state;
    float got[MAX_VOCAB], want[MAX_VOCAB];
    weft_error err = { 0 };
    engine_options o = { .n_thread = 1 };
    for (int less = 0; less < 2; less++) {
        fixture_model f;
        engine_plan plan;
        open_typed(&f, &dtype_q8_0);
        f.host.log = (log_sink){ listen, NULL };
        told[0] = '\0';
        assert_int_equal(engine_resolve(&f.model, &o, &err), WEFT_OK);
        assert_int_equal(engine_predict(&f.model, &o, NULL, &plan, &err), WEFT_OK);
        const size_t before = f.host.mem.used;
        f.host.mem.cap = before + plan.total - (less ? plan.panels / 2 : 0);
        answer(&f, 1, less ? got : want);
        assert_true(f.host.mem.peak <= f.host.mem.cap);
        if (f.model.kern->pack_panel) {
            assert_int_equal(n_packed(&f.model) > 0, !less);
            assert_int_equal(
                strstr(told, "weights are not packed, which is slower; packing needs") != NULL,
                less);
            assert_true(plan.panels > 0);
        }
        assert_int_equal(pack_plan(&f.model), 0); /* it is decided */
        f.host.log = (log_sink){ 0 };
        close_llama(&f);
    }
    assert_memory_equal(got, want, 61 * sizeof *got);
}

/* Memory for sessions still to be created takes priority over panels. */
static void sessions_come_first(void **state)
{
    (void)state;
    enum { SESSIONS = 64 };
    fixture_model f;
    engine_plan plan;
    weft_error err = { 0 };
    session *s[SESSIONS];
    engine_options o = { .n_thread = 1, .n_session = SESSIONS, .n_batch = 1 };
    open_typed(&f, &dtype_q8_0);
    assert_int_equal(engine_resolve(&f.model, &o, &err), WEFT_OK);
    assert_int_equal(engine_predict(&f.model, &o, NULL, &plan, &err), WEFT_OK);
    assert_true(SESSIONS * plan.session > 128 << 10);
    f.host.mem.cap = f.host.mem.used + plan.total - (plan.panels ? 64 << 10 : 0);
    engine *e = make_engine(&f, o);
    for (int i = 0; i < SESSIONS; i++)
        s[i] = make_session(e);
    assert_int_equal(n_packed(&f.model), 0);
    for (int i = 0; i < SESSIONS; i++)
        session_free(s[i]);
    engine_free(e);
    close_llama(&f);
}

static void *make_one(void *arg)
{
    float *logits = malloc(MAX_VOCAB * sizeof *logits);
    answer(arg, 2, logits);
    return logits;
}

static void engines_on_many_threads(void **state)
{
    (void)state;
    enum { THREADS = 4 };
    fixture_model f;
    pthread_t thread[THREADS];
    float want[MAX_VOCAB];
    open_typed(&f, &dtype_q4_0);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, make_one, &f), 0);
    void *got[THREADS];
    for (int i = 0; i < THREADS; i++)
        pthread_join(thread[i], &got[i]);
    answer(&f, 1, want);
    for (int i = 0; i < THREADS; i++) {
        assert_memory_equal(got[i], want, 61 * sizeof *want);
        free(got[i]);
    }
    close_llama(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST("pack: every format gives the same result unpacked", formats_have_the_same_bits),
        TEST("pack: every family gives the same result unpacked", families_have_the_same_bits),
        TEST("pack: a table used only for lookups is not packed", tables_stay),
        TEST("pack: a cap without room leaves weights unpacked", a_small_cap_leaves_them),
        TEST("pack: memory for sessions still to be created comes first", sessions_come_first),
        TEST("pack: engines made on several threads share panels", engines_on_many_threads),
    };
    return RUN(tests);
}
