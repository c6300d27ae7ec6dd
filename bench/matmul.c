/* matmul - products of a matrix of 2048 x 2048 weights with 1, 16 and 512 rows, for every stored
 * type and kernel table of this processor. One row is measured against the bandwidth of memory,
 * many rows against multiply-adds in registers.
 *
 *     build/bench/matmul [--threads N] [--json] */
#include "args.h"
#include "bench.h"

#include "ops/ops.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int64_t n_thread, n_repeat = 5, width = 2048;
static bool json;

static const arg args[] = {
    { "width", ARG_INT, &width, "N", "inputs and outputs, a multiple of 256 (2048)", 256, 16384 },
    { "threads", ARG_INT, &n_thread, "N", "threads (all processors)", 1, 1024 },
    { "repeat", ARG_INT, &n_repeat, "N", "steady samples of each (5)", 1, 20 },
    { "smoke", ARG_FLAG, &bench_smoke, NULL, "see only that it runs: rough limits", 0, 0 },
    { "json", ARG_FLAG, &json, NULL, "one JSON object a line", 0, 0 },
    { 0 },
};

static const program self = {
    "matmul",
    NULL,
    "Measures products with weights of every type on every kernel table: one row as share of\n"
    "memory bandwidth, 16 and 512 rows as shares of multiply-adds.\n",
    args,
    0,
    NULL
};

/* So many matrices that one row reads memory, not cache. */
#define COPIES    (bench_smoke ? 1 : MOST_COPY)
#define MOST_COPY 16
#define MOST_ROW  512

typedef struct job {
    run run;
    batch batch;
    weight w[MOST_COPY];
    tensor *x;
} job;

static void weights_init(job *j, const dtype *type)
{
    enum { DISTINCT = 64 }; /* rows: encoding takes longer than multiplying */
    const size_t row_bytes = dtype_row_bytes(type, width);
    tensor *numbers = bench_tensor("w", DISTINCT, width);
    char *stored = bench_must(malloc(row_bytes * DISTINCT), NULL);
    memset(stored, 0, row_bytes * DISTINCT); /* what cannot be written is measured with zeros */
    for (int64_t o = 0; type->encode && o < DISTINCT; o++)
        type->encode(stored + (size_t)o * row_bytes, row(numbers, o), width);
    for (int c = 0; c < COPIES; c++) {
        tensor *t = bench_must(calloc(1, sizeof *t), NULL);
        *t = (tensor){
            .name = "w", .type = type, .n_dim = 2, .shape = { width, width }, .stride = width
        };
        t->data = bench_must(aligned_alloc(64, row_bytes * (size_t)width), NULL);
        for (int64_t o = 0; o < width; o++)
            memcpy((char *)t->data + (size_t)o * row_bytes,
                   stored + (size_t)((o + c) % DISTINCT) * row_bytes, row_bytes);
        j->w[c] = (weight){ "w", t, NULL };
    }
    free(stored);
    bench_tensor_free(numbers);
}

static void weights_free(job *j)
{
    for (int c = 0; c < COPIES; c++)
        bench_tensor_free(j->w[c].w);
}

/* All copies once; seconds. */
static double pass(void *ud)
{
    job *j = ud;
    const double start = bench_now();
    for (int c = 0; c < COPIES; c++) {
        run_begin(&j->run, &j->batch);
        linear(&j->run, j->x, &j->w[c]);
    }
    return bench_now() - start;
}

static void measure(job *j, int n_row)
{
    const dtype *type = j->w[0].w->type;
    const double numbers = (double)COPIES * (double)width * (double)width;
    const demand read = { .bytes = numbers / type->block * type->bytes };
    const demand f32 = { .flops = 2 * numbers * n_row }, int8 = { .int8 = 2 * numbers * n_row };
    j->x->shape[0] = n_row;
    j->batch.n_row = n_row;
    timings t;
    bench_time(&t, j->run.pool, pass, j, (int)n_repeat);
    const double seconds = timings_seconds(&t);
    if (json)
        printf("{\"kernels\":\"%s\",\"type\":\"%s\",\"rows\":%d,\"seconds\":%.4g,"
               "\"bytes_per_second\":%.4g,\"flops_per_second\":%.4g,\"share_of_memory\":%.3f,"
               "\"share_of_f32\":%.3f,\"share_of_int8\":%.3f}\n",
               j->run.kern->name, type->name, n_row, seconds / COPIES, read.bytes / seconds,
               f32.flops / seconds, timings_share(&t, &read), timings_share(&t, &f32),
               timings_share(&t, &int8));
    else if (n_row == 1)
        printf("%-11s %-11s %4d rows  %8.2f GB/s     %5.1f %% of memory bandwidth\n",
               j->run.kern->name, type->name, n_row, read.bytes / seconds / 1e9,
               100 * timings_share(&t, &read));
    else
        printf("%-11s %-11s %4d rows  %8.2f GFLOP/s  %5.1f %% of f32 multiply-adds  %5.1f %% of "
               "int8\n",
               j->run.kern->name, type->name, n_row, f32.flops / seconds / 1e9,
               100 * timings_share(&t, &f32), 100 * timings_share(&t, &int8));
    fflush(stdout);
}

static void in_f32(dtype *to, const dtype *type, const char *name)
{
    *to = *type;
    to->name = name;
    to->quants = NULL;
}

int main(int argc, char **argv)
{
    /* the same formats in class f32, for comparison */
    static dtype q8_0_f32, q4_0_f32, q4_k_f32, q6_k_f32;
    static const dtype *const types[] = { &dtype_f32,  &dtype_bf16, &dtype_f16,  &dtype_q8_0,
                                          &dtype_q4_0, &dtype_q4_1, &dtype_q5_0, &dtype_q5_1,
                                          &dtype_q2_k, &dtype_q3_k, &dtype_q4_k, &dtype_q5_k,
                                          &dtype_q6_k, &q8_0_f32,   &q4_0_f32,   &q4_k_f32,
                                          &q6_k_f32 };
    static const int n_rows[] = { 1, 16, MOST_ROW };
    const int code = args_parse(&self, argc, argv);
    if (code >= 0)
        return code;
    if (width % 256 != 0)
        return args_usage(&self, "--width is %lld, expected a multiple of 256", (long long)width);
    in_f32(&q8_0_f32, &dtype_q8_0, "q8_0 in f32");
    in_f32(&q4_0_f32, &dtype_q4_0, "q4_0 in f32");
    in_f32(&q4_k_f32, &dtype_q4_k, "q4_k in f32");
    in_f32(&q6_k_f32, &dtype_q6_k, "q6_k in f32");
    weft_error err = { 0 };
    mem m;
    mem_init(&m, 0, NULL);
    pool *threads = bench_pool(n_thread, &m);
    static job j;
    const size_t room = (size_t)(MOST_ROW * width) * sizeof(real);
    bench_check(run_init(&j.run, &m, 1 << 16, room + (1 << 20), 4 * room + (64 << 20), &err), &err);
    j.run.pool = threads;
    j.x = bench_tensor("x", MOST_ROW, width);
    j.batch = bench_batch(MOST_ROW, 0, NULL);
    bench_print_machine(threads, kernels_select(&(log_sink){ 0 })->name, json);
    for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
        weights_init(&j, types[t]);
        for (int k = 0; kernels_table(k); k++)
            for (size_t n = 0; n < sizeof n_rows / sizeof *n_rows; n++) {
                j.run.kern = kernels_table(k);
                if (n_rows[n] == MOST_ROW && (j.run.kern == &kernels_scalar || bench_smoke))
                    continue; /* minutes */
                measure(&j, n_rows[n]);
            }
        weights_free(&j);
    }
    bench_batch_free(&j.batch);
    bench_tensor_free(j.x);
    run_free(&j.run);
    pool_free(threads);
    return 0;
}
