/* Schedulers where something fails: memory at every allocation, one request among others, a source
 * that differs; and where other threads submit and cancel. */
#include "asked.h"

#include "engine/generate.h"
#include "engine/scheduler.h"
#include "small_model.h"

#include <pthread.h>

/* ---- sources --------------------------------------------------------------------------------- */

typedef struct answer {
    int32_t ids[512];
    double logprob[512];
    int64_t n;
    weft_generation info;
    weft_error err;
    int n_done;
} answer;

static bool take_token(void *ud, const weft_generated *t)
{
    answer *a = ud;
    if (t->id < 0)
        return true;
    a->logprob[a->n] = t->logprobs[0].logprob;
    a->ids[a->n++] = t->id;
    return true;
}

static void take_end(void *ud, const weft_generation *info, const weft_error *err)
{
    answer *a = ud;
    a->info = *info;
    a->err = *err;
    a->n_done++;
}

/* Any token but 59, by its probability. */
static request_spec spec_of(const int32_t *prompt, int64_t n, int64_t n_new, answer *to)
{
    static const pieces none;
    static const weft_bias but = { 59, -INFINITY };
    return (request_spec){ .opt = { .struct_size = sizeof(weft_generate_options),
                                    .prompt = prompt,
                                    .n_prompt = n,
                                    .n_new = n_new,
                                    .n_top = 1 },
                           .samples = true,
                           .sampling = { .temperature = 1, .seed = 5, .bias = &but, .n_bias = 1 },
                           .pieces = &none,
                           .key = "",
                           .fn = take_token,
                           .done = take_end,
                           .ud = to };
}

/* The tokens of the same request in a session of its own. */
static void alone_in_session(engine *e, const request_spec *q, answer *to)
{
    weft_error err;
    session *s = make_session(e);
    weft_generate_options o = q->opt;
    sampler *draws = sampler_new(&e->model->host->mem, e->model->n_vocab, &q->sampling, &err);
    assert_non_null(draws);
    if (q->source)
        must_encode(e, &(source_text){ s, q->source, q->n_source }, 1);
    generation g = { .mem = &e->model->host->mem,
                     .sampler = draws,
                     .pieces = q->pieces,
                     .opt = &o,
                     .fn = take_token,
                     .ud = to,
                     .err = &err };
    assert_int_equal(generate(s, &g), WEFT_OK);
    sampler_free(draws);
    session_free(s);
}

static scheduler *must_schedule(engine *e, weft_scheduler_options o)
{
    weft_error err;
    scheduler *s = scheduler_new(e, &o, &err);
    if (!s)
        fail_msg("%s", err.message);
    return s;
}

static void run_all(scheduler *s)
{
    weft_error err;
    for (bool more = true; more;)
        assert_int_equal(scheduler_step(s, &more, &err), WEFT_OK);
}

/* The same prompt after other sources: pages belong to their source, and the table finds them only
 * with it. In a small cache, with preemption. */
static void sources_are_part_of_the_key(void **state)
{
    (void)state;
    enum { N = 12, PROMPT = 150 };
    fixture_model f;
    weft_error err;
    int32_t prompt[PROMPT], source[3][20];
    answer *got = calloc(N, sizeof *got), *alone = calloc(N, sizeof *alone);
    open_golden(&f, "t5");
    const engine_options o = { .n_thread = 2, .n_session = 4, .n_ctx = 512, .n_cache = 64 * 16 };
    engine *e = make_engine(&f, o), *apart = make_engine(&f, o);
    scheduler *s = must_schedule(e, (weft_scheduler_options){ .n_running = 4 });
    for (int i = 0; i < PROMPT; i++)
        prompt[i] = (int32_t)(draw(1, (uint64_t)i) % 61);
    for (int k = 0; k < 3; k++)
        for (int i = 0; i < 20; i++)
            source[k][i] = (int32_t)(draw(2 + (uint64_t)k, (uint64_t)i) % 61);
    for (int i = 0; i < N; i++) {
        request_spec q = spec_of(prompt, PROMPT, 20 + 320 * (i % 2 == 0), &got[i]);
        q.source = source[i % 3];
        q.n_source = 20;
        assert_true(scheduler_submit(s, &q, &err) > 0);
        alone_in_session(apart, &q, &alone[i]);
    }
    run_all(s);
    for (int i = 0; i < N; i++) {
        assert_int_equal(got[i].err.code, WEFT_OK);
        assert_int_equal(got[i].n, alone[i].n);
        assert_memory_equal(got[i].ids, alone[i].ids, sizeof got[i].ids);
        assert_memory_equal(got[i].logprob, alone[i].logprob, sizeof got[i].logprob);
    }
    assert_memory_not_equal(alone[0].logprob, alone[1].logprob, sizeof *alone->logprob * 20);
    const weft_scheduler_info info = scheduler_info(s);
    printf("%lld tokens of prompts cached, %lld times preempted\n", (long long)info.n_reused,
           (long long)info.n_preempted);
    assert_true(info.n_reused > 0 && info.n_reused < N * 128 && info.n_preempted > 0);
    assert_int_equal(pages_available(&e->pages), e->pages.n_page);
    scheduler_free(s);
    assert_int_equal(e->pages.n_free, e->pages.n_page);
    engine_free(e);
    engine_free(apart);
    close_llama(&f);
    free(got);
    free(alone);
}

/* ---- memory ---------------------------------------------------------------------------------- */

enum { N_LIFE = 4 };

/* Four requests, one of them with a sampler and log-probabilities of its prompt; how many were
 * submitted. Nothing is left afterwards, whatever failed. */
static int schedule_life(engine *e, answer *got, weft_error *err)
{
    static const weft_bias bias = { 3, 0.5f };
    static const char *const never[] = { "never" };
    static const int32_t ends[] = { 39 };
    int32_t prompt[100];
    int n = 0;
    const weft_scheduler_options o = { .n_running = e->opt.n_session };
    scheduler *s = scheduler_new(e, &o, err);
    for (int i = 0; s && i < N_LIFE; i++) {
        for (int k = 0; k < 100; k++)
            prompt[k] = (int32_t)(draw((uint64_t)i / 2, (uint64_t)k) % 40);
        request_spec q = spec_of(prompt, 70 + i, 10, &got[n]);
        q.opt.stop = never;
        q.opt.n_stop = 1;
        q.opt.stop_ids = ends;
        q.opt.n_stop_id = 1;
        q.opt.n_top = 2;
        q.sampling.bias = &bias;
        q.sampling.chain = i % 2 == 0 ? "bias;temperature" : NULL;
        n += scheduler_submit(s, &q, err) > 0;
    }
    for (bool more = n > 0; more;)
        if (scheduler_step(s, &more, err) != WEFT_OK)
            break;
    scheduler_free(s);
    assert_int_equal(e->pages.n_free, e->pages.n_page);
    return n;
}

static const char *life_file(void)
{
    static const llama_shape shape = { .n_layer = 2,
                                       .d_model = 32,
                                       .n_head = 4,
                                       .n_head_kv = 2,
                                       .d_ff = 64,
                                       .n_vocab = 40,
                                       .n_ctx = 128,
                                       .type = &dtype_q8_0 };
    const bytes b = gguf_llama(&shape);
    const char *path = temp_file("life.gguf", b.at, b.n);
    free(b.at);
    return path;
}

typedef struct life_result {
    answer got[N_LIFE];
    int n;      /* submitted */
    bool whole; /* the allocation that was to fail never came */
} life_result;

/* With allocation k after the engine is made failing, from 1; 0: none. */
static void live_once(const char *path, int64_t k, bool sticky, int n_session, life_result *to)
{
    host h;
    model m;
    weft_error err = { 0 };
    faults memory = { .sticky = sticky };
    const engine_options o = { .n_thread = 1, .n_session = n_session, .n_ctx = 128 };
    *to = (life_result){ 0 };
    host_faulty(&h, &memory, NULL);
    assert_int_equal(model_open(&m, path, WEFT_LOAD_COPY, &h, &err), WEFT_OK);
    engine *e = engine_new(&m, &o, &err);
    assert_non_null(e);
    const int64_t before = memory.calls;
    memory.fail_at = k > 0 ? before + k : 0;
    to->n = schedule_life(e, to->got, &err);
    to->whole = memory.calls < before + k;
    memory.fail_at = 0;
    engine_free(e);
    model_close(&m);
    assert_int_equal(memory.live, 0);
}

/* A request that was submitted has one last call; one that succeeds has the same tokens. */
static void every_allocation_fails(void **state)
{
    (void)state;
    const char *path = life_file();
    life_result *right = calloc(1, sizeof *right), *now = calloc(1, sizeof *now);
    live_once(path, 0, false, 2, right);
    assert_int_equal(right->n, N_LIFE);
    for (int mode = 0; mode < 4; mode++) { /* of which two have one session */
        const bool sticky = mode % 2 == 1;
        int n_failed = 0;
        int64_t k = 0;
        do {
            int here = 0;
            live_once(path, ++k, sticky, 2 - mode / 2, now);
            for (int i = 0; i < now->n; i++) {
                const answer *got = &now->got[i];
                assert_int_equal(got->n_done, 1);
                assert_true(got->err.code == WEFT_OK || got->err.code == WEFT_ENOMEM);
                here += got->err.code != WEFT_OK;
                if (now->n == N_LIFE && got->err.code == WEFT_OK)
                    assert_memory_equal(got->ids, right->got[i].ids, sizeof got->ids);
            }
            assert_true(sticky || here <= 1); /* the others go on */
            n_failed += here;
        } while (!now->whole);
        printf("%s: %lld allocations, %d requests failed\n", sticky ? "from then on" : "once",
               (long long)k - 1, n_failed);
        assert_true(n_failed > 0);
    }
    free(right);
    free(now);
}

/* ---- one of many ----------------------------------------------------------------------------- */

/* Makes token 59 overflow: the first norm multiplies a value that only it has. */
static void poison_token(fixture_model *f)
{
    const int64_t D = f->model.d_model;
    for (int64_t i = 0; i < f->model.n_param; i++) {
        const tensor *t = f->model.param[i];
        real *w = t->data;
        if (strcmp(t->name, "blk.0.attn_norm.weight") == 0)
            w[6] = 3e38f;
        for (int id = 0; id < 61 && strcmp(t->name, "token_embd.weight") == 0; id++)
            w[id * D + 6] = id == 59 ? 100 : 0;
    }
}

static void one_request_fails_alone(void **state)
{
    (void)state;
    fixture_model f;
    weft_error err;
    int32_t prompt[3][80];
    answer *got = calloc(3, sizeof *got), *alone = calloc(3, sizeof *alone);
    open_typed(&f, &dtype_f32);
    poison_token(&f);
    engine *e = make_engine(&f, (engine_options){ .n_session = 3, .n_ctx = 320 });
    for (int i = 0; i < 3; i++) {
        story(prompt[i], 80, (uint64_t)i);
        for (int k = 0; k < 80; k++)
            prompt[i][k] %= 59;
        const request_spec q = spec_of(prompt[i], 80, 8, &alone[i]);
        alone_in_session(e, &q, &alone[i]);
    }
    prompt[1][79] = 59;
    scheduler *s = must_schedule(e, (weft_scheduler_options){ 0 });
    for (int i = 0; i < 3; i++) {
        const request_spec q = spec_of(prompt[i], 80, 8, &got[i]);
        assert_true(scheduler_submit(s, &q, &err) > 0);
    }
    run_all(s);
    assert_int_equal(got[1].err.code, WEFT_ENUMERIC);
    assert_non_null(strstr(got[1].err.message, "non-finite"));
    assert_int_equal(got[1].n + got[1].info.finish, 0);
    for (int i = 0; i < 3; i += 2) {
        assert_int_equal(got[i].err.code, WEFT_OK);
        assert_memory_equal(got[i].ids, alone[i].ids, sizeof got[i].ids);
        assert_int_equal(got[i].n, 8);
    }
    scheduler_free(s);
    assert_int_equal(e->pages.n_free, e->pages.n_page);
    engine_free(e);
    close_llama(&f);
    free(got);
    free(alone);
}

/* Sessions of the caller hold all pages: a request fails with the count, and others can follow. */
static void pages_of_others(void **state)
{
    (void)state;
    fixture_model f;
    weft_error err;
    int32_t prompt[128];
    answer *got = calloc(2, sizeof *got);
    open_typed(&f, &dtype_f32);
    story(prompt, 128, 1);
    engine *e = make_engine(&f, (engine_options){ .n_session = 2, .n_ctx = 320, .n_cache = 128 });
    scheduler *s = must_schedule(e, (weft_scheduler_options){ 0 });
    session *other = make_session(e);
    must_feed(other, prompt, 100);
    for (int i = 0; i < 2; i++) {
        const request_spec q = spec_of(prompt, 70, 8, &got[i]);
        assert_true(scheduler_submit(s, &q, &err) > 0);
        run_all(s);
        session_cut(other, 0);
    }
    assert_int_equal(got[0].err.code, WEFT_ECONTEXT);
    assert_non_null(strstr(got[0].err.message, "2 cache pages are needed, but 0 of 2 are free"));
    assert_int_equal(got[1].err.code, WEFT_OK);
    session_free(other);
    scheduler_free(s);
    engine_free(e);
    close_llama(&f);
    free(got);
}

/* ---- threads --------------------------------------------------------------------------------- */

typedef struct sender {
    pthread_t thread;
    asked_rig *rig;
    uint64_t first;
    asked *sent[20];
} sender;

/* Submits twenty requests and cancels every fifth, some of them again. */
static void *send(void *ud)
{
    sender *s = ud;
    for (int i = 0; i < 20; i++) {
        asked *a = asked_new(s->rig, s->first + (uint64_t)i);
        s->sent[i] = a;
        while (!asked_submit(s->rig, a))
            sched_yield();
        asked_info(s->rig);
        if (i % 5 == 0) {
            a->cancelled = true;
            weft_scheduler_cancel(s->rig->scheduler, a->number);
            weft_scheduler_cancel(s->rig->scheduler, a->number / 2);
        }
    }
    return NULL;
}

static void senders_on_other_threads(void **state)
{
    (void)state;
    enum { SENDERS = 4 };
    asked_rig r;
    sender s[SENDERS];
    asked_open(&r, 20,
               &(weft_scheduler_options){ .struct_size = sizeof(weft_scheduler_options),
                                          .n_waiting = 10 });
    for (int k = 0; k < SENDERS; k++) {
        s[k] = (sender){ .rig = &r, .first = 1000 * (uint64_t)(k + 1) };
        assert_int_equal(pthread_create(&s[k].thread, NULL, send, &s[k]), 0);
    }
    while (asked_info(&r).n_done < SENDERS * 20)
        asked_step(&r);
    for (int k = 0; k < SENDERS; k++) {
        pthread_join(s[k].thread, NULL);
        for (int i = 0; i < 20; i++) {
            s[k].sent[i]->cancelled = s[k].sent[i]->heard.err.code == WEFT_ESTOPPED;
            asked_compare(&r, s[k].sent[i]);
            free(s[k].sent[i]);
        }
    }
    asked_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST("scheduler: cached pages belong to their source", sources_are_part_of_the_key),
        TEST("scheduler: every allocation fails in turn", every_allocation_fails),
        TEST("scheduler: a request whose logits are not finite fails alone",
             one_request_fails_alone),
        TEST("scheduler: pages that others hold are missed, and found later", pages_of_others),
        TEST("scheduler: requests come and are cancelled on any thread", senders_on_other_threads),
    };
    return RUN(tests);
}
