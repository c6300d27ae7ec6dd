/* matmul - products of matrices of 2048 x 2048 weights with 1 to 512 rows, for every stored type and
 * kernel table of this processor. One row is measured against the bandwidth of memory, many rows
 * against multiply-adds in registers; of few rows, more must not be slower in all.
 *
 *     build/bench/matmul [--type q4_k,mxfp4] [--table avx2] [--no-pack] [--threads N] [--json] */
#include "args.h"
#include "bench.h"

#include "ops/ops.h"
#include "tensor/panels.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Enough matrices that few rows read from memory, not cache; many rows need only some. */
#define FEW_BYTES ((size_t)512 << 20)
#define MAX_COPY  256
#define FEW_ROWS  8
#define MAX_ROW   512

static int64_t n_thread, n_repeat = 5, width = 2048, most_rows = MAX_ROW;
static const char *only_types, *only_table;
static bool json, no_pack, bf16;

static const arg args[] = {
    { "width", ARG_INT, &width, "N", "inputs and outputs, a multiple of 256 (2048)", 256, 16384 },
    { "type", ARG_TEXT, &only_types, "LIST", "types in this order, with commas, perhaps twice", 0,
      0 },
    { "rows", ARG_INT, &most_rows, "N", "at most N rows (512)", 1, MAX_ROW },
    { "table", ARG_TEXT, &only_table, "NAME", "this kernel table only", 0, 0 },
    { "no-pack", ARG_FLAG, &no_pack, NULL, "weights as they are stored, not in panels", 0, 0 },
    { "bf16", ARG_FLAG, &bf16, NULL, "products in class bf16", 0, 0 },
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
    "memory bandwidth, several as shares of multiply-adds.\n",
    args,
    0,
    NULL
};

typedef struct job {
    run run;
    batch batch;
    weight w[MAX_COPY];
    int n_copy, used; /* number of copies, of which some are multiplied */
    void *panels;     /* of all copies */
    tensor *x;
} job;

/* Packed into panels if the table does so; formats in class f32 have none. */
static void pack_copies(job *j, mem *from, const kernels *kern, pool *threads)
{
    weft_error err = { 0 };
    const size_t each = panels_bytes(j->w[0].w);
    j->panels = kern->pack_panel && !no_pack && each > 0
                    ? bench_must(mem_alloc(from, each * (size_t)j->n_copy, "panels", &err), &err)
                    : NULL;
    bench_check(pool_ready(threads, &err), &err);
    for (int c = 0; j->panels && c < j->n_copy; c++)
        panels_make(j->w[c].w, kern, (char *)j->panels + (size_t)c * each, threads);
}

static void unpack_copies(job *j, mem *from)
{
    for (int c = 0; c < j->n_copy; c++)
        j->w[c].w->panels = NULL;
    mem_free(from, j->panels);
}

static void weights_init(job *j, const dtype *type)
{
    enum { DISTINCT = 64 }; /* rows: encoding takes longer than multiplying */
    const size_t row_bytes = dtype_row_bytes(type, width);
    tensor *numbers = bench_tensor("w", DISTINCT, width);
    char *stored = bench_must(malloc(row_bytes * DISTINCT), NULL);
    memset(stored, 0,
           row_bytes * DISTINCT); /* formats that cannot be encoded are measured with zeros */
    for (int64_t o = 0; type->encode && o < DISTINCT; o++)
        type->encode(stored + (size_t)o * row_bytes, row(numbers, o), width);
    const size_t wanted = bench_smoke ? 1 : FEW_BYTES / (row_bytes * (size_t)width) + 1;
    j->n_copy = wanted < MAX_COPY ? (int)wanted : MAX_COPY;
    for (int c = 0; c < j->n_copy; c++) {
        tensor *t = bench_must(calloc(1, sizeof *t), NULL);
        *t = (tensor){ .name = "w",
                       .type = type,
                       .n_dim = 2,
                       .shape = { width, width },
                       .stride = width,
                       .bf16 = bf16,
                       .multiplied = type->quants || type->block == 1 };
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
    for (int c = 0; c < j->n_copy; c++)
        bench_tensor_free(j->w[c].w);
}

/* All copies once; seconds. */
static double pass(void *ud)
{
    job *j = ud;
    const double start = bench_now();
    for (int c = 0; c < j->used; c++) {
        run_begin(&j->run, &j->batch);
        linear(&j->run, j->x, &j->w[c]);
    }
    return bench_now() - start;
}

static void measure(job *j, int n_row)
{
    const dtype *type = j->w[0].w->type;
    j->used = n_row <= FEW_ROWS || j->n_copy < 4 ? j->n_copy : 4;
    const double numbers = (double)j->used * (double)width * (double)width;
    const demand read = { .bytes = numbers / type->block * type->bytes };
    const demand f32 = { .flops = 2 * numbers * n_row }, int8 = { .int8 = 2 * numbers * n_row };
    const demand tiles = { .bf16 = 2 * numbers * n_row };
    j->x->shape[0] = n_row;
    j->batch.n_row = n_row;
    timings t;
    bench_time(&t, j->run.pool, pass, j, (int)n_repeat);
    const double seconds = timings_seconds(&t);
    if (json)
        printf("{\"kernels\":\"%s\",\"type\":\"%s\",\"rows\":%d,\"seconds\":%.4g,"
               "\"bytes_per_second\":%.4g,\"flops_per_second\":%.4g,\"share_of_memory\":%.3f,"
               "\"share_of_f32\":%.3f,\"share_of_int8\":%.3f,\"share_of_bf16\":%.3f}\n",
               j->run.kern->name, type->name, n_row, seconds / j->used, read.bytes / seconds,
               f32.flops / seconds, timings_share(&t, &read), timings_share(&t, &f32),
               timings_share(&t, &int8), timings_share(&t, &tiles));
    else if (n_row <= FEW_ROWS)
        printf("%-11s %-11s %4d rows  %8.2f GB/s     %5.1f %% of memory bandwidth  %8.1f rows a "
               "second\n",
               j->run.kern->name, type->name, n_row, read.bytes / seconds / 1e9,
               100 * timings_share(&t, &read), n_row / (seconds / j->used));
    else
        printf("%-11s %-11s %4d rows  %8.2f GFLOP/s  %5.1f %% of f32 multiply-adds  %5.1f %% of "
               "int8  %5.1f %% of bf16\n",
               j->run.kern->name, type->name, n_row, f32.flops / seconds / 1e9,
               100 * timings_share(&t, &f32), 100 * timings_share(&t, &int8),
               100 * timings_share(&t, &tiles));
    fflush(stdout);
}

static void in_f32(dtype *to, const dtype *type, const char *name)
{
    *to = *type;
    to->name = name;
    to->quants = NULL;
}

/* Every table with weights of one type. */
static void measure_type(job *j, mem *m, const dtype *type)
{
    static const int n_rows[] = { 1, 2, 4, FEW_ROWS, 16, MAX_ROW };
    weights_init(j, type);
    for (int k = 0; (j->run.kern = kernels_table(k)) != NULL; k++) {
        if (only_table && strcmp(only_table, j->run.kern->name) != 0)
            continue;
        pack_copies(j, m, j->run.kern, j->run.pool);
        for (size_t n = 0; n < sizeof n_rows / sizeof *n_rows && n_rows[n] <= most_rows; n++)
            if (n_rows[n] <= FEW_ROWS || (j->run.kern != &kernels_scalar && !bench_smoke))
                measure(j, n_rows[n]); /* others take minutes */
        unpack_copies(j, m);
    }
    weights_free(j);
}

/* The types of a list, in its order; false if one is unknown. */
static bool measure_list(job *j, mem *m, const dtype *const *types, size_t n_type)
{
    char list[256];
    snprintf(list, sizeof list, "%s", only_types);
    for (char *word = strtok(list, ","); word; word = strtok(NULL, ",")) {
        size_t t = 0;
        while (t < n_type && strcmp(types[t]->name, word) != 0)
            t++;
        if (t == n_type)
            return false;
        measure_type(j, m, types[t]);
    }
    return true;
}

int main(int argc, char **argv)
{
    /* the same formats in class f32, for comparison */
    static dtype q8_0_f32, q4_0_f32, q4_k_f32, q6_k_f32;
    static const dtype *const types[] = { &dtype_f32,  &dtype_bf16,  &dtype_f16,    &dtype_q8_0,
                                          &dtype_q4_0, &dtype_q4_1,  &dtype_q5_0,   &dtype_q5_1,
                                          &dtype_q2_k, &dtype_q3_k,  &dtype_q4_k,   &dtype_q5_k,
                                          &dtype_q6_k, &dtype_mxfp4, &dtype_iq4_nl, &dtype_iq4_xs,
                                          &q8_0_f32,   &q4_0_f32,    &q4_k_f32,     &q6_k_f32 };
    const size_t n_type = sizeof types / sizeof *types;
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
    const size_t room = (size_t)(MAX_ROW * width) * sizeof(real);
    bench_check(run_init(&j.run, &m, 1 << 16, room + (1 << 20), 4 * room + (64 << 20), &err), &err);
    j.run.pool = threads;
    j.x = bench_tensor("x", MAX_ROW, width);
    j.batch = bench_batch(MAX_ROW, 0, NULL);
    bench_print_machine(threads, kernels_select(&(log_sink){ 0 })->name, json);
    bool known = true;
    if (only_types)
        known = measure_list(&j, &m, types, n_type);
    for (size_t t = 0; !only_types && t < n_type; t++)
        measure_type(&j, &m, types[t]);
    bench_batch_free(&j.batch);
    bench_tensor_free(j.x);
    run_free(&j.run);
    pool_free(threads);
    return known ? 0 : args_usage(&self, "--type %s: no such type", only_types);
}
