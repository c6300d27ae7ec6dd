/* Sessions share pages without affecting each other. */
#include "small_model.h"

enum { V = 61 };

static session *must_fork(session *s)
{
    weft_error err = { 0 };
    session *fork = session_fork(s, &err);
    if (!fork)
        fail_msg("%s", err.message);
    return fork;
}

/* The session holds these tokens, and has the logits of a session that evaluates them alone. */
static void assert_as_alone(fixture_model *f, const session *s, const int32_t *ids, int64_t n)
{
    engine *e = make_engine(f, (engine_options){ .n_thread = 1, .kv = s->engine->opt.kv });
    session *alone = make_session(e);
    must_feed(alone, ids, n);
    assert_int_equal(s->cache.length, n);
    assert_int_equal(s->cache.n_page, pages_for(n));
    assert_memory_equal(s->ids, ids, (size_t)n * sizeof *ids);
    assert_true(s->has_logits);
    assert_memory_equal(s->logits, alone->logits, sizeof(float[V]));
    session_free(alone);
    engine_free(e);
}

static int64_t pages_used(const engine *e)
{
    return e->pages.n_page - e->pages.n_free;
}

/* ---- forks ----------------------------------------------------------------------------------- */

static void forks_go_their_own_way(void **state)
{
    (void)state;
    fixture_model f;
    int32_t a[200], b[200];
    story(a, 200, 1);
    story(b, 200, 2);
    memcpy(b, a, 100 * sizeof *a);
    open_typed(&f, &dtype_f32);
    engine *e = make_engine(&f, (engine_options){ .n_thread = 2, .n_session = 2 });
    session *s = make_session(e);
    must_feed(s, a, 100);
    session *fork = must_fork(s);
    assert_as_alone(&f, fork, a, 100);
    assert_int_equal(pages_used(e), 2);

    work both[] = { { .session = s, .ids = a + 100, .n = 100 },
                    { .session = fork, .ids = b + 100, .n = 100 } };
    must_eval(e, both, 2);
    assert_as_alone(&f, s, a, 200);
    assert_as_alone(&f, fork, b, 200);
    assert_int_equal(pages_used(e), 4 + 4 - 1); /* the first page is still shared */
    session_free(s);
    assert_as_alone(&f, fork, b, 200);
    assert_int_equal(pages_used(e), 4);
    session_free(fork);
    assert_int_equal(pages_used(e), 0);
    engine_free(e);
    close_llama(&f);
}

/* A rewound session writes where another still reads. */
static void a_rewound_fork_disturbs_nobody(void **state)
{
    (void)state;
    fixture_model f;
    weft_error err = { 0 };
    int32_t a[200], b[200];
    story(a, 200, 3);
    story(b, 200, 4);
    memcpy(b, a, 30 * sizeof *a);
    open_typed(&f, &dtype_q8_0);
    engine *e = make_engine(&f, (engine_options){ .n_thread = 1, .n_session = 2 });
    session *s = make_session(e);
    must_feed(s, a, 190);
    session *fork = must_fork(s);
    assert_int_equal(session_rewind(s, 30, &err), WEFT_OK);
    must_feed(s, b + 30, 120);
    assert_as_alone(&f, s, b, 150);
    must_feed(fork, a + 190, 10);
    assert_as_alone(&f, fork, a, 200);
    session_copy(fork, s);
    assert_as_alone(&f, fork, b, 150);
    assert_int_equal(pages_used(e), 3);
    session_free(s);
    session_free(fork);
    engine_free(e);
    close_llama(&f);
}

/* Two contexts of 3 pages, shared by four sessions: the pool refuses only what it cannot hold. */
static void a_full_pool_changes_nothing(void **state)
{
    (void)state;
    fixture_model f;
    weft_error err = { 0 };
    int32_t ids[192];
    story(ids, 192, 5);
    open_typed(&f, &dtype_f32);
    engine *e = make_engine(
        &f, (engine_options){ .n_thread = 1, .n_session = 4, .n_ctx = 192, .n_cache = 5 * 64 });
    assert_int_equal(e->pages.n_page, 5);
    session *s[4] = { make_session(e) };
    work w[4];
    must_feed(s[0], ids, 100);
    for (int i = 1; i < 4; i++)
        s[i] = must_fork(s[0]);
    for (int i = 0; i < 4; i++)
        w[i] = (work){ .session = s[i], .ids = ids + 100, .n = 1 };

    must_eval(e, w, 4); /* three copies of the second page, which the fourth then has alone */
    assert_int_equal(e->pages.n_free, 0);
    for (int i = 0; i < 4; i++)
        assert_as_alone(&f, s[i], ids, 101);

    for (int i = 0; i < 4; i++)
        w[i] = (work){ .session = s[i], .ids = ids + 101, .n = 28 };
    assert_int_equal(engine_eval(e, w, 4, &err), WEFT_ECONTEXT);
    assert_string_equal(err.message,
                        "work 0: 1 cache pages are needed, but 0 of 5 are free; the engine "
                        "has a cache of 320 positions for all sessions");
    for (int i = 0; i < 4; i++)
        assert_as_alone(&f, s[i], ids, 101);
    session_free(s[3]);
    assert_int_equal(engine_eval(e, w, 2, &err), WEFT_ECONTEXT); /* for the second one */
    assert_non_null(strstr(err.message, "work 1: 1 cache pages are needed, but 0 of 5 are free"));
    assert_as_alone(&f, s[0], ids, 129);
    assert_as_alone(&f, s[1], ids, 101);
    for (int i = 0; i < 3; i++)
        session_free(s[i]);
    engine_free(e);
    close_llama(&f);
}

/* A page held by two sessions is copied by the one that continues, whatever pages others have. */
static void a_shared_page_needs_a_free_one(void **state)
{
    (void)state;
    fixture_model f;
    weft_error err = { 0 };
    int32_t ids[20];
    story(ids, 20, 6);
    open_typed(&f, &dtype_f32);
    engine *e = make_engine(
        &f, (engine_options){ .n_thread = 1, .n_session = 3, .n_ctx = 64, .n_cache = 2 * 64 });
    session *apart = make_session(e), *s = make_session(e);
    must_feed(apart, ids, 10);
    must_feed(s, ids, 10);
    session *fork = must_fork(s);
    work w[] = { { .session = apart, .ids = ids + 10, .n = 1 },
                 { .session = s, .ids = ids + 10, .n = 1 } };
    assert_int_equal(engine_eval(e, w, 2, &err), WEFT_ECONTEXT);
    assert_non_null(strstr(err.message, "1 cache pages are needed, but 0 of 2 are free"));
    session_free(apart);
    must_eval(e, w + 1, 1);
    assert_as_alone(&f, s, ids, 11);
    assert_as_alone(&f, fork, ids, 10);
    session_free(s);
    session_free(fork);
    engine_free(e);
    close_llama(&f);
}

/* ---- becoming a text ------------------------------------------------------------------------- */

static int64_t must_sync(session *s, const int32_t *ids, int64_t n)
{
    weft_error err = { 0 };
    int64_t reused = -1;
    if (session_sync(s, ids, n, &reused, &err) != WEFT_OK)
        fail_msg("%s", err.message);
    return reused;
}

static void sync_keeps_what_is_the_same(void **state)
{
    (void)state;
    fixture_model f;
    int32_t a[200], b[200];
    story(a, 200, 6);
    story(b, 200, 7);
    memcpy(b, a, 90 * sizeof *a);
    b[90] = (a[90] + 1) % V;
    open_typed(&f, &dtype_f32);
    engine *e = make_engine(&f, (engine_options){ .n_thread = 1 });
    session *s = make_session(e);
    assert_int_equal(must_sync(s, a, 120), 0);
    assert_as_alone(&f, s, a, 120);
    assert_int_equal(must_sync(s, a, 120), 120); /* it is there already */
    assert_int_equal(must_sync(s, a, 200), 120);
    assert_as_alone(&f, s, a, 200);
    assert_int_equal(must_sync(s, b, 200), 90);
    assert_as_alone(&f, s, b, 200);
    assert_int_equal(must_sync(s, b, 64), 63); /* only the logits after the last are missing */
    assert_as_alone(&f, s, b, 64);
    assert_int_equal(must_sync(s, b, 0), 0);
    assert_int_equal(s->cache.length, 0);
    assert_int_equal(session_greedy(s), -1);
    session_free(s);
    engine_free(e);
    close_llama(&f);
}

/* A new session starts with whole pages of others. */
static void sync_takes_from_others(fixture_model *f)
{
    int32_t a[300], b[300];
    story(a, 300, 8);
    story(b, 300, 9);
    memcpy(b, a, 200 * sizeof *a);
    b[200] = (a[200] + 1) % V;
    engine *e = make_engine(f, (engine_options){ .n_thread = 2, .n_session = 3 });
    session *s = make_session(e), *t = make_session(e), *u = make_session(e);
    must_feed(s, a, 150);
    must_feed(t, a, 300);
    assert_int_equal(must_sync(u, b, 300), 192); /* 3 pages of t, not 2 of s */
    assert_as_alone(f, u, b, 300);
    assert_int_equal(pages_used(e), 3 + 5 + 5 - 3);
    assert_int_equal(must_sync(s, b, 150), 150); /* its own is as good */
    assert_int_equal(must_sync(s, a, 256), 255); /* the fourth page of t, except its last row */
    assert_as_alone(f, s, a, 256);
    assert_as_alone(f, t, a, 300);
    assert_as_alone(f, u, b, 300);
    session_free(t);
    must_feed(s, a + 256, 44);
    assert_as_alone(f, s, a, 300);
    session_free(s);
    session_free(u);
    engine_free(e);
}

static void sync_shares_prefixes(void **state)
{
    (void)state;
    fixture_model f;
    llama_shape s = small_shape;
    s.type = &dtype_f32;
    open_llama(&f, s);
    sync_takes_from_others(&f);
    close_llama(&f);
    s.window = 70;
    open_llama(&f, s);
    sync_takes_from_others(&f);
    close_llama(&f);
}

static void sync_fails_with_what_was_reused(void **state)
{
    (void)state;
    fixture_model f;
    weft_error err = { 0 };
    int32_t a[100];
    int64_t reused = -1;
    story(a, 100, 10);
    open_typed(&f, &dtype_f32);
    engine *e = make_engine(&f, (engine_options){ .n_thread = 1, .n_ctx = 96 });
    session *s = make_session(e);
    must_feed(s, a, 80);
    assert_int_equal(session_sync(s, a, 97, &reused, &err), WEFT_ECONTEXT);
    assert_int_equal(reused, 80);
    a[70] = V;
    assert_int_equal(session_sync(s, a, 90, &reused, &err), WEFT_EINVAL);
    assert_int_equal(reused, 70);
    assert_int_equal(s->cache.length, 70);
    session_free(s);
    engine_free(e);
    close_llama(&f);
}

/* ---- many in one forward --------------------------------------------------------------------- */

/* A prompt of 300 in forwards of 32 rows, next to generating sessions: those get a token in each
 * forward, and all get the same bits as alone. */
static void long_prompts_starve_nobody(void **state)
{
    (void)state;
    fixture_model f;
    weft_error err = { 0 };
    int32_t a[300], b[300];
    story(a, 300, 11);
    story(b, 300, 12);
    open_typed(&f, &dtype_q4_0);
    engine *e = make_engine(&f, (engine_options){ .n_thread = 2, .n_session = 5, .n_batch = 32 });
    session *s[5];
    work w[5];
    for (int i = 0; i < 5; i++)
        s[i] = make_session(e);
    w[0] = (work){ .session = s[0], .ids = a, .n = 300 };
    w[1] = (work){ .session = s[1], .ids = b, .n = 250 };
    int steps = 0;
    for (; w[0].done < w[0].n || w[1].done < w[1].n; steps++) {
        for (int i = 2; i < 5; i++)
            w[i] = (work){ .session = s[i], .ids = b + i + steps, .n = 1 };
        assert_int_equal(engine_step(e, w, 5, &err), WEFT_OK);
        for (int i = 2; i < 5; i++)
            assert_int_equal(w[i].done, 1);
    }
    assert_int_equal(steps, 19); /* 550 rows in the remaining 29 */
    assert_as_alone(&f, s[0], a, 300);
    assert_as_alone(&f, s[1], b, 250);
    for (int i = 2; i < 5; i++)
        assert_as_alone(&f, s[i], b + i, steps);
    for (int i = 0; i < 5; i++)
        session_free(s[i]);
    engine_free(e);
    close_llama(&f);
}

static void shared_room_is_fair(void **state)
{
    (void)state;
    fixture_model f;
    weft_error err = { 0 };
    int32_t a[100];
    story(a, 100, 13);
    open_typed(&f, &dtype_f32);
    engine *e = make_engine(&f, (engine_options){ .n_thread = 1, .n_session = 3, .n_batch = 32 });
    session *s[4];
    work w[4];
    for (int i = 0; i < 4; i++) {
        s[i] = make_session(e);
        w[i] = (work){ .session = s[i], .ids = a, .n = i == 1 ? 5 : 100 };
    }
    assert_int_equal(engine_step(e, w, 4, &err), WEFT_OK);
    assert_int_equal(w[0].done, 11);
    assert_int_equal(w[1].done, 5);
    assert_int_equal(w[2].done, 16);
    assert_int_equal(w[3].done, 0); /* the engine allows three per forward */
    assert_true(s[1]->has_logits && !s[0]->has_logits);
    must_eval(e, w + 3, 1);
    for (int i = 0; i < 4; i++)
        session_free(s[i]);
    engine_free(e);
    close_llama(&f);
}

/* ---- cancelling ------------------------------------------------------------------------------ */

static void cancelled_alone(void **state)
{
    (void)state;
    fixture_model f;
    weft_error err = { 0 };
    int32_t a[200];
    story(a, 200, 14);
    open_typed(&f, &dtype_f32);
    engine *e = make_engine(&f, (engine_options){ .n_thread = 1, .n_session = 2, .n_batch = 32 });
    session *s = make_session(e), *t = make_session(e);
    must_feed(s, a, 50);
    atomic_store(&s->cancelled, true);
    work w[] = { { .session = t, .ids = a, .n = 200 }, { .session = s, .ids = a + 50, .n = 150 } };
    assert_int_equal(engine_eval(e, w, 2, &err), WEFT_ESTOPPED);
    assert_string_equal(err.message, "work 1: its session was cancelled");
    assert_int_equal(w[0].status, WEFT_OK);
    assert_int_equal(w[0].done, 200);
    assert_int_equal(w[1].status, WEFT_ESTOPPED);
    assert_int_equal(w[1].done, 0);
    assert_as_alone(&f, t, a, 200);
    assert_as_alone(&f, s, a, 50); /* no forward had started: its logits are kept */
    must_feed(s, a + 50, 150);     /* a cancel stops one eval */
    assert_as_alone(&f, s, a, 200);
    session_free(s);
    session_free(t);
    engine_free(e);
    close_llama(&f);
}

/* Cancels a session in its k-th forward, as another thread would. */
typedef struct canceller {
    session *session;
    int64_t forwards, at;
} canceller;

static void cancel_in_forward(void *ud, const tensor *t, const op *by)
{
    canceller *c = ud;
    (void)by;
    c->forwards += strcmp(t->name, "token_embd") == 0;
    if (c->forwards == c->at)
        atomic_store(&c->session->cancelled, true);
}

static void cancelled_in_a_forward(void **state)
{
    (void)state;
    fixture_model f;
    weft_error err = { 0 };
    int32_t a[250];
    story(a, 250, 15);
    open_typed(&f, &dtype_f32);
    engine *e = make_engine(&f, (engine_options){ .n_thread = 1, .n_session = 2, .n_batch = 32 });
    session *s = make_session(e), *t = make_session(e);
    must_feed(s, a, 50);
    canceller c = { s, 0, 3 };
    assert_int_equal(
        engine_trace(e, &(trace_spec){ .trace = cancel_in_forward, .trace_ud = &c }, &err),
        WEFT_OK);
    work w[] = { { .session = s, .ids = a + 50, .n = 200 }, { .session = t, .ids = a, .n = 200 } };
    assert_int_equal(engine_eval(e, w, 2, &err), WEFT_ESTOPPED);
    assert_int_equal(c.forwards, 3 + 5); /* 48 of t's 200 rows were in the first three */
    assert_int_equal(s->cache.length, 50);
    assert_int_equal(s->cache.n_page, 1);
    assert_int_equal(session_greedy(s), -1);
    assert_as_alone(&f, t, a, 200);
    c.at = -1;
    must_feed(s, a + 50, 200);
    assert_as_alone(&f, s, a, 250);
    session_free(s);
    session_free(t);
    engine_free(e);
    close_llama(&f);
}

/* ---- the same from outside ------------------------------------------------------------------- */

static void must(bool holds, const weft_error *err)
{
    if (!holds)
        fail_msg("%s", err->message);
}

static void public_sessions(void **state)
{
    (void)state;
    static const int32_t ids[] = { 1, 5, 9, 13, 17 };
    const char *path = temp_path("public.session");
    weft_error err = { 0 };
    int64_t n, reused;
    weft_model *m = weft_model_open(fixture("golden/llama-gqa"), NULL, &err);
    must(m != NULL, &err);
    weft_engine *e = weft_engine_new(
        m, &(weft_engine_options){ .struct_size = sizeof(weft_engine_options), .n_session = 2 },
        &err);
    must(e != NULL, &err);
    weft_session *s = weft_session_new(e, &err);
    must(weft_session_eval(s, ids, 3, &err) == WEFT_OK, &err);
    weft_session *fork = weft_session_fork(s, &err);
    must(weft_session_sync(fork, ids, 5, &reused, &err) == WEFT_OK && reused == 3, &err);
    assert_memory_equal(weft_session_tokens(fork, &n), ids, sizeof ids);
    assert_int_equal(n, 5);
    must(weft_session_save(fork, path, &err) == WEFT_OK, &err);
    weft_session *back = weft_session_restore(e, path, &err);
    must(back != NULL, &err);
    const int32_t answer = weft_session_greedy(fork);
    assert_int_equal(weft_session_greedy(back), answer);

    weft_eval_request w[] = { { .session = s, .ids = ids + 3, .n = 2 },
                              { .session = fork, .ids = ids, .n = 1 } };
    weft_session_cancel(fork);
    must(weft_engine_step(e, w, 2, &err) == WEFT_OK, &err);
    assert_true(w[0].done == 2 && w[0].status == WEFT_OK);
    assert_true(w[1].done == 0 && w[1].status == WEFT_ESTOPPED);
    assert_int_equal(weft_session_greedy(s), answer);
    assert_int_equal(weft_session_match(s, ids, 2), 1);

    assert_null(weft_session_fork(NULL, &err));
    assert_null(weft_session_restore(e, NULL, &err));
    assert_null(weft_session_restore(NULL, path, NULL));
    assert_int_equal(weft_session_save(s, NULL, &err), WEFT_EINVAL);
    assert_int_equal(weft_session_sync(NULL, ids, 1, NULL, &err), WEFT_EINVAL);
    assert_int_equal(weft_session_sync(s, NULL, 1, NULL, &err), WEFT_EINVAL);
    assert_int_equal(weft_session_sync(s, ids, -1, NULL, &err), WEFT_EINVAL);
    weft_session_free(back);
    weft_session_free(fork);
    weft_session_free(s);
    weft_engine_free(e);
    weft_model_close(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST("session: forks share pages and diverge", forks_go_their_own_way),
        TEST("session: a rewound fork does not affect others", a_rewound_fork_disturbs_nobody),
        TEST("session: a full pool is an error with counts and changes nothing",
             a_full_pool_changes_nothing),
        TEST("session: continuing in a shared page takes a page, whatever others hold",
             a_shared_page_needs_a_free_one),
        TEST("sync: reuses the common prefix, and answers like a fresh session",
             sync_keeps_what_is_the_same),
        TEST("sync: whole pages of other sessions are shared, with a sliding window too",
             sync_shares_prefixes),
        TEST("sync: on error the reused prefix stays", sync_fails_with_what_was_reused),
        TEST("step: generating sessions get a token in every forward, despite long prompts",
             long_prompts_starve_nobody),
        TEST("step: prompts share the rows of a forward", shared_room_is_fair),
        TEST("cancel: one session stops, the others are not affected", cancelled_alone),
        TEST("cancel: in a forward, it takes effect at the next one", cancelled_in_a_forward),
        TEST("api: fork, sync, save, restore, step and cancel from outside", public_sessions),
    };
    return RUN(tests);
}
