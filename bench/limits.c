/* limits.c - what the machine can do at best: memory read in several streams, and multiply-adds
 * that never leave the registers. */
#include "bench.h"

#include "base/cpu.h"
#include "kernels/tile.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define READ_BYTES                                                                                 \
    ((size_t)(bench_smoke ? 4 : 128) << 20) /* per thread; more than the caches hold */
#define STREAMS 4                           /* one is not enough to keep memory busy */

bool bench_smoke;

double bench_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

double bench_cpu(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

typedef struct reading {
    uint64_t *at;
    volatile uint64_t sink[64];
} reading;

static void read_plain(void *arg, int64_t part)
{
    reading *r = arg;
    const size_t part_of = READ_BYTES / STREAMS / sizeof *r->at;
    const uint64_t *x = r->at + (size_t)part * STREAMS * part_of;
    uint64_t sum[STREAMS][8] = { 0 };
    for (size_t k = 0; k < part_of; k += 8)
        for (size_t s = 0; s < STREAMS; s++)
            for (size_t i = 0; i < 8; i++)
                sum[s][i] |= x[s * part_of + k + i];
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
    const size_t part_of = READ_BYTES / STREAMS / sizeof *r->at;
    const uint64_t *x = r->at + (size_t)part * STREAMS * part_of;
    __m512i sum = _mm512_setzero_si512();
    for (size_t k = 0; k < part_of; k += 8)
        for (size_t s = 0; s < STREAMS; s++)
            sum = _mm512_or_si512(sum, _mm512_loadu_si512(x + s * part_of + k));
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

static void copy_part(void *arg, int64_t part)
{
    uint8_t *at = (uint8_t *)arg + (size_t)part * READ_BYTES;
    memcpy(at, at + READ_BYTES / 2, READ_BYTES / 2);
}

double limit_copy(pool *threads)
{
    static uint8_t *room;
    const int n = pool_threads(threads);
    if (!room) {
        room = aligned_alloc(64, READ_BYTES * (size_t)n);
        if (!room)
            abort();
        memset(room, 1, READ_BYTES * (size_t)n);
    }
    const double start = bench_now();
    pool_run(threads, n, copy_part, room);
    return (double)READ_BYTES * n / (bench_now() - start);
}

/* Rounds of each multiply loop: a few milliseconds. */
#define ROUNDS (bench_smoke ? 4000 : 400000)

#if defined(__x86_64__)
__attribute__((target("avx512f"))) static void fma_512(void *arg, int64_t part)
{
    __m512 sum[12], a = _mm512_set1_ps(0.999f), b = _mm512_set1_ps(0.001f);
    for (int i = 0; i < 12; i++)
        sum[i] = _mm512_set1_ps((float)i);
    for (int k = 0; k < ROUNDS; k++)
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
    for (int k = 0; k < ROUNDS; k++)
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
    for (int k = 0; k < ROUNDS; k++)
        for (int i = 0; i < 16; i++)
            sum[i] = sum[i] * 0.999f + 0.001f;
    for (int i = 0; i < 16; i++)
        ((volatile float *)arg)[part % 64] = sum[i];
}

double limit_flops(pool *threads)
{
    static float sink[64];
    pool_fn *work = fma_plain;
    double each = 2.0 * 16 * ROUNDS;
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f")) {
        work = fma_512;
        each = 2.0 * 12 * 16 * ROUNDS;
    } else if (__builtin_cpu_supports("avx2")) {
        work = fma_256;
        each = 2.0 * 12 * 8 * ROUNDS;
    }
#endif
    const int n = pool_threads(threads);
    const double start = bench_now();
    pool_run(threads, n, work, sink);
    return each * n / (bench_now() - start);
}

#if defined(__x86_64__)
/* 64 products of 8-bit numbers per instruction, summed in groups of four, into twelve sums.
 * Unrolled by hand: gcc 12 moves every sum to another register and back around the intrinsic. */
__attribute__((target("avx512f"))) static void dot_512(void *arg, int64_t part)
{
    const __m512i a = _mm512_set1_epi32((int)part), b = _mm512_set1_epi32(0x01010101);
    __m512i s0 = a, s1 = a, s2 = a, s3 = a, s4 = a, s5 = a;
    __m512i s6 = a, s7 = a, s8 = a, s9 = a, s10 = a, s11 = a;
    for (int k = 0; k < ROUNDS; k++)
        __asm__("vpdpbusd %13, %12, %0\n vpdpbusd %13, %12, %1\n vpdpbusd %13, %12, %2\n"
                "vpdpbusd %13, %12, %3\n vpdpbusd %13, %12, %4\n vpdpbusd %13, %12, %5\n"
                "vpdpbusd %13, %12, %6\n vpdpbusd %13, %12, %7\n vpdpbusd %13, %12, %8\n"
                "vpdpbusd %13, %12, %9\n vpdpbusd %13, %12, %10\n vpdpbusd %13, %12, %11\n"
                : "+v"(s0), "+v"(s1), "+v"(s2), "+v"(s3), "+v"(s4), "+v"(s5), "+v"(s6), "+v"(s7),
                  "+v"(s8), "+v"(s9), "+v"(s10), "+v"(s11)
                : "v"(a), "v"(b));
    ((volatile float *)arg)[part % 64] = (float)_mm512_reduce_add_epi32(s0);
}

/* 32 products in three instructions: pairs, groups of four, then the sum. */
__attribute__((target("avx2"))) static void dot_256(void *arg, int64_t part)
{
    __m256i sum[8];
    __m256i a = _mm256_set1_epi32((int)part + 0x01020304), b = _mm256_set1_epi32(0x01010101);
    const __m256i ones = _mm256_set1_epi16(1);
    for (int i = 0; i < 8; i++)
        sum[i] = _mm256_set1_epi32(i);
    for (int k = 0; k < ROUNDS; k++)
        for (int i = 0; i < 8; i++) {
            __asm__ volatile("" : "+x"(a));
            const __m256i pairs = _mm256_maddubs_epi16(a, b);
            sum[i] = _mm256_add_epi32(sum[i], _mm256_madd_epi16(pairs, ones));
        }
    for (int i = 0; i < 8; i++)
        ((volatile float *)arg)[part % 64] = (float)_mm256_extract_epi32(sum[i], 0);
}
#endif

static void dot_plain(void *arg, int64_t part)
{
    int32_t sum[16] = { 0 };
    for (int k = 0; k < ROUNDS; k++)
        for (int i = 0; i < 16; i++)
            sum[i] += (int8_t)(k + i) * (int8_t)(k - i);
    for (int i = 0; i < 16; i++)
        ((volatile float *)arg)[part % 64] = (float)sum[i];
}

double limit_int8(pool *threads)
{
    static float sink[64];
    pool_fn *work = dot_plain;
    double each = 2.0 * 16 * ROUNDS;
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512vnni")) {
        work = dot_512;
        each = 2.0 * 12 * 64 * ROUNDS;
    } else if (__builtin_cpu_supports("avx2")) {
        work = dot_256;
        each = 2.0 * 8 * 32 * ROUNDS;
    }
#endif
    const int n = pool_threads(threads);
    const double start = bench_now();
    pool_run(threads, n, work, sink);
    return each * n / (bench_now() - start);
}

#if defined(__x86_64__)
/* 16 x 16 sums of 32 products per instruction, into four tiles. */
static void tiles_512(void *arg, int64_t part)
{
    (void)arg, (void)part;
    amx_begin();
    for (int k = 0; k < ROUNDS / 4; k++) {
        amx_multiply(0, 4, 6);
        amx_multiply(1, 4, 7);
        amx_multiply(2, 5, 6);
        amx_multiply(3, 5, 7);
    }
    amx_end();
}
#endif

double limit_bf16(pool *threads)
{
#if defined(__x86_64__)
    if (cpu_detect().amx_bf16 && cpu_tiles()) {
        const int n = pool_threads(threads);
        const double start = bench_now();
        pool_run(threads, n, tiles_512, NULL);
        return 2.0 * TILE_ROWS * TILE_ROWS * TILE_TERMS * (ROUNDS / 4) * 4 * n /
               (bench_now() - start);
    }
#endif
    return limit_flops(threads);
}
