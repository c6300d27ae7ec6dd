/* ops - what an op costs beside its arithmetic, and how near the streaming ops come to memory.
 *
 *     build/bench/ops [--rows 4096] [--width 4096] [--threads N] [--json]
 *
 * Overhead: nanoseconds of one op through apply() at eight numbers; its name, its header and its
 * node included. Speed: bytes a second by the op's own count of them, once with tensors much larger
 * than the caches and once with small ones, as ratio to the best loop there is, a copy of the same
 * rows by the same threads, which is timed after every sample of the op. */
#include "args.h"
#include "bench.h"

#include "base/rng.h"
#include "ops/ops.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int64_t n_thread, n_row = 4096, n_col = 4096, n_repeat = 7;
static bool json;

static const arg args[] = {
    { "rows", ARG_INT, &n_row, "N", "of the large tensors (4096)", 1, 1 << 20 },
    { "width", ARG_INT, &n_col, "N", "of the large tensors, a multiple of 64 (4096)", 64, 1 << 20 },
    { "threads", ARG_INT, &n_thread, "N", "threads (all processors)", 1, 1024 },
    { "repeat", ARG_INT, &n_repeat, "N", "steady samples of each (7)", 1, 20 },
    { "smoke", ARG_FLAG, &bench_smoke, NULL, "see only that it runs: rough limits", 0, 0 },
    { "json", ARG_FLAG, &json, NULL, "one JSON object a line", 0, 0 },
    { 0 },
};

static const program self = {
    "ops",
    NULL,
    "Measures the overhead of an op through apply(), and the ops that stream (activations,\n"
    "norms, rope, softmax) as shares of memory bandwidth and of a plain copy.\n",
    args,
    0,
    NULL
};

/* ---- the ops --------------------------------------------------------------------------------- */

typedef struct job {
    run run;
    batch batch;
    tensor *x, *h, *gain; /* gain: of norms [width] */
    weight norm;
    const rope_table *rope;
    int times; /* ops a sample */
    void (*call)(struct job *j);
    samples ratio; /* to a copy */
} job;

static void call_relu(job *j)
{
    act(&j->run, j->x, ACT_RELU);
}

static void call_silu(job *j)
{
    act(&j->run, j->x, ACT_SILU);
}

static void call_gelu_tanh(job *j)
{
    act(&j->run, j->x, ACT_GELU_TANH);
}

static void call_residual(job *j)
{
    tensor *x = j->x;
    residual(&j->run, &x, j->h);
}

static void call_rmsnorm(job *j)
{
    rmsnorm(&j->run, j->x, j->gain, (real)1e-5);
}

static void call_layernorm(job *j)
{
    layernorm(&j->run, j->x, &j->norm, (real)1e-5);
}

static void call_rope(job *j)
{
    rope(&j->run, j->x, j->rope);
}

static void call_softmax(job *j)
{
    softmax(&j->run, j->x);
}

static const struct {
    const char *name;
    void (*call)(job *j);
} cases[] = {
    { "relu", call_relu },         { "silu", call_silu },       { "gelu_tanh", call_gelu_tanh },
    { "residual", call_residual }, { "rmsnorm", call_rmsnorm }, { "layernorm", call_layernorm },
    { "rope", call_rope },         { "softmax", call_softmax },
};
#define N_CASE (sizeof cases / sizeof *cases)

/* ---- overhead -------------------------------------------------------------------------------- */

#define CALLS 1000

static double overhead(job *j)
{
    samples s = { 0 };
    for (int k = 0; k < (bench_smoke ? 3 : 63); k++) {
        run_begin(&j->run, &j->batch);
        const double start = bench_now();
        for (int i = 0; i < CALLS; i++)
            j->call(j);
        samples_add(&s, (bench_now() - start) / CALLS);
    }
    return samples_median(&s);
}

/* Eight values, so the arithmetic is negligible; rope needs whole heads. */
static void report_overhead(job *j)
{
    for (size_t c = 0; c < N_CASE; c++) {
        if (!j->rope && cases[c].call == call_rope)
            continue;
        j->call = cases[c].call;
        const double seconds = overhead(j);
        if (json)
            printf("{\"work\":\"overhead\",\"op\":\"%s\",\"ns\":%.1f}\n", cases[c].name,
                   1e9 * seconds);
        else
            printf("overhead  %-10s %7.0f ns\n", cases[c].name, 1e9 * seconds);
    }
}

/* ---- speed ----------------------------------------------------------------------------------- */

static void copy_rows(const run *r, const void *ctx, int64_t i0, int64_t i1)
{
    (void)r;
    const node *n = ctx;
    memcpy(row(n->out, i0), row(n->in[0], i0), (size_t)((i1 - i0) * n->out->stride) * sizeof(real));
}

static double time_copy(job *j)
{
    run_begin(&j->run, &j->batch);
    const node n = { .in = { j->x }, .out = tensor_new(&j->run, rows(j->x), cols(j->x)) };
    const double start = bench_now();
    for (int i = 0; i < j->times; i++)
        parallel(&j->run, rows(j->x), cols(j->x), copy_rows, &n);
    return bench_now() - start;
}

static double time_op(job *j)
{
    const double start = bench_now();
    for (int i = 0; i < j->times; i++) {
        run_begin(&j->run, &j->batch);
        j->call(j);
    }
    return bench_now() - start;
}

static double sample(void *ud)
{
    job *j = ud;
    const double seconds = time_op(j);
    samples_add(&j->ratio, time_copy(j) / seconds);
    return seconds;
}

/* Bytes of one call by the op's own count; an in-place residual counts the stream twice. */
static double bytes_of(job *j)
{
    profile p = { 0 };
    j->run.profile = &p;
    run_begin(&j->run, &j->batch);
    j->call(j);
    j->run.profile = NULL;
    return p.entry[0].bytes;
}

static void report_speed(job *j, const char *size)
{
    const double numbers = (double)(rows(j->x) * cols(j->x));
    j->times = 1 + (int)((bench_smoke ? 1 : 1 << 22) / numbers);
    for (size_t c = 0; c < N_CASE; c++) {
        timings t;
        j->call = cases[c].call;
        j->ratio = (samples){ 0 };
        const double bytes = bytes_of(j);
        bench_time(&t, j->run.pool, sample, j, (int)n_repeat);
        const demand d = { .bytes = bytes * j->times };
        const double ratio = samples_median(&j->ratio) * bytes / (2 * sizeof(real) * numbers);
        const double speed = d.bytes / timings_seconds(&t), share = timings_share(&t, &d);
        if (json)
            printf("{\"work\":\"%s\",\"op\":\"%s\",\"rows\":%lld,\"width\":%lld,"
                   "\"bytes_per_second\":%.4g,\"share_of_memory\":%.3f,\"ratio_to_copy\":%.3f}\n",
                   size, cases[c].name, (long long)rows(j->x), (long long)cols(j->x), speed, share,
                   ratio);
        else
            printf("%-8s  %-10s %5lld x %-5lld %8.2f GB/s  %6.1f %% of memory reads  %6.1f %% of a "
                   "copy\n",
                   size, cases[c].name, (long long)rows(j->x), (long long)cols(j->x), speed / 1e9,
                   100 * share, 100 * ratio);
        fflush(stdout);
    }
}

/* ---- sizes ----------------------------------------------------------------------------------- */

static void with_size(job *j, mem *m, int64_t r, int64_t c, const char *size)
{
    weft_error err = { 0 };
    arena store;
    const rope_spec spec = { .pairing = ROPE_HALVES, .n_rot = 64, .d_head = 64, .theta = 10000 };
    j->x = bench_tensor("x", r, c);
    j->h = bench_tensor("h", r, c);
    j->gain = bench_tensor("norm.weight", 1, c);
    tensor *shift = bench_tensor("norm.bias", 1, c);
    j->gain->n_dim = shift->n_dim = 1;
    j->gain->shape[0] = shift->shape[0] = c;
    j->norm = (weight){ "norm", j->gain, shift };
    j->batch = bench_batch(r, 0, NULL);
    bench_check(arena_init(&store, ARENA_GROWING, m, 0, "rope", &err), &err);
    j->rope = c % 64 == 0 ? bench_must((void *)rope_new(&spec, r, &store, &err), &err) : NULL;
    if (size)
        report_speed(j, size);
    else
        report_overhead(j);
    arena_free(&store);
    bench_batch_free(&j->batch);
    bench_tensor_free(j->x);
    bench_tensor_free(j->h);
    bench_tensor_free(j->gain);
    bench_tensor_free(shift);
}

int main(int argc, char **argv)
{
    const int code = args_parse(&self, argc, argv);
    if (code >= 0)
        return code;
    if (n_col % 64 != 0)
        return args_usage(&self, "--width is %lld, expected a multiple of 64", (long long)n_col);
    weft_error err = { 0 };
    mem m;
    mem_init(&m, 0, NULL);
    static job j;
    pool *threads = bench_pool(n_thread, &m);
    const size_t data = (size_t)(n_row * n_col) * sizeof(real) + ((size_t)4 << 20);
    bench_check(run_init(&j.run, &m, CALLS * (sizeof(tensor) + 256), data, 1 << 20, &err), &err);
    j.run.pool = threads;
    j.run.kern = kernels_select(&(log_sink){ 0 });
    bench_print_machine(threads, j.run.kern->name, json);
    with_size(&j, &m, 1, 8, NULL);
    with_size(&j, &m, bench_smoke ? 2 : 128, 1024, "cache");
    with_size(&j, &m, n_row, n_col, "memory");
    run_free(&j.run);
    pool_free(threads);
    return 0;
}
