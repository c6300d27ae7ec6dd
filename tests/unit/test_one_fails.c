/* A failing session affects no other: seven others in the same forwards get the same bits as
 * alone. */
#include "small_model.h"

enum { V = 61, SESSIONS = 8, LENGTH = 100, BAD = 3 };

/* Tokens that only the poisoned sessions have: keys overflow f16; a norm overflows f32. */
enum { OVERFLOWS = 60, OVERFLOWS_AT_ONCE = 59 };

typedef struct eight {
    fixture_model model;
    engine *engine;
    session *session[SESSIONS];
    int32_t ids[SESSIONS][LENGTH];
    work work[SESSIONS];
} eight;

static real *weights_of(const fixture_model *f, const char *name)
{
    for (int64_t i = 0; i < f->model.n_param; i++)
        if (strcmp(f->model.param[i]->name, name) == 0)
            return f->model.param[i]->data;
    fail_msg("no tensor %s", name);
    return NULL;
}

/* Each has a value in a dimension of its own, which the first norm makes huge. */
static void poison_tokens(fixture_model *f)
{
    const int64_t D = f->model.d_model;
    real *embd = weights_of(f, "token_embd.weight"),
         *gain = weights_of(f, "blk.0.attn_norm.weight");
    for (int id = 0; id < V; id++) {
        embd[id * D + 5] = id == OVERFLOWS ? 1 : 0;
        embd[id * D + 6] = id == OVERFLOWS_AT_ONCE ? 100 : 0;
    }
    gain[5] = 1e7f;
    gain[6] = 3e38f;
}

static void open_eight(eight *t, const dtype *kv, int64_t n_cache)
{
    open_typed(&t->model, &dtype_f32);
    poison_tokens(&t->model);
    t->engine = make_engine(
        &t->model,
        (engine_options){
            .n_thread = 2, .n_session = SESSIONS, .n_batch = 48, .kv = kv, .n_cache = n_cache });
    for (int i = 0; i < SESSIONS; i++) {
        story(t->ids[i], LENGTH, (uint64_t)i);
        for (int k = 0; k < LENGTH; k++)
            t->ids[i][k] %= OVERFLOWS_AT_ONCE;
        t->session[i] = make_session(t->engine);
        t->work[i] = (work){ .session = t->session[i], .ids = t->ids[i], .n = LENGTH - i };
    }
}

static void close_eight(eight *t)
{
    for (int i = 0; i < SESSIONS; i++)
        session_free(t->session[i]);
    assert_int_equal(t->engine->pages.n_free, t->engine->pages.n_page);
    engine_free(t->engine);
    close_llama(&t->model);
}

static void assert_as_alone(eight *t, int i, int64_t n)
{
    engine *e = make_engine(&t->model, (engine_options){ .n_thread = 1, .kv = t->engine->opt.kv });
    session *alone = make_session(e);
    must_feed(alone, t->ids[i], n);
    assert_int_equal(t->work[i].status, WEFT_OK);
    assert_int_equal(t->session[i]->cache.length, n);
    assert_true(t->session[i]->has_logits);
    assert_memory_equal(t->session[i]->logits, alone->logits, sizeof(float[V]));
    session_free(alone);
    engine_free(e);
}

static bool busy(const eight *t)
{
    for (int i = 0; i < SESSIONS; i++)
        if (t->work[i].status == WEFT_OK && t->work[i].done < t->work[i].n)
            return true;
    return false;
}

/* Steps until all are done or failed; returns how many steps failed, the last one with err. */
static int step_all(eight *t, weft_error *err)
{
    weft_error local = { 0 };
    int failed = 0;
    while (busy(t))
        if (engine_step(t->engine, t->work, SESSIONS, &local) != WEFT_OK) {
            *err = local;
            failed++;
        }
    return failed;
}

/* ---- logits that are not finite -------------------------------------------------------------- */

static void overflow_in_eval(void **state)
{
    (void)state;
    eight t;
    weft_error err = { 0 };
    open_eight(&t, &dtype_f16, 0);
    t.ids[BAD][80] = OVERFLOWS; /* in a forward after the first */
    assert_int_equal(engine_eval(t.engine, t.work, SESSIONS, &err), WEFT_ENUMERIC);
    assert_non_null(strstr(err.message, "work 3: "));
    assert_non_null(strstr(err.message, "blk.0."));
    for (int i = 0; i < SESSIONS; i++)
        if (i != BAD)
            assert_as_alone(&t, i, LENGTH - i);
    assert_int_equal(t.work[BAD].status, WEFT_ENUMERIC);
    assert_int_equal(t.work[BAD].done, 0);
    assert_int_equal(t.session[BAD]->cache.length, 0);
    assert_int_equal(t.session[BAD]->cache.n_page, 0);
    assert_false(t.session[BAD]->has_logits);

    /* It continues without that token. */
    t.ids[BAD][80] = 1;
    must_eval(t.engine, &t.work[BAD], 1);
    assert_as_alone(&t, BAD, LENGTH - BAD);
    close_eight(&t);
}

/* In steps it keeps the earlier ones; a wider cache does not overflow. */
static void overflow_in_steps(void **state)
{
    (void)state;
    eight t;
    weft_error err = { 0 };
    open_eight(&t, &dtype_f16, 0);
    t.ids[BAD][80] = OVERFLOWS;
    assert_int_equal(step_all(&t, &err), 1);
    assert_int_equal(err.code, WEFT_ENUMERIC);
    assert_non_null(strstr(err.message, "work 3: "));
    for (int i = 0; i < SESSIONS; i++)
        if (i != BAD)
            assert_as_alone(&t, i, LENGTH - i);
    const int64_t done = t.work[BAD].done;
    assert_true(done > 0 && done < t.work[BAD].n && t.session[BAD]->cache.length == done);
    assert_int_equal(t.session[BAD]->cache.n_page, pages_for(done));
    close_eight(&t);

    open_eight(&t, &dtype_f32, 0);
    t.ids[BAD][80] = OVERFLOWS;
    must_eval(t.engine, t.work, SESSIONS);
    close_eight(&t);
}

/* Two fail in one forward for different reasons. */
static void each_has_its_name(void **state)
{
    (void)state;
    eight t;
    weft_error err = { 0 };
    open_eight(&t, &dtype_f16, 0);
    t.ids[BAD][89] = OVERFLOWS;
    t.ids[BAD + 1][89] = OVERFLOWS_AT_ONCE;
    t.work[BAD].n = t.work[BAD + 1].n = 90;
    assert_int_equal(step_all(&t, &err), 1);
    assert_int_equal(t.work[BAD].status, WEFT_ENUMERIC);
    assert_int_equal(t.work[BAD + 1].status, WEFT_ENUMERIC);
    assert_non_null(strstr(err.message, "work 3: "));
    assert_non_null(strstr(t.session[BAD]->failure, "blk.0."));
    assert_null(strstr(t.session[BAD]->failure, "tensor: blk.0.attn_norm"));
    assert_non_null(strstr(t.session[BAD + 1]->failure, "tensor: blk.0.attn_norm"));
    for (int i = 0; i < SESSIONS; i++)
        if (i != BAD && i != BAD + 1)
            assert_as_alone(&t, i, LENGTH - i);
    close_eight(&t);
}

/* ---- no room --------------------------------------------------------------------------------- */

/* Every session needs two pages, and there are 15. */
static void full_pool(void **state)
{
    (void)state;
    for (int steps = 0; steps < 2; steps++) {
        eight t;
        weft_error err = { 0 };
        open_eight(&t, &dtype_f16, 15 * PAGE_ROWS);
        if (steps)
            assert_int_equal(step_all(&t, &err), 1);
        else
            assert_int_equal(engine_eval(t.engine, t.work, SESSIONS, &err), WEFT_ECONTEXT);
        assert_int_equal(err.code, WEFT_ECONTEXT);
        assert_non_null(strstr(err.message, " of 15 are free"));
        int n_failed = 0;
        for (int i = 0; i < SESSIONS; i++) {
            char name[32];
            snprintf(name, sizeof name, "work %d: ", i);
            if (t.work[i].status == WEFT_OK) {
                assert_as_alone(&t, i, LENGTH - i);
                continue;
            }
            n_failed++;
            assert_int_equal(t.work[i].status, WEFT_ECONTEXT);
            assert_non_null(strstr(err.message, name));
            assert_int_equal(t.session[i]->cache.length, t.work[i].done);
            assert_true(steps ? t.work[i].done > 0 : t.work[i].done == 0);
        }
        assert_int_equal(n_failed, 1);
        close_eight(&t);
    }
}

static void full_context(void **state)
{
    (void)state;
    eight t;
    weft_error err = { 0 };
    int32_t ids[400];
    open_eight(&t, &dtype_f16, 0);
    story(ids, 400, 20);
    t.work[BAD].ids = ids;
    t.work[BAD].n = 321;
    assert_int_equal(engine_eval(t.engine, t.work, SESSIONS, &err), WEFT_ECONTEXT);
    assert_non_null(strstr(err.message, "work 3: the context of 320 tokens holds 0; "
                                        "321 more do not fit"));
    assert_int_equal(t.session[BAD]->cache.length, 0);
    for (int i = 0; i < SESSIONS; i++)
        if (i != BAD)
            assert_as_alone(&t, i, LENGTH - i);
    close_eight(&t);
}

/* ---- arguments ------------------------------------------------------------------------------- */

static void wrong_arguments_are_the_calls(void **state)
{
    (void)state;
    eight t;
    weft_error err = { 0 };
    open_eight(&t, &dtype_f16, 0);
    t.ids[BAD][80] = V;
    assert_int_equal(engine_eval(t.engine, t.work, SESSIONS, &err), WEFT_EINVAL);
    for (int i = 0; i < SESSIONS; i++)
        assert_true(t.work[i].status == WEFT_OK && t.session[i]->cache.length == 0);
    close_eight(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST("one fails: an f16 cache overflows, seven others get the same bits as alone",
             overflow_in_eval),
        TEST("one fails: it keeps the earlier steps, and f32 does not overflow", overflow_in_steps),
        TEST("one fails: two that fail together each name their own tensor", each_has_its_name),
        TEST("one fails: the one without pages, in an eval and in steps", full_pool),
        TEST("one fails: the one that does not fit into the context", full_context),
        TEST("one fails: a wrong argument fails the call, and nothing happens",
             wrong_arguments_are_the_calls),
    };
    return RUN(tests);
}
