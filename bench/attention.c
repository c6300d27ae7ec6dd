/* attention - prompts and single queries over a cache of every type, and backward.
 *
 *     build/bench/attention [--heads 32] [--kv-heads 8] [--head-size 64] [--threads N] [--json]
 *
 * A prompt of T tokens needs 2 products of T (T + 1) / 2 pairs a head, backward 5: measured against
 * f32 multiply-adds. One query over n keys reads n keys and values: measured against memory
 * bandwidth, over as many layers as it takes to leave the caches. */
#include "args.h"
#include "bench.h"

#include "engine/pages.h"
#include "tensor/tape.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int64_t n_thread, n_head = 32, n_head_kv = 8, d_head = 64, n_repeat = 3, most = 8192;
static bool json;

static const arg args[] = {
    { "heads", ARG_INT, &n_head, "N", "of queries (32)", 1, 1024 },
    { "kv-heads", ARG_INT, &n_head_kv, "N", "of keys and values (8)", 1, 1024 },
    { "head-size", ARG_INT, &d_head, "N", "numbers of a head (64)", 1, MAX_HEAD },
    { "most", ARG_INT, &most, "N", "leave out longer prompts and caches (8192)", 1, 1 << 20 },
    { "threads", ARG_INT, &n_thread, "N", "threads (all processors)", 1, 1024 },
    { "repeat", ARG_INT, &n_repeat, "N", "steady samples of each (3)", 1, 20 },
    { "smoke", ARG_FLAG, &bench_smoke, NULL, "see only that it runs: rough limits", 0, 0 },
    { "json", ARG_FLAG, &json, NULL, "one JSON object a line", 0, 0 },
    { 0 },
};

static const program self = {
    "attention",
    NULL,
    "Measures attention: prompts and backward as shares of f32 multiply-adds, single queries\n"
    "over 1024 and 8192 cached keys as shares of memory bandwidth, for every type of cache.\n",
    args,
    0,
    NULL
};

typedef struct job {
    host host;
    model model; /* only the fields that a cache's pages use */
    run run;
    tape tape;
    pages pages;
    cache cache;
    batch batch;
    attn attn;
    tensor *q, *k, *v, *y, *dy;
} job;

/* ---- the cache ------------------------------------------------------------------------------- */

/* Space for n positions; rows [0, n) of every layer are stored. */
static void cache_new(job *j, const dtype *type, int64_t n, int64_t n_layer)
{
    weft_error err = { 0 };
    j->model = (model){ .host = &j->host, .n_layer = n_layer, .n_stream = 2 };
    j->model.stream[0] = (stream_spec){ "k", n_head_kv * d_head };
    j->model.stream[1] = (stream_spec){ "v", n_head_kv * d_head };
    const int64_t n_page = (n + PAGE_ROWS - 1) / PAGE_ROWS;
    bench_check(pages_init(&j->pages, &j->model, type, n_page, &err), &err);
    j->cache = (cache){ .layout = &j->pages.layout, .n_page = n_page, .length = n };
    j->cache.page = bench_must(calloc((size_t)n_page, sizeof *j->cache.page), NULL);
    for (int64_t p = 0; p < n_page; p++)
        j->cache.page[p] = pages_take(&j->pages);
    tensor *rows_of = bench_tensor("row", 16, n_head_kv * d_head);
    for (int l = 0; l < n_layer; l++)
        for (int64_t i = 0; i < 2 * n; i++)
            cache_store(&j->cache, l, (int)(i % 2), i / 2, row(rows_of, (i + l) % 16));
    bench_tensor_free(rows_of);
}

static void cache_free(job *j)
{
    for (int64_t p = 0; p < j->cache.n_page; p++)
        pages_drop(&j->pages, j->cache.page[p]);
    free(j->cache.page);
    pages_free(&j->pages, &j->model);
}

/* ---- the work -------------------------------------------------------------------------------- */

/* Forward on the tape, with queries, keys and values that need gradients. */
static void record(job *j, run *r)
{
    tensor *const in[] = { j->q, j->k, j->v };
    tape_begin(r, &j->tape);
    for (int i = 0; i < 3; i++) {
        in[i]->needs_grad = true;
        in[i]->grad_taken = in[i]->grad_written = false;
    }
    j->y = attention(r, j->q, j->k, j->v, &j->attn, 0);
}

/* Makes the run, as large as a dry run predicts. */
static void run_new(job *j, bool learns)
{
    weft_error err = { 0 };
    pool *threads = j->run.pool;
    const kernels *kern = j->run.kern;
    run dry;
    bench_check(run_init_dry(&dry, &j->host.mem, 1, &err), &err);
    dry.pool = threads;
    dry.kern = kern;
    run_begin(&dry, &j->batch);
    if (learns) {
        record(j, &dry);
        tape_backward(&dry, j->y, NULL);
    } else {
        attention(&dry, j->q, j->k, j->v, &j->attn, 0);
    }
    bench_check(
        run_init(&j->run, &j->host.mem, dry.meta.peak, dry.data.peak, dry.scratch_peak, &err),
        &err);
    j->run.pool = threads;
    j->run.kern = kern;
    run_free(&dry);
}

static void inputs_new(job *j, int64_t n, int64_t start, cache *of)
{
    j->batch = bench_batch(n, start, of);
    j->q = bench_tensor("q", n, n_head * d_head);
    j->k = bench_tensor("k", n, n_head_kv * d_head);
    j->v = bench_tensor("v", n, n_head_kv * d_head);
    j->dy = bench_tensor("dy", n, n_head * d_head);
    run_new(j, of == NULL);
}

static void inputs_free(job *j)
{
    run_free(&j->run);
    bench_batch_free(&j->batch);
    bench_tensor_free(j->q);
    bench_tensor_free(j->k);
    bench_tensor_free(j->v);
    bench_tensor_free(j->dy);
}

/* Every layer of the cache once. */
static double forward(void *ud)
{
    job *j = ud;
    const double start = bench_now();
    for (int l = 0; l < j->model.n_layer; l++) {
        run_begin(&j->run, &j->batch);
        attention(&j->run, j->q, j->k, j->v, &j->attn, l);
    }
    return bench_now() - start;
}

/* The seconds of backward alone. */
static double backward(void *ud)
{
    job *j = ud;
    run_begin(&j->run, &j->batch);
    record(j, &j->run);
    const double start = bench_now();
    tape_backward(&j->run, j->y, j->dy->data);
    const double seconds = bench_now() - start;
    j->q->grad = j->k->grad = j->v->grad = NULL; /* they were the run's */
    return seconds;
}

/* ---- the report ------------------------------------------------------------------------------ */

static void report(const char *what, const char *type, int64_t n, const timings *t, const demand *d)
{
    const bool reads = d->bytes > 0;
    const double speed = (reads ? d->bytes : d->flops) / timings_seconds(t);
    const double share = timings_share(t, d);
    if (json)
        printf("{\"work\":\"%s\",\"cache\":\"%s\",\"tokens\":%lld,\"seconds\":%.4g,\"%s\":%.4g,"
               "\"share\":%.4f,\"spread\":%.3f}\n",
               what, type, (long long)n, timings_seconds(t),
               reads ? "bytes_per_second" : "flops_per_second", speed, share, timings_spread(t));
    else
        printf("%-8s %-5s %5lld tokens  %9.3f ms  %8.2f %s  %5.1f %% of %s\n", what, type,
               (long long)n, 1e3 * timings_seconds(t), speed / 1e9, reads ? "GB/s   " : "GFLOP/s",
               100 * share, reads ? "memory bandwidth" : "f32 multiply-adds");
    fflush(stdout);
}

static double pairs(int64_t n)
{
    return 2.0 * (double)(n_head * d_head) * (double)n * (double)(n + 1) / 2;
}

static void measure_prompt(job *j, const dtype *type, int64_t n)
{
    timings t;
    cache_new(j, type, n, 1);
    inputs_new(j, n, 0, &j->cache);
    bench_time(&t, j->run.pool, forward, j, (int)n_repeat);
    report("prompt", type->name, n, &t, &(demand){ .flops = 2 * pairs(n) });
    inputs_free(j);
    cache_free(j);
}

static void measure_query(job *j, const dtype *type, int64_t n)
{
    timings t;
    const double layer = 2.0 * (double)n * (double)dtype_row_bytes(type, n_head_kv * d_head);
    const int64_t n_layer = bench_smoke ? 2 : 1 + (int64_t)(128e6 / layer);
    cache_new(j, type, n, n_layer);
    inputs_new(j, 1, n - 1, &j->cache);
    bench_time(&t, j->run.pool, forward, j, (int)n_repeat);
    for (int i = 0; i < t.n; i++)
        t.seconds[i] /= (double)n_layer;
    report("query", type->name, n, &t, &(demand){ .bytes = layer });
    inputs_free(j);
    cache_free(j);
}

static void measure_backward(job *j, int64_t n)
{
    timings t;
    inputs_new(j, n, 0, NULL);
    bench_time(&t, j->run.pool, backward, j, (int)n_repeat);
    report("backward", "f32", n, &t, &(demand){ .flops = 5 * pairs(n) });
    inputs_free(j);
}

int main(int argc, char **argv)
{
    static const char *const types[] = { "f32", "f16", "bf16", "q8_0" };
    const int code = args_parse(&self, argc, argv);
    if (code >= 0)
        return code;
    if (n_head % n_head_kv != 0)
        return args_usage(&self, "%lld heads cannot share %lld heads of keys and values",
                          (long long)n_head, (long long)n_head_kv);
    static job j;
    j.host = (host){ .io = io_system };
    mem_init(&j.host.mem, 0, NULL);
    pool *threads = bench_pool(n_thread, &j.host.mem);
    j.run.pool = threads;
    j.run.kern = kernels_select(&j.host.log);
    j.attn = (attn){ ATTN_CAUSAL, n_head, n_head_kv, d_head, d_head, 1 / sqrt((real)d_head),
                     0,           { 0 },  0,         NULL };
    bench_print_machine(threads, j.run.kern->name, json);
    const int64_t prompts[] = { bench_smoke ? 16 : 512, 2048 },
                  keys[] = { bench_smoke ? 64 : 1024, 8192 };
    for (int n = 0; n < 2; n++)
        for (size_t k = 0; k < sizeof types / sizeof *types && prompts[n] <= most; k++)
            measure_prompt(&j, dtype_by_name(types[k]), prompts[n]);
    for (int n = 0; n < 2; n++)
        for (size_t k = 0; k < sizeof types / sizeof *types && keys[n] <= most; k++)
            measure_query(&j, dtype_by_name(types[k]), keys[n]);
    for (int n = 0; n < 2; n++)
        if (prompts[n] <= most)
            measure_backward(&j, prompts[n]);
    pool_free(threads);
    return 0;
}
