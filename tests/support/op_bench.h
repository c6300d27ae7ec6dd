/* op_bench.h - a run with ample arenas, in which tests call ops; built over float and over double. */
#ifndef WEFT_TESTS_OP_BENCH_H
#define WEFT_TESTS_OP_BENCH_H

#include "support.h"

#include "ops/ops.h"

extern const kernels *kern; /* the table under test: each that this CPU can run */

typedef struct bench {
    host host;
    run run;
    batch batch;
    batch_row row[2048];
    sequence seq[8];
    pool *pool;
} bench;

void bench_init(bench *b, int threads);
void bench_free(bench *b);

/* n sequences of `length` rows each, positions from `start`. */
void bench_rows(bench *b, int n, int length, int start);

/* A tensor of normal numbers, a function of the key. */
tensor *normal(bench *b, const char *name, int64_t n_row, int64_t n_col, uint64_t key);

#endif
