/* context - the cost of a long context: time per generated token at increasing lengths, fitted by a
 * straight line; memory compared with the plan; latency of a cancel. It fails if the line does not
 * fit or if more memory was allocated than planned.
 *
 *     build/bench/context MODEL [--longest 32768] [--generate 8] [--kv TYPE] [--json]
 *
 * One prompt grows to the longest context; on its way, at 128, 256, 512 ... tokens, it leaves
 * forks, which then generate alternately. Files to measure with come from build/tools/random_model,
 * whose --context must be as long. */
#include "args.h"
#include "bench.h"
#include "fit.h"

#include "base/rng.h"
#include "engine/session.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static const char *path, *kv_name = "f16";
static int64_t n_thread, longest = 32768, n_generate = 8, n_batch;
static double least_r2 = 0.9;
static bool json;

static const arg args[] = {
    { "threads", ARG_INT, &n_thread, "N", "threads (all processors)", 1, 1024 },
    { "longest", ARG_INT, &longest, "N", "tokens of the context (32768)", 64, 1 << 24 },
    { "generate", ARG_INT, &n_generate, "N", "tokens at each length (8)", 1, 64 },
    { "batch", ARG_INT, &n_batch, "N", "rows of a forward (the engine's default)", 1, 65536 },
    { "kv", ARG_TEXT, &kv_name, "TYPE", "of cached keys and values (f16)", 0, 0 },
    { "r2", ARG_REAL, &least_r2, "X",
      "share of the variance that a straight line must explain (0.9)", 0, 0 },
    { "smoke", ARG_FLAG, &bench_smoke, NULL, "see only that it runs: rough limits", 0, 0 },
    { "json", ARG_FLAG, &json, NULL, "one JSON object a line", 0, 0 },
    { 0 },
};

static const program self = { "context",
                              "MODEL",
                              "Measures time a generated token against the length of the context, "
                              "memory of the longest,\nand how long a cancel takes.\n",
                              args,
                              1,
                              &path };

#define MAX_LENGTH 20

typedef struct job {
    engine *engine;
    session *session;
    int32_t *ids;
    int n; /* lengths measured */
    session *fork[MAX_LENGTH];
    double length[MAX_LENGTH], seconds[MAX_LENGTH];
} job;

static void append(session *s, const int32_t *ids, int64_t n)
{
    weft_error err = { 0 };
    work w = { .session = s, .ids = ids, .n = n };
    bench_check(engine_eval(s->engine, &w, 1, &err), &err);
}

/* The prompt grows to the longest context and leaves a fork of itself at every length. */
static void grow(job *j)
{
    weft_error err = { 0 };
    for (int64_t length = longest < 256 ? longest / 4 : 128;;
         length = 2 * length < longest ? 2 * length : longest) {
        const int64_t to = length == longest ? longest - 1 : length;
        append(j->session, j->ids + j->session->cache.length, to - j->session->cache.length);
        j->length[j->n] = (double)to;
        j->fork[j->n++] = bench_must(session_fork(j->session, &err), &err);
        if (length == longest)
            return;
    }
}

/* The median time of a token at the end of every length. Each round visits all lengths, so other
 * load on the machine affects all of them alike. */
static void generate(job *j)
{
    weft_error err = { 0 };
    samples t[MAX_LENGTH] = { 0 };
    for (int64_t i = 0; i < n_generate; i++)
        for (int k = 0; k < j->n; k++) {
            const double began = bench_now();
            append(j->fork[k], &j->ids[i], 1);
            samples_add(&t[k], bench_now() - began);
            bench_check(session_rewind(j->fork[k], (int64_t)j->length[k], &err), &err);
        }
    for (int k = 0; k < j->n; k++) {
        j->seconds[k] = samples_median(&t[k]);
        printf(json ? "{\"context\":%.0f,\"ms_per_token\":%.4f}\n"
                    : "%8.0f tokens %10.3f ms a token\n",
               j->length[k], 1e3 * j->seconds[k]);
        session_free(j->fork[k]);
    }
}

/* seconds = a + b length by least squares, and the share of the variance that it explains. */
static void fit_line(const job *j)
{
    polynomial p;
    if (!fit_polynomial(j->length, j->seconds, j->n, 1, 0, &p))
        p.r2 = 0; /* one length has no line */
    printf(json ? "{\"ms_at_0\":%.4f,\"us_per_position\":%.5f,\"r2\":%.5f}\n"
                : "a straight line: %.3f ms + %.4f us a position, R2 %.4f\n",
           1e3 * p.at[0], 1e6 * p.at[1], p.r2);
    weft_error err = { WEFT_OK, "" };
    if (!(p.r2 >= least_r2))
        weft_fail(&err, WEFT_ENUMERIC,
                  "time is not linear in the length of the context: R2 %.4f, expected %.4f or more",
                  p.r2, least_r2);
    bench_check(err.code, &err);
}

static void report_memory(const engine_plan *plan, size_t taken)
{
    printf(json
               ? "{\"kv_bytes\":%zu,\"step_bytes\":%zu,\"planned_bytes\":%zu,\"taken_bytes\":%zu}\n"
               : "memory: cache %zu, step %zu; planned %zu, taken %zu bytes\n",
           plan->kv, plan->step.meta + plan->step.data + plan->step.scratch, plan->total, taken);
    if (taken > plan->total)
        bench_check(WEFT_ELIMIT, &(weft_error){ WEFT_ELIMIT, "more was taken than planned" });
}

/* ---- cancelling ------------------------------------------------------------------------------ */

typedef struct watcher {
    session *session;
    double wait, at; /* seconds before the cancel, and when it came */
} watcher;

static void *cancel_later(void *ud)
{
    watcher *w = ud;
    const struct timespec t = { (time_t)w->wait,
                                (long)(1e9 * (w->wait - (double)(time_t)w->wait)) };
    nanosleep(&t, NULL);
    w->at = bench_now();
    atomic_store(&w->session->cancelled, true);
    return NULL;
}

/* Evaluates a prompt forward by forward: total time, and that of the longest forward. */
static double read_prompt(work todo, double *longest_forward)
{
    weft_error err = { 0 };
    const double began = bench_now();
    while (todo.done < todo.n) {
        const double from = bench_now();
        bench_check(engine_step(todo.session->engine, &todo, 1, &err), &err);
        const double took = bench_now() - from;
        *longest_forward = took > *longest_forward ? took : *longest_forward;
    }
    return bench_now() - began;
}

/* Cancels a prompt during its forwards; compares the delay with the time of a forward. */
static void cancel(job *j)
{
    weft_error err = { 0 };
    const int64_t n = longest < 4096 ? longest : 4096;
    session *s = bench_must(session_new(j->engine, &err), &err);
    const work todo = { .session = s, .ids = j->ids, .n = n };
    double most = 0, forward = 0;
    const double whole = read_prompt(todo, &forward);
    bench_check(session_rewind(s, 0, &err), &err);
    for (int i = 0; i < 5; i++) {
        watcher w = { s, whole * (i + 0.5) / 6, 0 };
        pthread_t thread;
        work again = todo;
        if (pthread_create(&thread, NULL, cancel_later, &w) != 0)
            exit(1);
        const weft_status status = engine_eval(j->engine, &again, 1, &err);
        const double ended = bench_now();
        pthread_join(thread, NULL);
        if (status != WEFT_ESTOPPED)
            atomic_store(&s->cancelled, false); /* it came too late */
        else if (ended - w.at > most)
            most = ended - w.at;
        bench_check(session_rewind(s, 0, &err), &err);
    }
    printf(json ? "{\"cancel_ms\":%.3f,\"forward_ms\":%.3f}\n"
                : "cancel: %.1f ms at most; the longest forward took %.1f ms\n",
           1e3 * most, 1e3 * forward);
    session_free(s);
}

/* ---- all ------------------------------------------------------------------------------------- */

int main(int argc, char **argv)
{
    const int code = args_parse(&self, argc, argv);
    if (code >= 0)
        return code;
    weft_error err = { 0 };
    host h = { .io = io_system };
    model m;
    engine_plan plan;
    engine_options o = { .n_thread = (int)n_thread, .n_batch = (int)n_batch, .n_ctx = longest };
    o.kv = dtype_by_name(kv_name);
    if (!o.kv || !o.kv->encode)
        return args_usage(&self, "--kv is \"%s\", a type that weft does not cache in", kv_name);
    mem_init(&h.mem, 0, NULL);
    bench_check(model_open(&m, path, WEFT_LOAD_MAP, &h, &err), &err);
    bench_check(engine_resolve(&m, &o, &err), &err);
    o.n_cache += MAX_LENGTH * PAGE_ROWS; /* what forks write into */
    o.n_session = MAX_LENGTH;
    bench_check(engine_predict(&m, &o, NULL, &plan, &err), &err);
    const size_t before = h.mem.used;
    atomic_store(&h.mem.peak, before);

    job j = { .engine = bench_must(engine_new(&m, &o, &err), &err) };
    j.session = bench_must(session_new(j.engine, &err), &err);
    j.ids = bench_must(calloc((size_t)longest, sizeof *j.ids), NULL);
    for (int64_t i = 0; i < longest; i++)
        j.ids[i] = (int32_t)(rng_draw(7, 0, (uint64_t)i).word[0] % (uint32_t)m.n_vocab);
    bench_print_machine(j.engine->pool, j.engine->model->kern->name, json);
    grow(&j);
    generate(&j);
    fit_line(&j);
    report_memory(&plan, h.mem.peak - before);
    session_free(j.session);
    cancel(&j);

    free(j.ids);
    engine_free(j.engine);
    model_close(&m);
    return 0;
}
