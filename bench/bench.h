/* bench.h - what the benches share: the machine's limits, measured in the same process, with the
 * same threads, between the samples of the work. A sample whose two neighbouring limits differ by
 * more than 15 % is thrown away: the machine was doing something else. Medians are reported, as
 * shares of the limit, never against another run. */
#ifndef WEFT_BENCH_BENCH_H
#define WEFT_BENCH_BENCH_H

#include "base/pool.h"

#include <stdbool.h>

double bench_now(void);

/* Numbers a second. */
double limit_read(pool *threads);  /* bytes read from memory */
double limit_flops(pool *threads); /* f32 multiply-adds in registers, counted as two */

typedef struct samples {
    double value[64];
    int n, thrown;
} samples;

void samples_add(samples *s, double x);
double samples_median(samples *s);

/* Runs work(ud), which returns what it did a second, between measurements of a limit; gives the
 * median share of that limit and the median itself. */
typedef double work_fn(void *ud);
typedef double limit_fn(pool *threads);
double bench_share(pool *threads, limit_fn *limit, work_fn *work, void *ud, int n, double *median);

#endif
