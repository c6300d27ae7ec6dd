/* The simulator: it decides what the scheduler decides, its requests all end, and the same load gives the
 * same bytes; and the times it gives to forwards. */
#include "asked.h"

#include "base/rng.h"
#include "engine/dummy_engine.h"
#include "engine/scheduler.h"
#include "engine/step_times.h"

#include <math.h>

/* ---- the same decisions as a real run -------------------------------------------------------- */

#define MOST_STEP 9000
#define N_ASKED   60
#define N_PAGE    16

typedef struct steps {
    weft_step at[MOST_STEP];
    int n;
} steps;

static void keep_step(void *ud, const weft_step *s)
{
    steps *to = ud;
    assert_true(to->n < MOST_STEP);
    to->at[to->n++] = *s;
}

/* Request i of the script: when it is submitted, what it has. Some begin like others. */
typedef struct scripted {
    int call; /* of step, before which it is submitted */
    weft_load_part part[2];
    int64_t n_new;
    const char *key;
    int priority;
} scripted;

static scripted script(int i)
{
    const rng_block r = rng_draw(11, 5, (uint64_t)i);
    return (scripted){ .call = i / 6 * 40 + (int)(r.word[0] % 30),
                       .part = { { r.word[1] % 3, 64 + (int64_t)(r.word[1] >> 8) % 100 },
                                 { 100 + (uint64_t)i, 1 + (int64_t)(r.word[2] % 150) } },
                       .n_new = 1 + (int64_t)(r.word[3] % 60) + (i % 4 ? 0 : 350),
                       .key = i % 3 ? "a" : "b",
                       .priority = i % 5 == 0 };
}

static int64_t prompt_of(const scripted *q, int32_t *prompt, int32_t n_vocab)
{
    int64_t n = 0;
    for (int k = 0; k < 2; k++)
        for (int64_t j = 0; j < q->part[k].n; j++)
            prompt[n++] = weft_load_token(q->part[k].seed, j, n_vocab);
    return n;
}

static weft_scheduler_options scheduled(steps *to)
{
    return (weft_scheduler_options){ .struct_size = sizeof(weft_scheduler_options),
                                     .step_ms = 3,
                                     .n_running = 6,
                                     .n_waiting = N_ASKED,
                                     .n_waiting_tokens = 1 << 20,
                                     .step_fn = keep_step,
                                     .step_ud = to };
}

/* On a model of two layers: its steps, with the times that they took. */
static weft_scheduler_info run_real(steps *to)
{
    asked_rig rig;
    weft_error err;
    int32_t prompt[512];
    const weft_scheduler_options o = scheduled(to);
    asked_open(&rig, N_PAGE, &o);
    bool more = true;
    for (int call = 0; call < 30 + N_ASKED / 6 * 40 || more; call++) {
        for (int i = 0; i < N_ASKED; i++) {
            const scripted q = script(i);
            if (q.call != call)
                continue;
            const weft_generate_options g = { .struct_size = sizeof g,
                                              .prompt = prompt,
                                              .n_prompt = prompt_of(&q, prompt, ASKED_VOCAB),
                                              .n_new = q.n_new,
                                              .ignore_end = true };
            const weft_request r = {
                .struct_size = sizeof r, .generate = &g, .key = q.key, .priority = q.priority
            };
            assert_true(weft_scheduler_submit(rig.scheduler, &r, &err) != 0);
        }
        assert_int_equal(weft_scheduler_step(rig.scheduler, &more, &err), WEFT_OK);
    }
    const weft_scheduler_info info = asked_info(&rig);
    asked_close(&rig);
    return info;
}

/* The clock of a replay: forward i takes what forward i of the real run took. */
typedef struct replay {
    const steps *real;
    steps own;
    double now;
} replay;

static double replay_now(void *ud)
{
    return ((const replay *)ud)->now;
}

static void replay_forward(void *ud, const step_shape *shape, int64_t n_wanted)
{
    replay *r = ud;
    assert_true(r->own.n < r->real->n);
    const weft_step *as = &r->real->at[r->own.n];
    assert_true(shape->n_row == as->n_row && n_wanted == as->n_draw);
    assert_true(shape->prompt == as->prompt_context && shape->fresh == as->new_context);
    r->now += as->seconds;
}

static weft_scheduler_info run_dummy(replay *r)
{
    static dummy_engine d;
    static const pieces none;
    mem m;
    weft_error err = { 0 };
    int32_t prompt[512];
    bool more = true;
    weft_scheduler_options o = scheduled(&r->own);
    const engine_options e = {
        .n_session = 6, .n_batch = 64, .n_ctx = ASKED_CONTEXT, .n_cache = N_PAGE * PAGE_ROWS
    };
    mem_init(&m, 0, NULL);
    assert_int_equal(dummy_engine_init(&d, &e, &m, replay_forward, r, &err), WEFT_OK);
    scheduler *s = scheduler_new(d.engine, &o, &err);
    assert_non_null(s);
    s->now = replay_now;
    s->now_ud = r;
    for (int call = 0; call < 30 + N_ASKED / 6 * 40 || more; call++) {
        for (int i = 0; i < N_ASKED; i++) {
            const scripted q = script(i);
            if (q.call != call)
                continue;
            const request_spec spec = { .opt = { .prompt = prompt,
                                                 .n_prompt = prompt_of(&q, prompt, DUMMY_VOCAB),
                                                 .n_new = q.n_new,
                                                 .ignore_end = true },
                                        .pieces = &none,
                                        .key = q.key,
                                        .priority = q.priority };
            assert_true(scheduler_submit(s, &spec, &err) != 0);
        }
        assert_int_equal(scheduler_step(s, &more, &err), WEFT_OK);
    }
    const weft_scheduler_info info = scheduler_info(s);
    scheduler_free(s);
    assert_int_equal(pages_available(&d.engine->pages), N_PAGE);
    dummy_engine_free(&d);
    assert_int_equal(m.used, 0);
    return info;
}

static void same_decisions(void **state)
{
    (void)state;
    steps *model_run = calloc(1, sizeof *model_run);
    replay *r = calloc(1, sizeof *r);
    assert_true(model_run && r);
    const weft_scheduler_info a = run_real(model_run);
    r->real = model_run;
    const weft_scheduler_info b = run_dummy(r);
    for (int i = 0; i < model_run->n && i < r->own.n; i++) {
        const weft_step *x = &model_run->at[i], *y = &r->own.at[i];
        if (x->n_row != y->n_row || x->n_draw != y->n_draw ||
            x->prompt_context != y->prompt_context || x->new_context != y->new_context)
            fail_msg("forward %d: %lld rows, %lld draws; simulated %lld, %lld", i,
                     (long long)x->n_row, (long long)x->n_draw, (long long)y->n_row,
                     (long long)y->n_draw);
    }
    for (int i = 0; i < model_run->n && i < r->own.n;
         i++) { /* the replay's clock stands in between */
        assert_true((model_run->at[i].before < 0) == (r->own.at[i].before < 0));
        assert_true(r->own.at[i].before <= 0);
    }
    assert_int_equal(model_run->n, r->own.n);
    assert_int_equal(a.n_step, b.n_step);
    assert_int_equal(a.n_new, b.n_new);
    assert_int_equal(a.n_reused, b.n_reused);
    assert_int_equal(a.n_preempted, b.n_preempted);
    assert_int_equal(a.n_page_idle, b.n_page_idle);
    printf("%d forwards, %lld preempted, %lld of %lld tokens of prompts cached\n", model_run->n,
           (long long)a.n_preempted, (long long)a.n_reused, (long long)a.n_prompt);
    assert_true(a.n_preempted > 0 && a.n_reused > 0 && model_run->n > 200);
    free(r);
    free(model_run);
}

/* ---- simulated loads ------------------------------------------------------------------------- */

#define N_LOAD 400

typedef struct load {
    weft_load_request q[N_LOAD];
    weft_load_part part[N_LOAD][2];
    weft_load_result result[N_LOAD];
    weft_step record[200];
    weft_simulation_info info;
    weft_simulation_options opt;
} load;

/* Times of a machine that is made up: 5 ms, 1 ms a row, 1 us a position, up to a tenth more. */
static load *new_load(double rate)
{
    load *l = calloc(1, sizeof *l);
    assert_non_null(l);
    double at = 0;
    for (int i = 0; i < 200; i++) {
        const rng_block r = rng_draw(1, 9, (uint64_t)i);
        weft_step *s = &l->record[i];
        *s = (weft_step){ .struct_size = sizeof *s, .n_row = 1 + r.word[0] % 128 };
        s->n_draw = 1 + r.word[1] % s->n_row;
        s->new_context = r.word[2] % 4000;
        s->seconds = (5e-3 + 1e-3 * (double)s->n_row + 1e-6 * s->new_context) *
                     (1 + 0.1 * rng_unit(r.word[3]));
        s->before = i % 10 ? 1e-4 : -1;
    }
    for (int i = 0; i < N_LOAD; i++) {
        const rng_block r = rng_draw(2, 9, (uint64_t)i);
        l->part[i][0] = (weft_load_part){ r.word[0] % 4, 128 };
        l->part[i][1] = (weft_load_part){ 100 + (uint64_t)i, 1 + r.word[1] % 100 };
        l->q[i] = (weft_load_request){ .at = at,
                                       .part = l->part[i],
                                       .n_part = 2,
                                       .n_new = 1 + r.word[2] % 30,
                                       .key = r.word[3] % 2 ? "a" : NULL };
        at += -log(1 - rng_unit(r.word[3])) / rate;
    }
    l->opt = (weft_simulation_options){ .struct_size = sizeof l->opt,
                                        .steps = l->record,
                                        .n_steps = 200,
                                        .n_running = 16,
                                        .n_waiting = 16,
                                        .n_batch = 128,
                                        .n_ctx = 512,
                                        .n_cache = 16384,
                                        .arrive_seconds = 1e-3,
                                        .deliver_seconds = 2e-3 };
    l->info.struct_size = sizeof l->info;
    return l;
}

static void simulate_load(load *l)
{
    weft_error err = { 0 };
    if (weft_simulate(&l->opt, l->q, N_LOAD, l->result, &l->info, &err) != WEFT_OK)
        fail_msg("%s", err.message);
}

static void every_request_ends(void **state)
{
    (void)state;
    load *l = new_load(6);
    int64_t n_new = 0, n_reused = 0;
    simulate_load(l);
    for (int i = 0; i < N_LOAD; i++) {
        const weft_load_result *r = &l->result[i];
        assert_int_equal(r->status, 200);
        assert_int_equal(r->n_new, l->q[i].n_new);
        assert_int_equal(r->n_prompt, l->part[i][0].n + l->part[i][1].n);
        /* not before a step, the way there and back */
        assert_true(r->first >= l->q[i].at + 5e-3 + 3e-3 && r->last >= r->first);
        n_new += r->n_new;
        n_reused += r->n_reused;
    }
    assert_int_equal(l->info.n_new, n_new);
    assert_int_equal(l->info.n_reused, n_reused);
    assert_int_equal(l->info.n_page_left, 0);
    assert_true(n_reused > 0 && l->info.busy_seconds <= l->info.seconds);
    assert_true(l->info.running > 0 && l->info.running <= 16 && l->info.most_cached <= 16384);
    assert_true(l->info.step_variance > 0.9);
    free(l);
}

static void batch_fits(void **state)
{
    (void)state;
    load *l = new_load(6);
    l->opt.n_batch = 0;
    l->opt.n_running = 512;
    simulate_load(l);
    assert_int_equal(l->result[0].status, 200);
    free(l);
}

static void same_bytes_twice(void **state)
{
    (void)state;
    load *a = new_load(20), *b = new_load(20), *c = new_load(20);
    simulate_load(a);
    simulate_load(b);
    c->opt.seed = 1;
    simulate_load(c);
    assert_memory_not_equal(a->result, c->result, sizeof a->result);
    c->opt.seed = 0;
    c->opt.replay = true;
    simulate_load(c);
    assert_memory_equal(a->result, b->result, sizeof a->result);
    assert_memory_equal(&a->info, &b->info, sizeof a->info);
    assert_memory_not_equal(a->result, c->result, sizeof a->result);
    free(a);
    free(b);
    free(c);
}

/* At many times what it can do, the queue is full: those beyond 16 + 16, or half of it for a key, are
 * refused at once, and the others wait for at most all that are before them. */
static void overload_is_refused(void **state)
{
    (void)state;
    load *l = new_load(2000);
    int n[3] = { 0 };
    simulate_load(l);
    double longest = 0;
    for (int i = 0; i < N_LOAD; i++) {
        const weft_load_result *r = &l->result[i];
        n[r->status == 200 ? 0 : r->status == 429 ? 1 : 2]++;
        if (r->status == 200)
            longest = fmax(longest, r->first - l->q[i].at);
        else
            assert_true((r->status == 429 || r->status == 503) && r->n_new == 0);
    }
    assert_int_equal(n[0] + n[1] + n[2], N_LOAD);
    assert_true(n[0] >= 32 && n[0] < N_LOAD / 2 && n[1] > 0);
    assert_true(longest > 0.5 && longest < 10);
    free(l);

    l = new_load(2000); /* one key: only the whole queue counts */
    for (int i = 0; i < N_LOAD; i++)
        l->q[i].key = NULL;
    simulate_load(l);
    for (int i = 0; i < 40; i++) /* nothing ends in the 20 ms in which they come */
        assert_int_equal(l->result[i].status, i < 32 ? 200 : 503);
    for (int i = 0; i < N_LOAD; i++)
        assert_true(l->result[i].status != 429);
    free(l);
}

static bool near(double x, double expected)
{
    return fabs(x - expected) < 1e-9;
}

/* Forwards of 10 ms with 1 ms in between; the clerk needs 0.5 s for each request and 10 ms for each token
 * of its prompt, one request after the other. */
static void times_add_up(void **state)
{
    (void)state;
    load *l = new_load(1);
    weft_error err = { 0 };
    for (int i = 0; i < 200; i++)
        l->record[i] = (weft_step){ .n_row = 1 + i % 2 * 9, .seconds = 0.01, .before = 1e-3 };
    for (int i = 0; i < 3; i++) {
        l->part[i][0].n = 10;
        l->q[i] = (weft_load_request){
            .at = i < 2 ? 1 : 10, .part = l->part[i], .n_part = 1, .n_new = 5
        };
    }
    l->opt.arrive_seconds = 0.5;
    l->opt.token_seconds = 0.01;
    l->opt.deliver_seconds = 0.003;
    steps *own = calloc(1, sizeof *own);
    assert_non_null(own);
    l->opt.step_fn = keep_step;
    l->opt.step_ud = own;
    assert_int_equal(weft_simulate(&l->opt, l->q, 3, l->result, &l->info, &err), WEFT_OK);
    static const double began[3] = { 1.6, 2.2, 10.6 };
    for (int i = 0; i < 3; i++) {
        assert_true(near(l->result[i].first, began[i] + 0.01 + 0.003));
        assert_true(near(l->result[i].last, l->result[i].first + 4 * 0.011));
    }
    assert_int_equal(l->info.n_step, 15);
    for (int i = 0; i < 15; i++) /* before each request the queue is empty */
        assert_true(i % 5 == 0 ? own->at[i].before < 0 : near(own->at[i].before, 1e-3));
    free(own);
    assert_true(near(l->info.busy_seconds, 15 * 0.011));
    assert_true(near(l->info.running * l->info.seconds, 15 * 0.011));
    free(l);
}

/* A request that the server would not take. */
static void too_long_is_refused(void **state)
{
    (void)state;
    load *l = new_load(6);
    l->part[7][1].n = 500;
    simulate_load(l);
    assert_int_equal(l->result[7].status, 400);
    assert_int_equal(l->result[8].status, 200);
    free(l);
}

/* ---- times of steps -------------------------------------------------------------------------- */

static void times_are_fitted(void **state)
{
    (void)state;
    mem m;
    step_times t;
    weft_error err = { 0 };
    load *l = new_load(1);
    mem_init(&m, 0, NULL);
    for (int i = 0; i < 200; i++) { /* without spread */
        weft_step *s = &l->record[i];
        s->prompt_context = (double)(i % 7) * 1000;
        s->seconds = 5e-3 + 1e-3 * (double)s->n_row + 2e-4 * (double)s->n_draw +
                     1e-6 * s->prompt_context + 3e-6 * s->new_context;
    }
    assert_int_equal(step_times_fit(&t, l->record, 200, &m, &err), WEFT_OK);
    for (int64_t rows = 1; rows <= 160; rows += 3) {
        const step_shape s = { rows, 2000, 500 };
        const double expected = 5e-3 + 1e-3 * (double)rows + 2e-4 * 1 + 2e-3 + 1.5e-3;
        const double got = step_times_mean(&t, &s, 1);
        if (fabs(got / expected - 1) > (rows < 3 ? 0.2 : 0.02))
            fail_msg("%lld rows: %g s, expected %g", (long long)rows, got, expected);
    }
    assert_true(fabs(t.slope[1] / 1e-6 - 1) < 0.02 && fabs(t.slope[2] / 3e-6 - 1) < 0.02);
    step_times_free(&t);
    for (int i = 0; i < 200; i++) /* less time for more context: that is noise */
        l->record[i].seconds -= 2e-6 * l->record[i].prompt_context;
    for (int i = 0; i < 200; i++)
        l->record[i].seconds = fmax(l->record[i].seconds, 1e-3);
    assert_int_equal(step_times_fit(&t, l->record, 200, &m, &err), WEFT_OK);
    assert_true(t.slope[0] >= 0 && t.slope[1] == 0 && t.slope[2] > 0);
    step_times_free(&t);
    free(l);
    assert_int_equal(m.used, 0);
}

/* The ratios of a bucket are those of its steps; gaps are those that followed them. */
static void spread_is_kept(void **state)
{
    (void)state;
    mem m;
    step_times t;
    weft_error err = { 0 };
    weft_step s[128];
    mem_init(&m, 0, NULL);
    for (int i = 0; i < 128;
         i++) { /* rows 1 and 64 in turn; every eighth step takes thrice as long */
        s[i] = (weft_step){ .n_row = i % 2 ? 64 : 1, .n_draw = 1, .before = i % 2 ? 1e-3 : 2e-3 };
        s[i].seconds = (i % 2 ? 0.1 : 0.01) * (i % 8 == 3 ? 3 : 1);
    }
    assert_int_equal(step_times_fit(&t, s, 128, &m, &err), WEFT_OK);
    double sum = 0;
    int n_slow = 0;
    for (uint64_t i = 0; i < 64; i++) {
        const step_ratio one = step_times_pick(&t, 1, -1, i);
        const step_ratio many = step_times_pick(&t, 64, (int64_t)i / 8 * 16 + 8, i);
        assert_true(many.at >= (int64_t)i / 8 * 16 && many.at < (int64_t)i / 8 * 16 + 16);
        assert_true(fabs(one.ratio - 1) < 0.01 && fabs(one.after - 1e-3) < 1e-9);
        sum += many.ratio * step_times_mean(&t, &(step_shape){ .n_row = 64 }, 1);
        n_slow += many.ratio > 2;
    }
    assert_int_equal(n_slow, 16);
    n_slow = 0;
    int n_late = 0;
    for (uint64_t i = 0; i < 64; i++) { /* at any place */
        const step_ratio any = step_times_pick(&t, 64, -1, i);
        n_slow += any.ratio > 2;
        n_late += any.at >= 64;
    }
    assert_int_equal(n_late, 32);
    assert_int_equal(n_slow, 16);
    assert_true(fabs(sum / 64 - 0.15) < 0.001); /* the mean of the record, not of the fit */
    step_times_free(&t);
    s[5].seconds = -1;
    assert_int_equal(step_times_fit(&t, s, 128, &m, &err), WEFT_EINVAL);
    assert_int_equal(step_times_fit(&t, s, 0, &m, &err), WEFT_EINVAL);
    assert_int_equal(m.used, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST("simulation: its forwards are those of a real run", same_decisions),
        TEST("simulation: every request ends, tokens add up, no page is left", every_request_ends),
        TEST("simulation: a batch has a row for each request that runs", batch_fits),
        TEST("simulation: the same load gives the same bytes", same_bytes_twice),
        TEST("simulation: the times of a request add up", times_add_up),
        TEST("simulation: what a server refuses is refused", overload_is_refused),
        TEST("simulation: a prompt that is too long is refused", too_long_is_refused),
        TEST("step times: a record that follows the formula gives its coefficients",
             times_are_fitted),
        TEST("step times: times spread as they did, gaps are those that followed", spread_is_kept),
    };
    return RUN(tests);
}
