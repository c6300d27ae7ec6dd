/* One model, many threads: separate engines, and cancels from other threads. They must not affect
 * results; the thread sanitizer checks for data races. */
#include "small_model.h"

#include <pthread.h>
#include <time.h>

enum { V = 61, ENGINES = 8, LENGTH = 200 };

static int32_t text[LENGTH];

/* A thread with an engine and a session, which another thread cancels now and then. */
typedef struct worker {
    const float *answer;
    session *session;
    pthread_t thread;
    int rounds, stopped, wrong;
} worker;

typedef struct canceller {
    worker *worker;
    atomic_bool enough;
    pthread_t thread;
    int cancels;
} canceller;

static void one_round(worker *w)
{
    weft_error err = { 0 };
    session *s = w->session;
    const weft_status status = engine_eval(
        s->engine, &(work){ .session = s, .ids = text, .n = LENGTH }, 1, &err);
    w->stopped += status == WEFT_ESTOPPED;
    if (status == WEFT_OK)
        w->wrong += memcmp(s->logits, w->answer, sizeof(float[V])) != 0;
    else
        w->wrong += status != WEFT_ESTOPPED || s->cache.length != 0 || s->cache.n_page != 0;
    w->wrong += session_rewind(s, 0, &err) != WEFT_OK;
}

static void *work_on(void *arg)
{
    worker *w = arg;
    for (int i = 0; i < w->rounds; i++)
        one_round(w);
    return NULL;
}

static void *cancel(void *arg)
{
    canceller *c = arg;
    while (!atomic_load(&c->enough)) {
        atomic_store(&c->worker[draw(1, (uint64_t)c->cancels) % ENGINES].session->cancelled, true);
        c->cancels++;
        nanosleep(&(struct timespec){ 0, draw(2, (uint64_t)c->cancels) %
                                             (quick() ? 400000000 : 8000000) },
                  NULL);
    }
    return NULL;
}

static void answer_alone(fixture_model *f, float *answer)
{
    engine *e = make_engine(f, (engine_options){ .n_thread = 1 });
    session *s = make_session(e);
    must_feed(s, text, LENGTH);
    memcpy(answer, s->logits, sizeof(float[V]));
    session_free(s);
    engine_free(e);
}

static void engines_side_by_side(void **state)
{
    (void)state;
    fixture_model f;
    float answer[V];
    worker w[ENGINES];
    canceller c = { .worker = w };
    int stopped = 0, rounds = quick() ? 5 : 40;
    story(text, LENGTH, 1);
    open_typed(&f, &dtype_q8_0);
    answer_alone(&f, answer);
    for (int i = 0; i < ENGINES; i++) {
        engine *e = make_engine(&f, (engine_options){ .n_thread = 1 + i % 2, .n_batch = 32 });
        w[i] = (worker){ .answer = answer, .session = make_session(e), .rounds = rounds };
    }
    assert_int_equal(pthread_create(&c.thread, NULL, cancel, &c), 0);
    for (int i = 0; i < ENGINES; i++)
        assert_int_equal(pthread_create(&w[i].thread, NULL, work_on, &w[i]), 0);
    for (int i = 0; i < ENGINES; i++)
        assert_int_equal(pthread_join(w[i].thread, NULL), 0);
    atomic_store(&c.enough, true);
    assert_int_equal(pthread_join(c.thread, NULL), 0);
    for (int i = 0; i < ENGINES; i++) {
        engine *e = w[i].session->engine;
        assert_int_equal(w[i].wrong, 0);
        stopped += w[i].stopped;
        session_free(w[i].session);
        assert_int_equal(e->pages.n_free, e->pages.n_page);
        engine_free(e);
    }
    print_message("%d evals on %d engines, %d cancels, %d evals stopped\n", ENGINES * rounds,
                  ENGINES, c.cancels, stopped);
    close_llama(&f);
}

/* Eight sessions of one engine in one batch, cancelled from another thread. */
static void sessions_in_one_batch(void **state)
{
    (void)state;
    fixture_model f;
    weft_error err = { 0 };
    float answer[V];
    worker w[ENGINES] = { 0 };
    work all[ENGINES];
    canceller c = { .worker = w };
    int stopped = 0, finished = 0;
    story(text, LENGTH, 1);
    open_typed(&f, &dtype_q8_0);
    answer_alone(&f, answer);
    engine *e = make_engine(&f, (engine_options){ .n_thread = 2, .n_session = ENGINES });
    for (int i = 0; i < ENGINES; i++)
        w[i].session = make_session(e);
    assert_int_equal(pthread_create(&c.thread, NULL, cancel, &c), 0);
    for (int round = 0; round < (quick() ? 5 : 40); round++) {
        for (int i = 0; i < ENGINES; i++)
            all[i] = (work){ .session = w[i].session, .ids = text, .n = LENGTH };
        const weft_status status = engine_eval(e, all, ENGINES, &err);
        for (int i = 0; i < ENGINES; i++) {
            session *s = w[i].session;
            w[i].wrong += all[i].status == WEFT_OK
                              ? memcmp(s->logits, answer, sizeof answer) != 0
                              : status != WEFT_ESTOPPED || s->cache.length != 0;
            stopped += all[i].status != WEFT_OK;
            finished += all[i].status == WEFT_OK;
            session_cut(s, 0);
        }
    }
    atomic_store(&c.enough, true);
    assert_int_equal(pthread_join(c.thread, NULL), 0);
    for (int i = 0; i < ENGINES; i++) {
        assert_int_equal(w[i].wrong, 0);
        session_free(w[i].session);
    }
    print_message("%d works finished, %d stopped\n", finished, stopped);
    assert_int_equal(e->pages.n_free, e->pages.n_page);
    engine_free(e);
    close_llama(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST("threads: eight engines on one model, cancelled from outside, give the same as alone",
             engines_side_by_side),
        TEST("threads: eight sessions in one batch, cancelled from outside, give the same as alone",
             sessions_in_one_batch),
    };
    return RUN(tests);
}
