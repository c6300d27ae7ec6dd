/* predict - the accuracy of the predictions of `weft inspect`.
 *
 *     build/bench/predict MODEL [--threads N] [--repeat 5] [--json]
 *
 * Predictions and the work take turns in one process; each piece of work is compared with the
 * mean of the predictions before and after it, and the median of the ratios is reported. Pieces
 * between predictions that differ by more than 15 % are thrown away: the machine was doing
 * something else. */
#include "args.h"
#include "bench.h"

#include "base/rng.h"
#include "engine/estimate.h"
#include "engine/session.h"

#include <stdio.h>
#include <stdlib.h>

static const char *path;
static int64_t n_thread, n_repeat = 5;
static bool json;

static const arg args[] = {
    { "threads", ARG_INT, &n_thread, "N", "threads (all processors)", 1, 1024 },
    { "repeat", ARG_INT, &n_repeat, "N", "steady samples (5)", 1, 20 },
    { "smoke", ARG_FLAG, &bench_smoke, NULL, "see only that it runs", 0, 0 },
    { "json", ARG_FLAG, &json, NULL, "one JSON object a line", 0, 0 },
    { 0 },
};

static const program self = {
    "predict", "MODEL", "Measures tokens a second and compares with what weft inspect predicts.\n",
    args,      1,       &path
};

enum { PROMPT, GENERATE, N_WORK };
static const char *const names[N_WORK] = { "prompt", "generate" };
static const int tokens[N_WORK] = { 512, 32 };

typedef struct job {
    model *model;
    engine *engine;
    session *session;
    int32_t ids[512];
} job;

/* Seconds of a prompt read at once, or of tokens one by one. */
static double take(job *j, int what, int64_t n)
{
    weft_error err = { 0 };
    bench_check(session_rewind(j->session, 0, &err), &err);
    const double began = bench_now();
    const int64_t piece = what == PROMPT ? n : 1;
    for (int64_t at = 0; at < n; at += piece) {
        work w = { .session = j->session, .ids = j->ids + at, .n = piece };
        bench_check(engine_eval(j->engine, &w, 1, &err), &err);
    }
    return bench_now() - began;
}

static double predict(const job *j, int what)
{
    weft_error err = { 0 };
    speed s;
    bench_check(engine_estimate(j->model, &j->engine->opt, &s, &err), &err);
    return what == PROMPT ? s.prompt : s.generate;
}

static void compare(job *j, int what)
{
    const int64_t n = tokens[what] < j->engine->opt.n_ctx ? tokens[what] : j->engine->opt.n_ctx;
    samples all = { 0 }, steady = { 0 }, speeds = { 0 };
    double before = predict(j, what);
    for (int64_t i = 0; i < 3 * n_repeat && steady.n < n_repeat; i++) {
        const double measured = (double)n / take(j, what, n), after = predict(j, what);
        const double ratio = (before + after) / 2 / measured;
        samples_add(&speeds, measured);
        samples_add(&all, ratio);
        if (before < 1.15 * after && after < 1.15 * before)
            samples_add(&steady, ratio);
        before = after;
        if (bench_smoke)
            break;
    }
    const bool unsteady = steady.n == 0;
    const double ratio = samples_median(unsteady ? &all : &steady);
    printf(json ? "{\"work\":\"%s\",\"tokens\":%lld,\"tokens_per_second\":%.4g,"
                  "\"predicted_over_measured\":%.3f,\"steady\":%d,\"samples\":%d}\n"
                : "%-8s %4lld tokens %9.2f tok/s, predicted %.2f of it (%d steady of %d)\n",
           names[what], (long long)n, samples_median(&speeds), ratio, unsteady ? 0 : steady.n,
           all.n);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    const int code = args_parse(&self, argc, argv);
    if (code >= 0)
        return code;
    weft_error err = { 0 };
    host h = { .io = io_system };
    mem_init(&h.mem, 0, NULL);
    model m;
    bench_check(model_open(&m, path, WEFT_LOAD_MAP, &h, &err), &err);
    const engine_options o = { .n_thread = (int)n_thread, .n_ctx = m.n_ctx < 512 ? m.n_ctx : 512 };
    static job j;
    j.model = &m;
    j.engine = bench_must(engine_new(&m, &o, &err), &err);
    j.session = bench_must(session_new(j.engine, &err), &err);
    for (int i = 0; i < 512; i++)
        j.ids[i] = (int32_t)(rng_draw(7, 0, (uint64_t)i).word[0] % (uint32_t)m.n_vocab);
    take(&j, GENERATE, 1); /* from here on every weight is in memory */
    for (int what = 0; what < N_WORK; what++)
        compare(&j, what);
    session_free(j.session);
    engine_free(j.engine);
    model_close(&m);
    return 0;
}
