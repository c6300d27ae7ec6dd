/* simulate - the scheduler under a trace of requests, on a clock of its own: what load would measure.
 *
 *     build/bench/simulate TRACE --steps RECORD[,RECORD...] [--parallel 32] [--queue 128] ... [--json]
 *
 * RECORD is what `weft serve --record-steps FILE` has written on the machine in question; the options
 * are those of the server. TTFT and TPOT are printed as by load. --write-steps writes each simulated
 * forward as a record, too; --compare says how long another record's steps took beside the fit. */
#include "args.h"
#include "bench.h"
#include "load_file.h"
#include "load_report.h"

#include "engine/step_times.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *trace_path, *steps, *steps_to, *compared;
static int64_t n_running, n_queue, n_ctx, n_cache, n_batch, seed = 1, n_repeat = 1;
static double step_ms, deliver_ms, arrive_ms = -1;
static bool share_prefixes, replay, json;

static const arg args[] = {
    { "steps", ARG_TEXT, &steps, "FILE,...", "records of weft serve --record-steps", 0, 0 },
    { "parallel", ARG_INT, &n_running, "N", "requests that run at a time (32)", 1, 1024 },
    { "queue", ARG_INT, &n_queue, "N", "requests that may wait (128)", 1, 65536 },
    { "ctx-size", ARG_INT, &n_ctx, "N", "tokens of a context (4096)", 1, 1 << 24 },
    { "cache-tokens", ARG_INT, &n_cache, "N", "tokens of the cache (4 contexts)", 1, 1 << 30 },
    { "batch-size", ARG_INT, &n_batch, "N", "rows of a forward (256)", 1, 65536 },
    { "step-ms", ARG_REAL, &step_ms, "MS", "target for a step (200)", 0, 0 },
    { "share-prefixes", ARG_FLAG, &share_prefixes, NULL, "all keys share cached prefixes", 0, 0 },
    { "arrive-ms", ARG_REAL, &arrive_ms, "MS",
      "from a client to the queue (as recorded, by tokens)", 0, 0 },
    { "deliver-ms", ARG_REAL, &deliver_ms, "MS", "from a forward to the client (0)", 0, 0 },
    { "seed", ARG_INT, &seed, "N", "of the spread of step times (1)", 0, 0 },
    { "replay", ARG_FLAG, &replay, NULL, "the record is of a run of this trace", 0, 0 },
    { "repeat", ARG_INT, &n_repeat, "N",
      "simulations, with further seeds: their requests are counted "
      "together (1)",
      1, 1000 },
    { "write-steps", ARG_TEXT, &steps_to, "FILE", "write each simulated forward", 0, 0 },
    { "compare", ARG_TEXT, &compared, "FILE", "a record whose times are compared", 0, 0 },
    { "json", ARG_FLAG, &json, NULL, "one JSON object a line", 0, 0 },
    { 0 },
};

static const program self = {
    "simulate",
    "TRACE",
    "Runs the scheduler under a trace of requests, with recorded step "
    "times and a clock of its\nown, and prints what load would measure.\n",
    args,
    1,
    &trace_path
};

static void read_records(step_record *r)
{
    char paths[4096], *rest = NULL;
    weft_error err = { 0 };
    snprintf(paths, sizeof paths, "%s", steps);
    for (char *s = strtok_r(paths, ",", &rest); s; s = strtok_r(NULL, ",", &rest))
        bench_check(step_record_read(r, s, &err), &err);
}

static void write_step(void *ud, const weft_step *s)
{
    step_record_write_step(ud, s);
}

static void count_result(load_counts *t, const weft_load_result *r, const weft_load_request *q)
{
    t->n_request++;
    t->n_429 += r->status == 429;
    t->n_503 += r->status == 503;
    t->n_failed += r->status == 400;
    if (r->status != 200)
        return;
    t->n_prompt += r->n_prompt;
    t->n_token += r->n_new;
    list_add(&t->ttft, r->first - q->at);
    if (r->n_new > 1)
        list_add(&t->tpot, (r->last - r->first) / (double)(r->n_new - 1));
}

static void print_info(const weft_simulation_info *i)
{
    const double s = i->seconds > 0 ? i->seconds : 1;
    printf(
        json ? "{\"busy\":%.4f,\"running\":%.3f,\"waiting\":%.3f,\"cached\":%.0f,"
               "\"most_cached\":%lld,\"steps\":%lld,\"preempted\":%lld,\"prompt\":%lld,\"reused\":"
               "%lld,\"pages_left\":%lld,\"variance_explained\":%.4f}\n"
             : "  busy %.3f, running %.2f, waiting %.2f; cache positions %.0f, at most %lld; %lld "
               "steps, %lld preempted; %lld tokens of prompts, %lld cached; %lld pages left; %.3f "
               "of "
               "the variance of step times explained\n",
        i->busy_seconds / s, i->running, i->waiting, i->cached, (long long)i->most_cached,
        (long long)i->n_step, (long long)i->n_preempted, (long long)i->n_prompt,
        (long long)i->n_reused, (long long)i->n_page_left, i->step_variance);
}

/* The time of all steps of another record, as a share of what the fit says: how much slower the
 * machine was then. */
static double factor_of(const step_record *r)
{
    mem m;
    weft_error err = { 0 };
    step_times t;
    step_record other = { 0 };
    double took = 0, said = 0;
    mem_init(&m, 0, NULL);
    bench_check(step_record_read(&other, compared, &err), &err);
    bench_check(step_times_fit(&t, r->step, r->n, &m, &err), &err);
    for (int64_t i = 0; i < other.n; i++) {
        const weft_step *s = &other.step[i];
        const step_shape shape = { s->n_row, s->prompt_context, s->new_context };
        took += s->seconds;
        said += step_times_mean(&t, &shape, s->n_draw);
    }
    step_times_free(&t);
    step_record_free(&other);
    return took / said;
}

int main(int argc, char **argv)
{
    weft_error err = { 0 };
    load_trace t;
    step_record r = { 0 };
    weft_simulation_info info = { .struct_size = sizeof info };
    const int code = args_parse(&self, argc, argv);
    if (code >= 0)
        return code;
    if (!steps)
        return args_usage(&self, "no --steps; expected a record of weft serve --record-steps");
    bench_check(load_trace_read(&t, trace_path, &err), &err);
    read_records(&r);
    FILE *to = steps_to ? bench_must(fopen(steps_to, "we"), NULL) : NULL;
    weft_simulation_options o = {
        .struct_size = sizeof o,
        .steps = r.step,
        .n_steps = r.n,
        .n_running = (int)n_running,
        .n_waiting = (int)n_queue,
        .n_batch = (int)n_batch,
        .n_ctx = n_ctx,
        .n_cache = n_cache,
        .step_ms = step_ms,
        .share_prefixes = share_prefixes,
        .arrive_seconds = arrive_ms >= 0 ? 1e-3 * arrive_ms : r.arrive_seconds,
        .token_seconds = arrive_ms >= 0 ? 0 : r.token_seconds,
        .deliver_seconds = 1e-3 * deliver_ms,
        .seed = (uint64_t)seed,
        .replay = replay,
        .step_fn = to ? write_step : NULL,
        .step_ud = to,
    };
    weft_load_result *result = bench_must(calloc((size_t)t.n, sizeof *result), NULL);
    load_counts all = { 0 };
    double took = 0;
    for (; n_repeat > 0; n_repeat--, o.seed++) {
        bench_check(weft_simulate(&o, t.at, t.n, result, &info, &err), &err);
        took += info.seconds;
        for (int64_t i = 0; i < t.n; i++)
            count_result(&all, &result[i], &t.at[i]);
    }
    print_tally("simulated", &all, 0, took, json);
    print_info(&info);
    if (compared)
        printf(json ? "{\"factor\":%.4f}\n" : "  its steps took %.4f of the fitted times\n",
               factor_of(&r));
    const bool good = !to || fclose(to) == 0;
    free(result);
    step_record_free(&r);
    load_trace_free(&t);
    return good ? 0 : 1;
}
