/* bench.h - what the benches share: the machine's limits, measured in the same process, with the
 * same threads, between the samples of the work. A sample whose two neighbouring limits differ by
 * more than 15 % is thrown away: the machine was doing something else. Medians are reported, as
 * shares of the limit, never against another run.
 *
 *     limits  work  limits  work  limits ...
 *         \_____|_____/ \_____|_____/
 *           sample 0      sample 1 */
#ifndef WEFT_BENCH_BENCH_H
#define WEFT_BENCH_BENCH_H

#include "tensor/run.h"

#include <stdbool.h>

double bench_now(void);
double bench_cpu(void); /* of all threads */

/* True for a smoke run: limits are measured briefly and roughly. */
extern bool bench_smoke;

/* Numbers a second. */
double limit_read(pool *threads);  /* bytes read from memory */
double limit_copy(pool *threads);  /* bytes moved by memcpy: read and written both count */
double limit_flops(pool *threads); /* f32 multiply-adds in registers, counted as two */
double limit_int8(pool *threads);  /* 8-bit multiply-adds in registers, counted as two */
double limit_bf16(pool *threads);  /* of bf16 in tiles; f32 ones where there are none */

typedef struct limits {
    double read, flops, int8, bf16;
} limits;

/* The amounts of each that a piece of work needs. At the limits it takes the sum of their times. */
typedef struct demand {
    double bytes, flops, int8, bf16;
} demand;

double demand_seconds(const demand *d, const limits *at);

typedef struct samples {
    double value[64];
    int n;
} samples;

void samples_add(samples *s, double x);
double samples_median(samples *s);

typedef double work_fn(void *ud);

/* Runs work(ud), which returns its seconds, between measurements of the limits, until n samples
 * were steady or 3 n were taken. If none was steady, all are kept and `steady` is 0. */
#define MAX_TIMING 64

typedef struct timings {
    int n, steady, thrown;
    double seconds[MAX_TIMING];
    limits limit[MAX_TIMING];
} timings;

void bench_time(timings *t, pool *threads, work_fn *work, void *ud, int n);
double timings_seconds(const timings *t);                /* the median */
double timings_spread(const timings *t);                 /* (max - min) / median */
double timings_share(const timings *t, const demand *d); /* the median share of the limits */
limits timings_limits(const timings *t);                 /* the medians */

/* Setup shared by all benches. Exits with a message if it fails. */
void *bench_must(void *p, const weft_error *err);
void bench_check(weft_status status, const weft_error *err);
pool *bench_pool(int64_t n_thread, mem *m); /* 0: one per CPU */

/* An activation of normal numbers outside any run; freed by bench_tensor_free. */
tensor *bench_tensor(const char *name, int64_t n_row, int64_t n_col);
void bench_tensor_free(tensor *t);

/* A batch of one sequence: n rows at positions from `start`. */
batch bench_batch(int64_t n_row, int64_t start, cache *of);
void bench_batch_free(batch *b);

/* A batch to train on: sequences of random tokens, each of which has a target. */
batch bench_train_batch(int64_t n_sequence, int64_t n_token, int64_t n_vocab, int seed);

/* Time by op, longest first, of work that took `seconds`; also prints the remainder. */
void bench_print_profile(const profile *p, const char *work, double seconds, bool json);

/* "2 threads, avx512; memory 20.1 GB/s, ..." on one line, or as JSON. */
void bench_print_machine(pool *threads, const char *table, bool json);

#endif
