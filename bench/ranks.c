/* ranks - the exchange of a training step on several ranks, beside what forecast.h says of it.
 *
 *     WEFT_MPI=$PWD/build/comm-openmpi.so mpirun -n 2 --bind-to none build/bench/ranks
 *
 * First the line: messages as a bucket has them, from every rank to every other at the same time, for
 * the bandwidth, and empty ones for the latency. Then steps of a model with made-up weights. The forecast
 * of a step is given its computing, bucket by bucket, so that the two differ in the exchange alone. The
 * norm counts as exchange, though a forecast counts it as computing: it is a hundredth of it or less.
 *
 * Also memory: what a rank planned, and what the system says it took (RssAnon) of that rank which took
 * the most. Started alone, it has no exchange. */
#include "args.h"
#include "bench.h"

#include "dist/load.h"
#include "train/forecast.h"
#include "train/init_model.h"
#include "train/learner.h"
#include "train/pace.h"
#include "train/trainer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define LINE_TRIALS 9

static int64_t n_layer = 4, width = 512, n_vocab = 1024, n_sequence = 4, n_token = 128, n_step = 5,
               n_thread = 1;
static double within;
static bool fast, json;

static const arg args[] = {
    { "layers", ARG_INT, &n_layer, "N", "layers (4)", 1, 128 },
    { "width", ARG_INT, &width, "N", "width, a multiple of 64 (512)", 64, 1 << 14 },
    { "vocab", ARG_INT, &n_vocab, "N", "tokens of the vocabulary (1024)", 2, 1 << 20 },
    { "sequences", ARG_INT, &n_sequence, "N", "of a rank's batch (4)", 1, 4096 },
    { "tokens", ARG_INT, &n_token, "N", "of a sequence (128)", 1, 1 << 16 },
    { "threads", ARG_INT, &n_thread, "N", "threads of a rank (1)", 1, 1024 },
    { "steps", ARG_INT, &n_step, "N", "measured steps; medians are printed (5)", 1, 64 },
    { "fast", ARG_FLAG, &fast, NULL, "sums in MPI's order, which has no forecast", 0, 0 },
    { "within", ARG_REAL, &within, "X", "fail if the exchange is further from its forecast: 0.2", 0,
      0 },
    { "json", ARG_FLAG, &json, NULL, "one JSON object a line", 0, 0 },
    { 0 },
};

static const program self = {
    "ranks",
    NULL,
    "Measures the network between the ranks of a job of MPI, then steps of training: the time of\n"
    "their exchange beside its forecast, and memory beside its plan.\n",
    args,
    0,
    NULL
};

typedef struct job {
    ranks ranks;
    learner learner;
    batch batch;
    sample_sums *sums; /* [rank] */
    double *ready;     /* [rank][bucket], then the largest of all in the first */
    double began;
} job;

/* ---- the line -------------------------------------------------------------------------------- */

static void meet(ranks *r)
{
    char here[MAX_RANK] = { 0 };
    weft_error err = { 0 };
    bench_check(ranks_share(r, here, 1, &err), &err);
}

/* The median time in which every rank sends N bytes to each other one. */
static double all_to_all(ranks *r, size_t n)
{
    samples t = { 0 };
    weft_error err = { 0 };
    const size_t room = (size_t)n_rank(r) * n;
    char *all = bench_must(calloc(room, 1), NULL);
    for (int i = 0; i < LINE_TRIALS; i++) {
        meet(r);
        const double began = bench_now();
        bench_check(ranks_share(r, all, n, &err), &err);
        samples_add(&t, bench_now() - began);
    }
    free(all);
    return samples_median(&t);
}

/* The largest of what the ranks have measured. */
static double slowest(ranks *r, double seconds)
{
    double all[MAX_RANK], most = 0;
    weft_error err = { 0 };
    all[rank_of(r)] = seconds;
    bench_check(ranks_share(r, all, sizeof *all, &err), &err);
    for (int q = 0; q < n_rank(r); q++)
        most = fmax(most, all[q]);
    return most;
}

static void measure_line(ranks *r, const reduce_options *o, int64_t n, forecast_pace *to)
{
    const double others = n_rank(r) - 1;
    const bucket_traffic t = reduce_traffic(o, n, 0);
    const size_t slice = (size_t)slowest(r, (double)t.own) * sizeof(real);
    const double empty = slowest(r, all_to_all(r, 1));
    const double full = slowest(r, all_to_all(r, slice));
    to->latency = empty / others;
    to->bandwidth = others * (double)slice / (full - empty);
}

/* ---- the model ------------------------------------------------------------------------------- */

static void design(model *m, host *h)
{
    weft_error err = { 0 };
    init_model_shape s;
    buffer config;
    const init_model_shape wish = { .arch = "gpt2",
                                    .n_layer = n_layer,
                                    .d_model = width,
                                    .n_head = width / 64,
                                    .n_ctx = n_token,
                                    .n_vocab = n_vocab };
    bench_check(init_model_resolve(NULL, &wish, &s, &err), &err);
    s.eos_id = -1;
    buffer_begin(&config, &h->mem, &err);
    init_model_config(&config, &s);
    bench_check(model_design(m, (const char *)config.at, config.n, h, &err), &err);
    buffer_end(&config);
}

/* Anonymous memory in use, in bytes, by what the system says; 0: it does not say. */
static double memory_taken(void)
{
    char line[256];
    double kib = 0;
    FILE *f = fopen("/proc/self/status", "r");
    while (f && kib == 0 && fgets(line, sizeof line, f))
        if (sscanf(line, "RssAnon: %lf", &kib) != 1)
            kib = 0;
    if (f)
        fclose(f);
    return 1024 * kib;
}

/* ---- a step ---------------------------------------------------------------------------------- */

/* In place of reduce_ready: notes when a bucket's last gradient came. */
static void note_ready(void *job_of, tensor *t)
{
    job *j = job_of;
    reduce *r = &j->learner.reduce;
    const double now = bench_now() - j->began;
    reduce_ready(r, t);
    double *own = j->ready + rank_of(&j->ranks) * r->n_bucket;
    for (int64_t b = 0; b < r->n_bucket; b++)
        if (r->missing[b] == 0 && isnan(own[b]))
            own[b] = now;
}

typedef struct timing {
    double end, update, hidden, exposed, seconds;
} timing;

/* As trainer_step has it. */
static timing step(job *j)
{
    weft_error err = { 0 };
    timing t;
    learner *l = &j->learner;
    const int64_t n_bucket = l->reduce.n_bucket;
    const double hidden = l->reduce.hidden;
    bool goes_on = true;
    for (int64_t i = 0; i < n_rank(&j->ranks) * n_bucket; i++)
        j->ready[i] = NAN;
    meet(&j->ranks);
    j->began = bench_now();
    bench_check(learner_begin(l, &err), &err);
    learner_last(l);
    learner_backward(l, &j->batch);
    learner_group_end(l);
    t.end = bench_now() - j->began;
    bench_check(learner_reduce(l, &err), &err);
    bench_check(ranks_share(&j->ranks, j->sums, sizeof *j->sums, &err), &err);
    const double before = bench_now();
    learner_update(l, 1e-6);
    t.update = bench_now() - before;
    bench_check(learner_share(l, &err), &err);
    bench_check(ranks_tell(&j->ranks, &goes_on, sizeof goes_on, false, &err), &err);
    t.seconds = bench_now() - j->began;
    t.hidden = l->reduce.hidden - hidden;
    t.exposed = t.seconds - t.end - t.update;
    return t;
}

/* A bucket is complete when it is on all ranks. */
static void share_ready(job *j)
{
    const int64_t n = j->learner.reduce.n_bucket;
    weft_error err = { 0 };
    bench_check(ranks_share(&j->ranks, j->ready, (size_t)n * sizeof *j->ready, &err), &err);
    for (int q = 1; q < n_rank(&j->ranks); q++)
        for (int64_t b = 0; b < n; b++)
            j->ready[b] = fmax(j->ready[b], j->ready[q * n + b]);
}

static forecast replay(job *j, const timing *t, forecast_pace speed)
{
    const params *p = &j->learner.params;
    const forecast_run r = { .reduce = &j->learner.opt.reduce,
                             .n = p->n,
                             .n_part = 1,
                             .n_group = 1,
                             .ready = j->ready,
                             .end = t->end };
    speed.part = t->end;
    speed.update = t->update / (double)p->n_moment;
    return forecast_step(&r, &speed);
}

/* ---- report ---------------------------------------------------------------------------------- */

typedef struct result {
    samples end, update, hidden, exposed, said_hidden, said_exposed, ratio;
    forecast_pace line;
    double planned, taken;
    uint64_t sent;
} result;

static double exchange(const timing *t)
{
    return t->hidden + t->exposed;
}

static void measure_step(job *j, result *to)
{
    const timing t = step(j);
    share_ready(j);
    samples_add(&to->end, t.end);
    samples_add(&to->update, t.update);
    samples_add(&to->hidden, t.hidden);
    samples_add(&to->exposed, t.exposed);
    if (n_rank(&j->ranks) == 1 || fast)
        return;
    const forecast f = replay(j, &t, to->line);
    samples_add(&to->said_hidden, f.hidden);
    samples_add(&to->said_exposed, f.exposed);
    samples_add(&to->ratio, exchange(&t) / (f.hidden + f.exposed));
    to->sent = f.sent;
}

static void report_memory(const result *r)
{
    printf(json ? "{\"planned_bytes\":%.0f,\"taken_bytes\":%.0f}\n"
                : "memory of a rank   planned %.0f MiB, taken %.0f MiB\n",
           json ? r->planned : r->planned / (1 << 20), json ? r->taken : r->taken / (1 << 20));
}

static void report_line(const result *r)
{
    printf(json ? "{\"bytes_per_second\":%.4g,\"latency_seconds\":%.3g}\n"
                : "line               %.1f MB/s out of each rank, latency %.0f us\n",
           json ? r->line.bandwidth : r->line.bandwidth / 1e6,
           json ? r->line.latency : r->line.latency * 1e6);
}

static void report_exchange(result *r)
{
    const double hidden = samples_median(&r->hidden), exposed = samples_median(&r->exposed);
    printf(json ? "{\"hidden\":%.4g,\"exposed\":%.4g,\"exchange\":%.4g}\n"
                : "exchange           hidden   exposed   both, s\n"
                  "  measured       %8.3f  %8.3f  %8.3f\n",
           hidden, exposed, hidden + exposed);
}

static void report_forecast(result *r)
{
    const double hidden = samples_median(&r->said_hidden),
                 exposed = samples_median(&r->said_exposed), ratio = samples_median(&r->ratio);
    printf(json ? "{\"forecast_hidden\":%.4g,\"forecast_exposed\":%.4g,\"forecast\":%.4g,"
                  "\"bytes_sent\":%.0f,\"measured_of_forecast\":%.3f}\n"
                : "  forecast       %8.3f  %8.3f  %8.3f   %.1f MB sent by rank 0\n"
                  "  measured / forecast, the median of the steps: %.3f\n",
           hidden, exposed, hidden + exposed, json ? (double)r->sent : (double)r->sent / 1e6,
           ratio);
}

static void report(result *r, const job *j)
{
    const int R = n_rank(&j->ranks);
    const double end = samples_median(&r->end), update = samples_median(&r->update);
    if (json)
        printf("{\"ranks\":%d,\"parameters\":%lld,\"buckets\":%lld,\"backward_seconds\":%.4g,"
               "\"update_seconds\":%.4g}\n",
               R, (long long)j->learner.params.n, (long long)j->learner.reduce.n_bucket, end,
               update);
    else
        printf("%d rank%s, %.1f M parameters in %lld buckets; a step computes for %.3f s and "
               "updates for %.3f s\n",
               R, R == 1 ? "" : "s", (double)j->learner.params.n / 1e6,
               (long long)j->learner.reduce.n_bucket, end, update);
    report_memory(r);
    if (R > 1) {
        report_line(r);
        report_exchange(r);
        if (!fast)
            report_forecast(r);
    }
}

static int judge(result *r)
{
    const double ratio = samples_median(&r->ratio);
    if (within <= 0 || r->ratio.n == 0 || fabs(ratio - 1) <= within)
        return 0;
    fprintf(stderr, "ranks: the exchange takes %.3f of its forecast; expected within %.2f of 1\n",
            ratio, within);
    return 1;
}

/* ---- the run --------------------------------------------------------------------------------- */

static void begin(job *j, model *m, host *h, result *to)
{
    weft_error err = { 0 };
    model same;
    uint64_t bytes;
    const learner_options o = {
        .n_thread = (int)n_thread,
        .n_group = 1,
        .adamw = { .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .decay = 0.1, .clip = 1 },
        .reduce = { .ranks = &j->ranks, .fast = fast },
    };
    j->batch = bench_train_batch(n_sequence, n_token, n_vocab, rank_of(&j->ranks));
    design(&same, h);
    bench_check(learner_size(&same, &o, &j->batch, &bytes, &err), &err);
    to->planned = slowest(&j->ranks, (double)bytes);
    model_close(&same);
    design(m, h);
    to->taken = memory_taken();
    bench_check(learner_init(&j->learner, m, &o, &j->batch, &err), &err);
    pace_make_up(&j->learner.params);
    const size_t R = (size_t)n_rank(&j->ranks), n = (size_t)j->learner.reduce.n_bucket;
    j->ready = bench_must(calloc(R * n + 1, sizeof *j->ready), NULL);
    j->sums = bench_must(calloc(R, sizeof *j->sums), NULL);
    if (R > 1) {
        j->learner.tape.ready = note_ready;
        j->learner.tape.ud = j;
    }
}

int main(int argc, char **argv)
{
    static model m;
    static job j;
    static result r;
    weft_error err = { 0 };
    const int code = args_parse(&self, argc, argv);
    if (code >= 0)
        return code;
    if (width % 64 != 0)
        return args_usage(&self, "--width is %lld, expected a multiple of 64", (long long)width);
    if (fast && within > 0)
        return args_usage(&self, "--within: sums in MPI's order have no forecast; leave out one");
    host h = { .io = io_system };
    mem_init(&h.mem, 0, NULL);
    bench_check(comm_load(&j.ranks.comm, NULL, &err), &err);
    begin(&j, &m, &h, &r);
    step(&j); /* touches the memory, and opens connections; not counted */
    if (n_rank(&j.ranks) > 1)
        measure_line(&j.ranks, &j.learner.opt.reduce, j.learner.params.n, &r.line);
    for (int64_t i = 0; i < n_step; i++)
        measure_step(&j, &r);
    r.taken = slowest(&j.ranks, memory_taken() - r.taken);
    int end = 0;
    if (rank_of(&j.ranks) == 0) {
        report(&r, &j);
        end = judge(&r);
    }
    learner_free(&j.learner);
    model_close(&m);
    bench_batch_free(&j.batch);
    free(j.ready);
    free(j.sums);
    if (j.ranks.comm)
        j.ranks.comm->close(j.ranks.comm);
    return end;
}
