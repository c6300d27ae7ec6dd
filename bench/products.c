/* products - the three products of training, y = x W^T, dx = dy W and dW = dy^T x, in classes f32
 * and bf16, compared with the same products by oneDNN alone, interleaved, on the same number of
 * threads. oneDNN's operands are converted in advance; weft's conversions are part of its time.
 *
 *     build/bench/products [--rows 1024] [--inputs 768] [--outputs 3072] [--step] [--json]
 *
 * Built where oneDNN is installed (libdnnl-dev). */
#include "args.h"
#include "bench.h"

#include "kernels/half.h"
#include "ops/adapt.h"

#include <dnnl.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int64_t n_thread, n_repeat = 9, N = 1024, I = 768, O = 3072;
static bool json, all_of_step;

static const arg args[] = {
    { "rows", ARG_INT, &N, "N", "of x (1024)", 1, 1 << 20 },
    { "inputs", ARG_INT, &I, "N", "columns of x (768)", 1, 1 << 20 },
    { "outputs", ARG_INT, &O, "N", "columns of y (3072)", 1, 1 << 20 },
    { "step", ARG_FLAG, &all_of_step, NULL, "all products of a step of GPT-2 124M", 0, 0 },
    { "threads", ARG_INT, &n_thread, "N", "threads (all processors)", 1, 1024 },
    { "repeat", ARG_INT, &n_repeat, "N", "samples of each (9)", 1, 60 },
    { "smoke", ARG_FLAG, &bench_smoke, NULL, "see only that it runs", 0, 0 },
    { "json", ARG_FLAG, &json, NULL, "one JSON object a line", 0, 0 },
    { 0 },
};

static const program self = { "products",
                              NULL,
                              "Measures the products of training beside bare oneDNN: seconds and "
                              "the ratio.\n",
                              args,
                              0,
                              NULL };

typedef enum direction { FORWARD, DX, DW } direction;
static const char *const direction_name[] = { "y = x W^T", "dx = dy W", "dW = dy^T x" };

/* ---- weft ------------------------------------------------------------------------------------ */

typedef struct job {
    run run;
    tensor *x, *y, *w;
    direction which;
} job;

static double ours(job *j)
{
    const double start = bench_now();
    if (j->which == FORWARD)
        product(&j->run, some_rows(whole(j->y), 0, N), some_rows(whole(j->x), 0, N), j->w, NULL);
    else if (j->which == DX)
        product_dx(&j->run, some_rows(whole_grad(j->x), 0, N), false, some_rows(whole(j->y), 0, N),
                   j->w);
    else
        product_dw(&j->run, j->w, false, some_rows(whole(j->y), 0, N),
                   some_rows(whole(j->x), 0, N));
    return bench_now() - start;
}

/* ---- oneDNN ---------------------------------------------------------------------------------- */

static void must_dnnl(dnnl_status_t status)
{
    if (status == dnnl_success)
        return;
    fprintf(stderr, "products: oneDNN answers %d\n", (int)status);
    exit(1);
}

typedef struct bare {
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    dnnl_primitive_desc_t described;
    dnnl_primitive_t primitive;
    dnnl_memory_t memory[3];
    void *data[3];
    const char *engine_name;
} bare;

/* Values as f32 or as bf16. */
static void *operand(const real *from, int64_t n, bool bf16)
{
    uint16_t *low = bench_must(aligned_alloc(64, (size_t)(n + 64) * sizeof(real)), NULL);
    for (int64_t k = 0; bf16 && k < n; k++)
        low[k] = bf16_encode(from[k]);
    if (!bf16)
        memcpy(low, from, (size_t)n * sizeof(real));
    return low;
}

static dnnl_memory_desc_t described(int64_t rows_of, int64_t cols_of, int64_t row_step,
                                    int64_t col_step, bool bf16)
{
    dnnl_memory_desc_t d;
    const dnnl_dims_t dims = { rows_of, cols_of }, steps = { row_step, col_step };
    must_dnnl(dnnl_memory_desc_init_by_strides(&d, 2, dims, bf16 ? dnnl_bf16 : dnnl_f32, steps));
    return d;
}

static void bare_init(bare *b, const job *j, bool bf16)
{
    const direction which = j->which;
    const int64_t M = which == DW ? O : N, K = which == FORWARD ? I : which == DX ? O : N;
    const int64_t C = which == FORWARD ? O : I;
    dnnl_memory_desc_t left = which == DW ? described(M, K, 1, O, bf16)
                                          : described(M, K, K, 1, bf16);
    dnnl_memory_desc_t right = which == FORWARD ? described(K, C, 1, I, bf16)
                                                : described(K, C, I, 1, bf16);
    dnnl_memory_desc_t result = described(M, C, C, 1, false);
    dnnl_matmul_desc_t d;
    must_dnnl(dnnl_engine_create(&b->engine, dnnl_cpu, 0));
    must_dnnl(dnnl_stream_create(&b->stream, b->engine, dnnl_stream_default_flags));
    must_dnnl(dnnl_matmul_desc_init(&d, &left, &right, NULL, &result));
    must_dnnl(dnnl_primitive_desc_create(&b->described, &d, NULL, b->engine, NULL));
    must_dnnl(
        dnnl_primitive_desc_query(b->described, dnnl_query_impl_info_str, 0, &b->engine_name));
    must_dnnl(dnnl_primitive_create(&b->primitive, b->described));
    const real *a = which == FORWARD ? j->x->data : j->y->data;
    const real *w = which == DW ? j->x->data : j->w->data;
    const dnnl_memory_desc_t *as[] = { &left, &right, &result };
    b->data[0] = operand(a, M * K, bf16);
    b->data[1] = operand(w, K * C, bf16);
    b->data[2] = bench_must(aligned_alloc(64, (size_t)(M * C + 64) * sizeof(real)), NULL);
    for (int i = 0; i < 3; i++)
        must_dnnl(dnnl_memory_create(&b->memory[i], as[i], b->engine, b->data[i]));
}

static void bare_free(bare *b)
{
    dnnl_primitive_destroy(b->primitive);
    dnnl_primitive_desc_destroy(b->described);
    for (int i = 0; i < 3; i++) {
        dnnl_memory_destroy(b->memory[i]);
        free(b->data[i]);
    }
    dnnl_stream_destroy(b->stream);
    dnnl_engine_destroy(b->engine);
}

static double theirs(bare *b)
{
    const double start = bench_now();
    const dnnl_exec_arg_t all[] = { { DNNL_ARG_SRC, b->memory[0] },
                                    { DNNL_ARG_WEIGHTS, b->memory[1] },
                                    { DNNL_ARG_DST, b->memory[2] } };
    must_dnnl(dnnl_primitive_execute(b->primitive, b->stream, 3, all));
    must_dnnl(dnnl_stream_wait(b->stream));
    return bench_now() - start;
}

/* ---- side by side ---------------------------------------------------------------------------- */

typedef struct pair {
    double own, bare; /* seconds */
} pair;

static pair measure(job *j, bool bf16)
{
    bare b = { 0 };
    samples mine = { 0 }, other = { 0 }, ratio = { 0 };
    bare_init(&b, j, bf16);
    ours(j);
    theirs(&b);
    for (int64_t k = 0; k < (bench_smoke ? 1 : n_repeat); k++) {
        const double before = theirs(&b), own = ours(j), after = theirs(&b);
        samples_add(&mine, own);
        samples_add(&other, (before + after) / 2);
        samples_add(&ratio, (before + after) / 2 / own);
    }
    const double flops = 2.0 * (double)N * (double)I * (double)O;
    const pair p = { samples_median(&mine), samples_median(&other) };
    if (json)
        printf("{\"class\":\"%s\",\"product\":\"%s\",\"flops_per_second\":%.4g,"
               "\"onednn_flops_per_second\":%.4g,\"onednn\":\"%s\",\"ratio\":%.3f}\n",
               bf16 ? "bf16" : "f32", direction_name[j->which], flops / p.own, flops / p.bare,
               b.engine_name, samples_median(&ratio));
    else
        printf("%-4s  %-12s %8.2f GFLOP/s   oneDNN %8.2f (%s)   ratio %.2f\n",
               bf16 ? "bf16" : "f32", direction_name[j->which], flops / p.own / 1e9,
               flops / p.bare / 1e9, b.engine_name, samples_median(&ratio));
    fflush(stdout);
    bare_free(&b);
    return p;
}

/* The three products of a shape, in both classes; adds their times, multiplied by the count, to
 * `sum`. */
static void measure_shape(run *r, int count, pair sum[2])
{
    job j = { .run = *r, .x = bench_tensor("x", N, I), .y = bench_tensor("y", N, O) };
    j.w = bench_tensor("w", O, I);
    j.x->grad = bench_must(calloc((size_t)(N * I), sizeof(real)), NULL);
    j.w->grad = bench_must(calloc((size_t)(O * I), sizeof(real)), NULL);
    uint16_t *low = operand(j.w->data, O * I, true);
    if (!json)
        printf("%d threads, %s, %lld x %lld x %lld\n", pool_threads(r->pool), r->kern->name,
               (long long)N, (long long)I, (long long)O);
    for (int bf16 = 0; bf16 < 2; bf16++)
        for (j.which = FORWARD; j.which <= DW; j.which++) {
            j.w->bf16_copy = bf16 ? low : NULL;
            const pair p = measure(&j, bf16);
            sum[bf16].own += count * p.own;
            sum[bf16].bare += count * p.bare;
        }
    free(low);
    bench_tensor_free(j.x);
    bench_tensor_free(j.y);
    bench_tensor_free(j.w);
}

/* Each shape as often as it occurs in a step. */
static void measure_step(run *r)
{
    static const struct {
        int64_t inputs, outputs;
        int count;
    } shape[] = {
        { 768, 2304, 12 }, { 768, 768, 12 }, { 768, 3072, 12 }, { 3072, 768, 12 }, { 768, 50257, 1 }
    };
    pair sum[2] = { { 0 } };
    for (size_t i = 0; i < sizeof shape / sizeof *shape; i++) {
        I = shape[i].inputs;
        O = bench_smoke && shape[i].outputs > 4096 ? 4096 : shape[i].outputs;
        measure_shape(r, shape[i].count, sum);
    }
    for (int bf16 = 0; bf16 < 2; bf16++)
        printf(json ? "{\"step\":\"%s\",\"seconds\":%.4g,\"onednn_seconds\":%.4g,\"ratio\":%.3f}\n"
                    : "%-4s  all of a step %8.3f s   oneDNN %8.3f s   ratio %.2f\n",
               bf16 ? "bf16" : "f32", sum[bf16].own, sum[bf16].bare,
               sum[bf16].bare / sum[bf16].own);
}

int main(int argc, char **argv)
{
    const int code = args_parse(&self, argc, argv);
    if (code >= 0)
        return code;
    weft_error err = { 0 };
    mem m;
    static run r;
    mem_init(&m, 0, NULL);
    pool *threads = bench_pool(n_thread, &m);
    omp_set_num_threads(pool_threads(threads));
    const int64_t widest = all_of_step ? 50257 : I > O ? I : O;
    bench_check(run_init(&r, &m, 1 << 16, 1 << 16, (size_t)(N * widest) * sizeof(real), &err),
                &err);
    side_begin(r.side); /* products outside of an op */
    r.pool = threads;
    r.kern = kernels_table(0);
    if (all_of_step)
        measure_step(&r);
    else
        measure_shape(&r, 1, (pair[2]){ { 0 } });
    run_free(&r);
    pool_free(threads);
    return 0;
}
