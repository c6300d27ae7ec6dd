/* matmul - products of a matrix of 2048 x 2048 weights with 1, 16 and 512 rows, for every stored
 * type and kernel table of this processor. One row is measured against the bandwidth of memory,
 * many rows against multiply-adds in registers, both in this process, between the samples.
 *
 *     build/bench/matmul [THREADS] [--json] */
#include "bench.h"

#include "base/cpu.h"
#include "base/rng.h"
#include "ops/ops.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    I_WIDTH = 2048,
    O_WIDTH = 2048,
    COPIES = 16
}; /* so many matrices that one row reads memory, not cache */

typedef struct job {
    run run;
    batch batch;
    weight w[COPIES];
    tensor x;
    int next;
} job;

static void *must(void *p)
{
    if (!p) {
        fputs("matmul: out of memory\n", stderr);
        exit(1);
    }
    return p;
}

static void weights_init(job *j, const dtype *type)
{
    const size_t bytes = dtype_row_bytes(type, I_WIDTH) * O_WIDTH;
    real *row_of = must(malloc(I_WIDTH * sizeof *row_of));
    for (int c = 0; c < COPIES; c++) {
        tensor *t = must(calloc(1, sizeof *t));
        *t = (tensor){
            .name = "w", .type = type, .n_dim = 2, .shape = { O_WIDTH, I_WIDTH }, .stride = I_WIDTH
        };
        t->data = must(aligned_alloc(64, bytes));
        for (int64_t o = 0; o < O_WIDTH; o++) {
            for (int k = 0; k < I_WIDTH; k++)
                row_of[k] = rng_uniform(1, (uint64_t)(c * O_WIDTH + o), (uint64_t)k) - 0.5f;
            type->encode((char *)t->data + (size_t)o * dtype_row_bytes(type, I_WIDTH), row_of,
                         I_WIDTH);
        }
        j->w[c] = (weight){ "w", t, NULL };
    }
    free(row_of);
}

static void weights_free(job *j)
{
    for (int c = 0; c < COPIES; c++) {
        free(j->w[c].w->data);
        free(j->w[c].w);
    }
}

/* All copies once; seconds. */
static double pass(job *j)
{
    const double start = bench_now();
    for (int c = 0; c < COPIES; c++) {
        run_begin(&j->run, &j->batch);
        linear(&j->run, &j->x, &j->w[c]);
    }
    return bench_now() - start;
}

static double bytes_a_second(void *ud)
{
    job *j = ud;
    return (double)COPIES * O_WIDTH * (double)dtype_row_bytes(j->w[0].w->type, I_WIDTH) / pass(j);
}

static double flops_a_second(void *ud)
{
    job *j = ud;
    return 2.0 * COPIES * O_WIDTH * I_WIDTH * (double)rows(&j->x) / pass(j);
}

static void measure(job *j, pool *threads, int n_row, bool json)
{
    j->x.shape[0] = n_row;
    j->batch.n_row = n_row;
    const bool few = n_row == 1;
    double speed;
    const double share = bench_share(threads, few ? limit_read : limit_flops,
                                     few ? bytes_a_second : flops_a_second, j, n_row > 100 ? 3 : 7,
                                     &speed);
    const char *type = j->w[0].w->type->name;
    if (json)
        printf("{\"kernels\":\"%s\",\"type\":\"%s\",\"rows\":%d,\"%s\":%.4g,\"share\":%.3f}\n",
               j->run.kern->name, type, n_row, few ? "bytes_per_second" : "flops_per_second", speed,
               share);
    else
        printf("%-8s %-5s %4d rows  %8.2f %s  %5.1f %% of %s\n", j->run.kern->name, type, n_row,
               speed / 1e9, few ? "GB/s   " : "GFLOP/s", 100 * share,
               few ? "memory bandwidth" : "f32 multiply-adds");
    fflush(stdout);
}

int main(int argc, char **argv)
{
    static const dtype *const types[] = { &dtype_f32, &dtype_bf16, &dtype_f16, &dtype_q8_0,
                                          &dtype_q4_0 };
    static const int n_rows[] = { 1, 16, 512 };
    weft_error err = { 0 };
    bool json = false;
    int n_thread = 0;
    for (int i = 1; i < argc; i++) {
        json = json || strcmp(argv[i], "--json") == 0;
        n_thread = argv[i][0] == '-' ? n_thread : atoi(argv[i]);
    }
    mem m;
    mem_init(&m, 0, NULL);
    pool *threads = must(pool_new(n_thread > 0 ? n_thread : cpu_count(), &m, &err));
    job j = { 0 };
    if (run_init(&j.run, &m, 1 << 16, 16 << 20, 64 << 20, &err) != WEFT_OK)
        return 1;
    j.run.pool = threads;
    j.x = (tensor){
        .name = "x", .type = &dtype_real, .n_dim = 2, .shape = { 512, I_WIDTH }, .stride = I_WIDTH
    };
    j.x.data = must(aligned_alloc(64, sizeof(real[512][I_WIDTH])));
    for (int64_t k = 0; k < 512 * I_WIDTH; k++)
        ((real *)j.x.data)[k] = rng_uniform(2, 0, (uint64_t)k) - 0.5f;

    if (!json)
        printf("%d threads; memory %.1f GB/s, f32 %.0f GFLOP/s\n", pool_threads(threads),
               limit_read(threads) / 1e9, limit_flops(threads) / 1e9);
    for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
        weights_init(&j, types[t]);
        for (int k = 0; kernels_table(k); k++)
            for (size_t n = 0; n < 3; n++) {
                j.run.kern = kernels_table(k);
                if (n_rows[n] == 512 && j.run.kern == &kernels_scalar)
                    continue; /* minutes */
                measure(&j, threads, n_rows[n], json);
            }
        weights_free(&j);
    }
    return 0;
}
