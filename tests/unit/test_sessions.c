/* What sessions promise each other: they share pages, and nobody can tell. */
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

/* The session holds these tokens, and the logits that one alone with them gets. */
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

/* Two contexts of 3 pages, shared by four sessions: the pool refuses what it cannot hold, and only
 * that. */
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
    assert_string_equal(err.message, "4 cache pages are needed, but 0 of 5 are free; the engine "
                                     "was made for 320 positions in all sessions");
    for (int i = 0; i < 4; i++)
        assert_as_alone(&f, s[i], ids, 101);
    session_free(s[3]);
    assert_int_equal(engine_eval(e, w, 2, &err), WEFT_ECONTEXT);
    must_eval(e, w + 1, 1);
    assert_as_alone(&f, s[1], ids, 129);
    for (int i = 0; i < 3; i++)
        session_free(s[i]);
    engine_free(e);
    close_llama(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST("session: forks share pages and go their own way", forks_go_their_own_way),
        TEST("session: a rewound fork disturbs nobody", a_rewound_fork_disturbs_nobody),
        TEST("session: a full pool is an error with counts and changes nothing",
             a_full_pool_changes_nothing),
    };
    return RUN(tests);
}
