#include "bench.h"

#include "base/cpu.h"
#include "base/rng.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- samples --------------------------------------------------------------------------------- */

void samples_add(samples *s, double x)
{
    if (s->n < 64)
        s->value[s->n++] = x;
}

static int order(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double samples_median(samples *s)
{
    if (s->n == 0)
        return 0;
    qsort(s->value, (size_t)s->n, sizeof *s->value, order);
    return s->value[s->n / 2];
}

double demand_seconds(const demand *d, const limits *at)
{
    return d->bytes / at->read + d->flops / at->flops + d->int8 / at->int8 + d->bf16 / at->bf16;
}

static limits measure_limits(pool *threads)
{
    return (limits){ limit_read(threads), limit_flops(threads), limit_int8(threads),
                     limit_bf16(threads) };
}

static bool near(double a, double b)
{
    return a < 1.15 * b && b < 1.15 * a;
}

static limits mean(const limits *a, const limits *b)
{
    return (limits){ (a->read + b->read) / 2, (a->flops + b->flops) / 2, (a->int8 + b->int8) / 2,
                     (a->bf16 + b->bf16) / 2 };
}

void bench_time(timings *t, pool *threads, work_fn *work, void *ud, int n)
{
    timings all = { 0 };
    *t = (timings){ 0 };
    limits before = measure_limits(threads);
    const int max = 3 * n < MAX_TIMING ? 3 * n : MAX_TIMING;
    while (all.n < max && t->n < n) {
        const double seconds = work(ud);
        const limits after = measure_limits(threads), at = mean(&before, &after);
        all.seconds[all.n] = seconds;
        all.limit[all.n++] = at;
        if (near(before.read, after.read) && near(before.flops, after.flops)) {
            t->seconds[t->n] = seconds;
            t->limit[t->n++] = at;
        }
        before = after;
    }
    const int steady = t->n;
    if (steady == 0)
        *t = all;
    t->steady = steady;
    t->thrown = all.n - steady;
}

static double median(const double *x, int n)
{
    samples s = { .n = n };
    memcpy(s.value, x, (size_t)n * sizeof *x);
    return samples_median(&s);
}

double timings_seconds(const timings *t)
{
    return median(t->seconds, t->n);
}

double timings_spread(const timings *t)
{
    double min = t->seconds[0], max = t->seconds[0];
    for (int i = 1; i < t->n; i++) {
        min = t->seconds[i] < min ? t->seconds[i] : min;
        max = t->seconds[i] > max ? t->seconds[i] : max;
    }
    return (max - min) / timings_seconds(t);
}

double timings_share(const timings *t, const demand *d)
{
    double share[MAX_TIMING];
    for (int i = 0; i < t->n; i++)
        share[i] = demand_seconds(d, &t->limit[i]) / t->seconds[i];
    return median(share, t->n);
}

limits timings_limits(const timings *t)
{
    double read[MAX_TIMING], flops[MAX_TIMING], int8[MAX_TIMING], bf16[MAX_TIMING];
    for (int i = 0; i < t->n; i++) {
        read[i] = t->limit[i].read;
        flops[i] = t->limit[i].flops;
        int8[i] = t->limit[i].int8;
        bf16[i] = t->limit[i].bf16;
    }
    return (limits){ median(read, t->n), median(flops, t->n), median(int8, t->n),
                     median(bf16, t->n) };
}

/* ---- the start of a bench -------------------------------------------------------------------- */

void *bench_must(void *p, const weft_error *err)
{
    if (!p) {
        fprintf(stderr, "bench: %s\n", err && err->message[0] ? err->message : "out of memory");
        exit(1);
    }
    return p;
}

void bench_check(weft_status status, const weft_error *err)
{
    if (status == WEFT_OK)
        return;
    fprintf(stderr, "bench: %s\n", err->message);
    exit(status == WEFT_EINVAL ? 2 : 1);
}

pool *bench_pool(int64_t n_thread, mem *m)
{
    weft_error err = { 0 };
    return bench_must(pool_new(n_thread > 0 ? (int)n_thread : cpu_count(), m, &err), &err);
}

tensor *bench_tensor(const char *name, int64_t n_row, int64_t n_col)
{
    tensor *t = bench_must(calloc(1, sizeof *t), NULL);
    *t = (tensor){ .type = &dtype_real, .n_dim = 2, .shape = { n_row, n_col }, .stride = n_col };
    snprintf(t->name, sizeof t->name, "%s", name);
    const size_t n = (size_t)(n_row * n_col), bytes = (n * sizeof(real) + 63) & ~(size_t)63;
    t->data = bench_must(aligned_alloc(64, bytes), NULL);
    real *x = t->data;
    for (size_t i = 0; i < n;
         i++) /* a thousand different ones, repeated: faster than drawing all */
        x[i] = i < 1021 ? (real)rng_normal(5, strlen(name), i) : x[i - 1021];
    return t;
}

void bench_tensor_free(tensor *t)
{
    free(t->data);
    free(t->grad);
    free(t);
}

batch bench_batch(int64_t n_row, int64_t start, cache *of)
{
    batch b = { .n_row = (int32_t)n_row, .n_seq = 1 };
    b.row = bench_must(calloc((size_t)n_row, sizeof *b.row), NULL);
    b.seq = bench_must(calloc(1, sizeof *b.seq), NULL);
    for (int64_t i = 0; i < n_row; i++)
        b.row[i] = (batch_row){ .pos = (int32_t)(start + i), .target = NO_TARGET };
    b.seq[0] = (sequence){ .n = (int32_t)n_row, .source = -1, .cache = of };
    return b;
}

batch bench_train_batch(int64_t n_sequence, int64_t n_token, int64_t n_vocab, int seed)
{
    const int64_t n = n_sequence * n_token;
    batch b = { .n_row = (int32_t)n, .n_seq = (int32_t)n_sequence, .n_wanted = (int32_t)n };
    b.row = bench_must(calloc((size_t)n, sizeof *b.row), NULL);
    b.seq = bench_must(calloc((size_t)n_sequence, sizeof *b.seq), NULL);
    for (int64_t i = 0; i < n; i++) {
        const rng_block r = rng_draw(3, (uint64_t)seed, (uint64_t)i);
        b.row[i] = (batch_row){ .id = (int32_t)(r.word[0] % (uint32_t)n_vocab),
                                .seq = (int32_t)(i / n_token),
                                .pos = (int32_t)(i % n_token),
                                .target = (int32_t)(r.word[1] % (uint32_t)n_vocab),
                                .weight = 1,
                                .wanted = true };
    }
    for (int64_t s = 0; s < n_sequence; s++)
        b.seq[s] = (sequence){ .first = (int32_t)(s * n_token),
                               .n = (int32_t)n_token,
                               .source = -1 };
    return b;
}

void bench_batch_free(batch *b)
{
    free(b->row);
    free(b->seq);
}

void bench_print_machine(pool *threads, const char *table, bool json)
{
    const limits at = measure_limits(threads);
    const int n = pool_threads(threads);
    if (json)
        printf("{\"threads\":%d,\"kernels\":\"%s\",\"read_bytes_per_second\":%.4g,"
               "\"f32_flops_per_second\":%.4g,\"int8_ops_per_second\":%.4g}\n",
               n, table, at.read, at.flops, at.int8);
    else
        printf("%d threads, %s; memory %.1f GB/s, f32 %.0f GFLOP/s, int8 %.0f GOP/s\n", n, table,
               at.read / 1e9, at.flops / 1e9, at.int8 / 1e9);
    fflush(stdout);
}

static int by_time(const void *a, const void *b)
{
    const op_profile *x = a, *y = b;
    return (x->seconds < y->seconds) - (x->seconds > y->seconds);
}

void bench_print_profile(const profile *p, const char *work, double seconds, bool json)
{
    profile sorted = *p;
    double rest = seconds;
    qsort(sorted.entry, (size_t)sorted.n, sizeof *sorted.entry, by_time);
    for (int i = 0; i < sorted.n; i++) {
        const op_profile *e = &sorted.entry[i];
        char name[64];
        snprintf(name, sizeof name, "%s%s", e->op->name, e->backward ? " backward" : "");
        rest -= e->seconds;
        if (json)
            printf("{\"work\":\"%s\",\"op\":\"%s\",\"calls\":%lld,\"seconds\":%.4g,"
                   "\"part\":%.4f,\"flops_per_second\":%.4g,\"bytes_per_second\":%.4g}\n",
                   work, name, (long long)e->calls, e->seconds, e->seconds / seconds,
                   e->flops / e->seconds, e->bytes / e->seconds);
        else
            printf("  %-30s %6lld calls %10.2f ms %5.1f %%  %8.2f GFLOP/s %8.2f GB/s\n", name,
                   (long long)e->calls, 1e3 * e->seconds, 100 * e->seconds / seconds,
                   e->flops / e->seconds / 1e9, e->bytes / e->seconds / 1e9);
    }
    if (json)
        printf("{\"work\":\"%s\",\"op\":\"\",\"seconds\":%.4g,\"part\":%.4f}\n", work, rest,
               rest / seconds);
    else
        printf("  %-30s %12s %10.2f ms %5.1f %%\n", "outside of ops", "", 1e3 * rest,
               100 * rest / seconds);
    fflush(stdout);
}
