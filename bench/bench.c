#include "bench.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

double bench_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- limits ---------------------------------------------------------------------------------- */

#define READ_BYTES ((size_t)128 << 20) /* a thread; more than caches hold */
#define STREAMS    4                   /* one is not enough to keep memory busy */

typedef struct reading {
    uint64_t *at;
    volatile uint64_t sink[64];
} reading;

static void read_plain(void *arg, int64_t part)
{
    reading *r = arg;
    const size_t stream = READ_BYTES / STREAMS / sizeof *r->at;
    const uint64_t *x = r->at + (size_t)part * STREAMS * stream;
    uint64_t sum[STREAMS][8] = { 0 };
    for (size_t k = 0; k < stream; k += 8)
        for (size_t s = 0; s < STREAMS; s++)
            for (size_t i = 0; i < 8; i++)
                sum[s][i] |= x[s * stream + k + i];
    for (int s = 0; s < STREAMS; s++)
        for (int i = 0; i < 8; i++)
            r->sink[part % 64] = sum[s][i];
}

#if defined(__x86_64__)
#include <immintrin.h>

/* A whole line at a time. */
__attribute__((target("avx512f"))) static void read_512(void *arg, int64_t part)
{
    reading *r = arg;
    const size_t stream = READ_BYTES / STREAMS / sizeof *r->at;
    const uint64_t *x = r->at + (size_t)part * STREAMS * stream;
    __m512i sum = _mm512_setzero_si512();
    for (size_t k = 0; k < stream; k += 8)
        for (size_t s = 0; s < STREAMS; s++)
            sum = _mm512_or_si512(sum, _mm512_loadu_si512(x + s * stream + k));
    r->sink[part % 64] = (uint64_t)_mm512_reduce_add_epi64(sum);
}
#endif

double limit_read(pool *threads)
{
    static reading r;
    const int n = pool_threads(threads);
    pool_fn *work = read_plain;
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f"))
        work = read_512;
#endif
    if (!r.at) {
        r.at = aligned_alloc(64, READ_BYTES * (size_t)n);
        if (!r.at)
            abort();
        memset(r.at, 1, READ_BYTES * (size_t)n);
    }
    const double start = bench_now();
    pool_run(threads, n, work, &r);
    return (double)READ_BYTES * n / (bench_now() - start);
}

#define FMA_ROUNDS 400000

#if defined(__x86_64__)
__attribute__((target("avx512f"))) static void fma_512(void *arg, int64_t part)
{
    __m512 sum[12], a = _mm512_set1_ps(0.999f), b = _mm512_set1_ps(0.001f);
    for (int i = 0; i < 12; i++)
        sum[i] = _mm512_set1_ps((float)i);
    for (int k = 0; k < FMA_ROUNDS; k++)
        for (int i = 0; i < 12; i++)
            sum[i] = _mm512_fmadd_ps(sum[i], a, b);
    for (int i = 0; i < 12; i++)
        ((volatile float *)arg)[part % 64] = _mm512_reduce_add_ps(sum[i]);
}

__attribute__((target("avx2,fma"))) static void fma_256(void *arg, int64_t part)
{
    __m256 sum[12], a = _mm256_set1_ps(0.999f), b = _mm256_set1_ps(0.001f);
    for (int i = 0; i < 12; i++)
        sum[i] = _mm256_set1_ps((float)i);
    for (int k = 0; k < FMA_ROUNDS; k++)
        for (int i = 0; i < 12; i++)
            sum[i] = _mm256_fmadd_ps(sum[i], a, b);
    for (int i = 0; i < 12; i++)
        ((volatile float *)arg)[part % 64] = _mm256_cvtss_f32(sum[i]);
}
#endif

static void fma_plain(void *arg, int64_t part)
{
    float sum[16];
    for (int i = 0; i < 16; i++)
        sum[i] = (float)i;
    for (int k = 0; k < FMA_ROUNDS; k++)
        for (int i = 0; i < 16; i++)
            sum[i] = sum[i] * 0.999f + 0.001f;
    for (int i = 0; i < 16; i++)
        ((volatile float *)arg)[part % 64] = sum[i];
}

double limit_flops(pool *threads)
{
    static float sink[64];
    pool_fn *work = fma_plain;
    double each = 2.0 * 16 * FMA_ROUNDS;
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f")) {
        work = fma_512;
        each = 2.0 * 12 * 16 * FMA_ROUNDS;
    } else if (__builtin_cpu_supports("avx2")) {
        work = fma_256;
        each = 2.0 * 12 * 8 * FMA_ROUNDS;
    }
#endif
    const int n = pool_threads(threads);
    const double start = bench_now();
    pool_run(threads, n, work, sink);
    return each * n / (bench_now() - start);
}

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

double bench_share(pool *threads, limit_fn *limit, work_fn *work, void *ud, int n, double *median)
{
    samples share = { 0 }, speed = { 0 };
    double before = limit(threads);
    for (int tries = 0; share.n < n && tries < 8 * n; tries++) {
        const double did = work(ud), after = limit(threads);
        const bool steady = before < 1.15 * after && after < 1.15 * before;
        if (steady) {
            samples_add(&share, did / ((before + after) / 2));
            samples_add(&speed, did);
        }
        before = after;
    }
    *median = samples_median(&speed);
    return samples_median(&share);
}
