/* Schedulers: every request gets what it gets alone, byte for byte, under any load; pages come back. */
#include "asked.h"

#include "base/rng.h"

#define MOST_LIVE 64

/* ---- any load -------------------------------------------------------------------------------- */

typedef struct load {
    asked_rig rig;
    asked *live[MOST_LIVE];
    int n_live;
    uint64_t submitted, events;
    int64_t n_cancelled, n_preempted, n_reused, n_echo, n_context;
} load;

static uint32_t chance(load *l)
{
    return rng_draw(3, 31, l->events++).word[0];
}

static void submit_next(load *l)
{
    asked *a = asked_new(&l->rig, l->submitted);
    if (asked_submit(&l->rig, a)) {
        l->live[l->n_live++] = a;
        l->submitted++;
    } else {
        free(a); /* the same one comes again */
    }
}

static void cancel_one(load *l)
{
    asked *a = l->live[chance(l) % (uint32_t)l->n_live];
    l->n_cancelled += !a->cancelled;
    a->cancelled = true;
    assert_true(weft_scheduler_cancel(l->rig.scheduler, a->number));
}

/* Compares those that are done with the same request alone. */
static void collect(load *l)
{
    for (int i = l->n_live - 1; i >= 0; i--) {
        asked *a = l->live[i];
        if (a->heard.n_done == 0)
            continue;
        asked_compare(&l->rig, a);
        l->n_preempted += a->heard.info.n_preempted;
        l->n_reused += a->heard.info.n_reused;
        l->n_echo += a->request.prompt_fn != NULL;
        l->n_context += a->heard.info.finish == WEFT_FINISH_CONTEXT;
        assert_false(weft_scheduler_cancel(l->rig.scheduler, a->number));
        free(a);
        l->live[i] = l->live[--l->n_live];
    }
}

/* With WEFT_TEST_LONG: 2,000 requests. */
static uint64_t how_many(void)
{
    return getenv("WEFT_TEST_LONG") ? 2000 : quick() ? 60 : 300;
}

static void any_load(void **state)
{
    (void)state;
    load *l = calloc(1, sizeof *l);
    assert_non_null(l);
    const weft_scheduler_options o = { .struct_size = sizeof o, .step_ms = 1, .n_waiting = 24 };
    asked_open(&l->rig, 16, &o);
    while (l->submitted < how_many() || l->n_live > 0) {
        /* bursts, and pauses in which the queue runs empty */
        const bool burst = l->submitted / 20 % 3 != 0;
        for (uint32_t n = chance(l) % (burst ? 6 : 2);
             n > 0 && l->submitted < how_many() && l->n_live < MOST_LIVE; n--)
            submit_next(l);
        if (l->n_live > 0 && chance(l) % 200 == 0)
            cancel_one(l);
        asked_step(&l->rig);
        collect(l);
    }
    const weft_scheduler_info i = asked_info(&l->rig);
    printf(
        "%lld requests: %lld cancelled, %lld times preempted, %lld of %lld prompt tokens cached, "
        "%lld with the prompt's log-probabilities; %lld steps\n",
        (long long)i.n_done, (long long)l->n_cancelled, (long long)i.n_preempted,
        (long long)i.n_reused, (long long)i.n_prompt, (long long)l->n_echo, (long long)i.n_step);
    assert_int_equal(i.n_done, how_many());
    assert_int_equal(i.n_preempted, l->n_preempted);
    assert_int_equal(i.n_reused, l->n_reused);
    assert_int_equal(i.n_running + i.n_waiting + i.n_waiting_tokens, 0);
    assert_true(i.n_preempted > 0 && i.n_reused > 0 && l->n_cancelled > 0 && l->n_echo > 0);
    asked_close(&l->rig);
    free(l);
}

/* ---- prefixes -------------------------------------------------------------------------------- */

/* Runs one request to its end; returns how many tokens of its prompt were cached. */
static int64_t reused_by(const asked_rig *r, uint64_t seed, int64_t n_prompt, const char *key)
{
    asked *a = asked_new(r, seed);
    for (int64_t i = 0; i < n_prompt; i++)
        a->prompt[i] = (int32_t)(7 * i % ASKED_VOCAB);
    a->opt.n_prompt = n_prompt;
    a->opt.n_new = 2;
    a->request.key = key;
    a->request.prompt_fn = NULL;
    assert_true(asked_submit(r, a));
    while (asked_step(r))
        continue;
    asked_compare(r, a);
    const int64_t reused = a->heard.info.n_reused;
    free(a);
    return reused;
}

static void prefixes_outlive_their_requests(void **state)
{
    (void)state;
    asked_rig r;
    asked_open(&r, 20, NULL);
    assert_int_equal(reused_by(&r, 1, 200, "a"), 0);
    assert_int_equal(reused_by(&r, 2, 200, "a"), 192);
    assert_int_equal(reused_by(&r, 3, 192, "a"), 128); /* the last token is computed */
    assert_int_equal(reused_by(&r, 4, 193, "a"), 192);
    assert_int_equal(reused_by(&r, 5, 100, "a"), 64);
    assert_int_equal(asked_info(&r).n_page_idle, 3);
    asked_close(&r);
}

static void keys_do_not_share(void **state)
{
    (void)state;
    asked_rig r;
    asked_open(&r, 20, NULL);
    assert_int_equal(reused_by(&r, 1, 200, "a"), 0);
    assert_int_equal(reused_by(&r, 2, 200, "b"), 0);
    assert_int_equal(reused_by(&r, 3, 200, "b"), 192);
    assert_int_equal(reused_by(&r, 4, 200, NULL), 0);
    assert_int_equal(asked_info(&r).n_page_idle, 9);
    asked_close(&r);
    asked_open(&r, 20,
               &(weft_scheduler_options){ .struct_size = sizeof(weft_scheduler_options),
                                          .share_prefixes = true });
    assert_int_equal(reused_by(&r, 1, 200, "a"), 0);
    assert_int_equal(reused_by(&r, 2, 200, "b"), 192);
    asked_close(&r);
}

/* Five pages: another text takes those that wait longest, the deepest first. */
static void idle_pages_are_taken(void **state)
{
    (void)state;
    asked_rig r;
    asked_open(&r, 5, NULL);
    assert_int_equal(reused_by(&r, 1, 190, "a"), 0); /* two full pages, kept */
    assert_int_equal(asked_info(&r).n_page_idle, 2);
    assert_int_equal(reused_by(&r, 2, 250, "b"), 0); /* four pages: takes one */
    assert_int_equal(reused_by(&r, 3, 190, "a"), 64);
    asked_close(&r);
}

/* Two of the same prompt at once: what one has computed, the other takes. */
static void twins_share(void **state)
{
    (void)state;
    asked_rig r;
    asked *a[2];
    asked_open(&r, 40, NULL);
    for (int k = 0; k < 2; k++) {
        a[k] = asked_new(&r, 40);
        a[k]->request.prompt_fn = NULL;
        a[k]->opt.n_new = 8;
        for (int64_t i = 0; i < 600; i++)
            a[k]->prompt[i] = (int32_t)(11 * i % ASKED_VOCAB);
        a[k]->opt.n_prompt = 600;
        assert_true(asked_submit(&r, a[k]));
    }
    while (asked_step(&r))
        continue;
    for (int k = 0; k < 2; k++)
        asked_compare(&r, a[k]);
    assert_true(a[0]->heard.info.n_reused + a[1]->heard.info.n_reused >= 256);
    assert_int_equal(asked_info(&r).n_page_idle, 9); /* and there is one copy */
    free(a[0]);
    free(a[1]);
    asked_close(&r);
}

/* ---- cancelling ------------------------------------------------------------------------------ */

static asked *long_one(const asked_rig *r, uint64_t seed)
{
    asked *a = asked_new(r, seed);
    a->opt.n_prompt = 300;
    for (int64_t i = 0; i < 300; i++)
        a->prompt[i] = (int32_t)((uint64_t)i * (seed + 3) % ASKED_VOCAB);
    a->opt.n_new = 40;
    a->opt.n_stop = a->opt.n_stop_id = 0;
    return a;
}

/* Cancels after so many steps: 0 is before any, then during the prompt, then generation. */
static void cancel_at_every_stage(void **state)
{
    (void)state;
    asked_rig r;
    int ended = 0;
    asked_open(
        &r, 12,
        &(weft_scheduler_options){ .struct_size = sizeof(weft_scheduler_options), .n_running = 1 });
    for (int stage = 0; stage < 60; stage++) {
        asked *a = long_one(&r, 50 + (uint64_t)stage), *waits = long_one(&r, 150 + (uint64_t)stage);
        assert_true(asked_submit(&r, a) && asked_submit(&r, waits));
        for (int i = 0; i < stage; i++)
            asked_step(&r);
        a->cancelled = weft_scheduler_cancel(r.scheduler, a->number);
        waits->cancelled = weft_scheduler_cancel(r.scheduler, waits->number);
        assert_int_equal(a->cancelled, a->heard.n_done == 0);
        ended += !a->cancelled;
        assert_false(asked_step(&r)); /* both are gone, without another forward */
        asked_compare(&r, a);
        asked_compare(&r, waits);
        assert_int_equal(a->heard.err.code, a->cancelled ? WEFT_ESTOPPED : WEFT_OK);
        assert_int_equal(asked_info(&r).n_page_used, 0);
        assert_int_equal(asked_info(&r).n_waiting, 0);
        free(a);
        free(waits);
    }
    assert_true(ended > 0);
    assert_false(weft_scheduler_cancel(r.scheduler, 0));
    assert_false(weft_scheduler_cancel(r.scheduler, 1 << 20));
    asked_close(&r);
}

/* ---- the ends of the cache and of the context ------------------------------------------------ */

/* One request that fills the cache ends as it does alone; so does one that fills the context. */
static void full(void **state)
{
    (void)state;
    for (int64_t n_page = 4; n_page <= 20; n_page += 16) {
        asked_rig r;
        asked_open(&r, n_page, NULL);
        asked *a = asked_new(&r, 7), *b = asked_new(&r, 8);
        a->opt.n_prompt = b->opt.n_prompt = 100;
        a->opt.n_new = b->opt.n_new = 0;
        a->opt.n_stop = b->opt.n_stop = a->opt.n_stop_id = b->opt.n_stop_id = 0;
        assert_true(asked_submit(&r, a) && asked_submit(&r, b));
        while (asked_step(&r))
            continue;
        asked_compare(&r, a);
        asked_compare(&r, b);
        assert_int_equal(a->heard.info.finish, WEFT_FINISH_CONTEXT);
        assert_int_equal(a->heard.info.n_new,
                         (n_page < 16 ? n_page * 64 : ASKED_CONTEXT) - 100 + 1);
        free(a);
        free(b);
        asked_close(&r);
    }
}

/* Two that both start, but do not both fit to the end; their draws depend on earlier ones. */
static void mirostat_goes_on(void **state)
{
    (void)state;
    asked_rig r;
    asked *a[2];
    asked_open(&r, 10, NULL);
    for (int k = 0; k < 2; k++) {
        a[k] = asked_new(&r, 70 + (uint64_t)k);
        a[k]->opt.n_prompt = 20;
        a[k]->opt.n_new = 400;
        a[k]->opt.n_stop = a[k]->opt.n_stop_id = 0;
        a[k]->sampling = (weft_sampler_options){ .struct_size = sizeof a[k]->sampling,
                                                 .temperature = 20,
                                                 .mirostat_tau = 5,
                                                 .mirostat_eta = 1 };
        a[k]->request.sampler = &a[k]->sampling;
        assert_true(asked_submit(&r, a[k]));
    }
    while (asked_step(&r))
        continue;
    for (int k = 0; k < 2; k++)
        asked_compare(&r, a[k]);
    assert_true(a[1]->heard.info.n_preempted > 0);
    assert_int_equal(a[0]->heard.info.n_preempted, 0); /* the oldest */
    free(a[0]);
    free(a[1]);
    asked_close(&r);
}

/* More keys than are remembered, one after the other, and many at a time. */
static void many_keys(void **state)
{
    (void)state;
    asked_rig r;
    char name[16];
    asked_open(
        &r, 20,
        &(weft_scheduler_options){ .struct_size = sizeof(weft_scheduler_options), .n_waiting = 4 });
    for (int i = 0; i < 300; i++) {
        snprintf(name, sizeof name, "key %d", i);
        assert_int_equal(reused_by(&r, 1, 70, name), 0);
        assert_int_equal(reused_by(&r, 2, 70, "always"), i == 0 ? 0 : 64);
    }
    asked_close(&r);
}

/* Without a limit of their own, the prompts of all requests that the cache holds may wait. */
static void all_at_once(void **state)
{
    (void)state;
    enum { N_PAGE = 80, N = 25 }; /* four contexts are 64 pages */
    asked_rig r;
    weft_error err;
    asked_open(&r, N_PAGE, NULL);
    asked *a = asked_new(&r, 1);
    a->opt.n_prompt = 200;
    for (int i = 0; i < N; i++)
        assert_true(weft_scheduler_submit(r.scheduler, &a->request, &err) > 0);
    assert_int_equal(weft_scheduler_submit(r.scheduler, &a->request, &err), 0);
    assert_int_equal(err.code, WEFT_EBUSY); /* 5200 tokens; the cache holds 5120 */
    asked_close(&r);                        /* each request hears that it ended */
    free(a);
}

/* What can never fit is refused at once; a full queue says so. */
static void refusals(void **state)
{
    (void)state;
    asked_rig r;
    weft_error err;
    asked_open(&r, 4,
               &(weft_scheduler_options){ .struct_size = sizeof(weft_scheduler_options),
                                          .n_waiting = 3,
                                          .n_waiting_tokens = 500 });
    asked *a = asked_new(&r, 1);
    a->opt.n_prompt = 257; /* five pages */
    assert_int_equal(weft_scheduler_submit(r.scheduler, &a->request, &err), 0);
    assert_int_equal(err.code, WEFT_ECONTEXT);
    a->opt.n_prompt = 200;
    a->prompt[199] = ASKED_VOCAB;
    assert_int_equal(weft_scheduler_submit(r.scheduler, &a->request, &err), 0);
    assert_int_equal(err.code, WEFT_EINVAL);
    a->prompt[199] = 5;
    for (int i = 0; i < 2; i++)
        assert_true(weft_scheduler_submit(r.scheduler, &a->request, &err) > 0);
    assert_int_equal(weft_scheduler_submit(r.scheduler, &a->request, &err), 0);
    assert_int_equal(err.code, WEFT_EBUSY); /* 600 tokens */
    a->opt.n_prompt = 100;
    assert_true(weft_scheduler_submit(r.scheduler, &a->request, &err) > 0);
    a->opt.n_prompt = 1;
    assert_int_equal(weft_scheduler_submit(r.scheduler, &a->request, &err), 0);
    assert_int_equal(err.code, WEFT_EBUSY); /* the fourth */
    assert_int_equal(asked_info(&r).n_waiting, 3);
    assert_int_equal(asked_info(&r).n_waiting_tokens, 500);
    assert_null(weft_scheduler_new(r.engine, NULL, &err));
    assert_non_null(strstr(err.message, "has a scheduler"));
    weft_scheduler_free(r.scheduler); /* every request has its last call */
    assert_int_equal(a->heard.n_done, 3);
    assert_int_equal(a->heard.err.code, WEFT_ESTOPPED);
    r.scheduler = weft_scheduler_new(r.engine, NULL, &err);
    assert_non_null(r.scheduler);
    free(a);
    asked_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST("scheduler: under any load every request gets what it gets alone", any_load),
        TEST("scheduler: prefixes outlive their requests", prefixes_outlive_their_requests),
        TEST("scheduler: keys share prefixes only with share_prefixes", keys_do_not_share),
        TEST("scheduler: idle pages are taken, the deepest first", idle_pages_are_taken),
        TEST("scheduler: two requests of one prompt share what they compute", twins_share),
        TEST("scheduler: a cancel at every stage leaves no page", cancel_at_every_stage),
        TEST("scheduler: a full cache and a full context end a text as alone", full),
        TEST("scheduler: a preempted request keeps the state of mirostat", mirostat_goes_on),
        TEST("scheduler: more keys than it remembers", many_keys),
        TEST("scheduler: what the cache holds may arrive at once", all_at_once),
        TEST("scheduler: what cannot fit is refused, and a full queue says so", refusals),
    };
    return RUN(tests);
}
