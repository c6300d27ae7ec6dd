/* attention - prompts and single queries over a cache of every type, and backward.
 *
 *     build/bench/attention [--heads 32] [--kv-heads 8] [--head-size 64] [--threads N] [--json]
 *                           [--work prompt|chunk|query|backward] [--cache f16]
 *
 * A prompt of T tokens needs 2 products of T (T + 1) / 2 pairs a head, backward 5: measured against
 * f32 multiply-adds. Of long prompts only the last 256 rows are measured, a chunk as the engine takes
 * them. One query over n keys reads n keys and values: measured against memory
 * bandwidth, over as many layers as it takes to leave the caches. */
#include "args.h"
#include "bench.h"

#include "engine/pages.h"
#include "tensor/tape.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int64_t n_thread, n_head = 32, n_head_kv = 8, d_head = 64, n_repeat = 3, most = 32768;
static bool json;
static const char *work, *cached; /* NULL: all */

static const arg args[] = {
    { "heads", ARG_INT, &n_head, "N", "of queries (32)", 1, 1024 },
    { "kv-heads", ARG_INT, &n_head_kv, "N", "of keys and values (8)", 1, 1024 },
    { "head-size", ARG_INT, &d_head, "N", "numbers of a head (64)", 1, MAX_HEAD },
    { "most", ARG_INT, &most, "N", "leave out longer prompts and caches (32768)", 1, 1 << 20 },
    { "work", ARG_TEXT, &work, "WORD", "only prompt, chunk, query or backward", 0, 0 },
    { "cache", ARG_TEXT, &cached, "TYPE", "only f32, f16, bf16 or q8_0", 0, 0 },
    { "threads", ARG_INT, &n_thread, "N", "threads (all processors)", 1, 1024 },
    { "repeat", ARG_INT, &n_repeat, "N", "steady samples of each (3)", 1, 20 },
    { "smoke", ARG_FLAG, &bench_smoke, NULL, "see only that it runs: rough limits", 0, 0 },
    { "json", ARG_FLAG, &json, NULL, "one JSON object a line", 0, 0 },
    { 0 },
};

static const program self = {
    "attention",
    NULL,
    "Measures attention: prompts, the last 256 rows of long ones (chunk) and backward as shares "
    "of\n"
    "f32 multiply-adds, single queries over 1024 and 8192 cached keys as shares of memory\n"
    "bandwidth, for every type of cache.\n",
    args,
    0,
    NULL
};

#define CHUNK 256 /* rows of a step of a long prompt */

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

/* Operations of one product of the last `rows` of n tokens with all before them. */
static double pairs(int64_t n, int64_t rows)
{
    return 2.0 * (double)(n_head * d_head) * (double)rows * ((double)n - (double)(rows - 1) / 2);
}

/* The last `rows` of a prompt of n tokens. */
static void measure_prompt(job *j, const char *what, const dtype *type, int64_t n, int64_t rows)
{
    timings t;
    cache_new(j, type, n, 1);
    inputs_new(j, rows, n - rows, &j->cache);
    bench_time(&t, j->run.pool, forward, j, (int)n_repeat);
    report(what, type->name, n, &t, &(demand){ .flops = 2 * pairs(n, rows) });
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
    report("backward", "f32", n, &t, &(demand){ .flops = 5 * pairs(n, n) });
    inputs_free(j);
}

static const char *const works[] = { "prompt", "chunk", "query", "backward" };
static const char *const types[] = { "f32", "f16", "bf16", "q8_0" };
#define N_TYPE (sizeof types / sizeof *types)

/* Backward has no cache, and is not left out for its type. */
static bool wanted(const char *what, const char *type, int64_t n)
{
    const bool any = !cached || strcmp(what, "backward") == 0 || strcmp(cached, type) == 0;
    return n <= most && any && (!work || strcmp(work, what) == 0);
}

/* Is the text NULL or one of these? */
static bool one_of(const char *text, const char *const *words, size_t n)
{
    bool found = !text;
    for (size_t i = 0; i < n; i++)
        found = found || strcmp(text, words[i]) == 0;
    return found;
}

int main(int argc, char **argv)
{
    const int code = args_parse(&self, argc, argv);
    if (code >= 0)
        return code;
    if (n_head % n_head_kv != 0)
        return args_usage(&self, "%lld heads cannot share %lld heads of keys and values",
                          (long long)n_head, (long long)n_head_kv);
    if (!one_of(work, works, 4))
        return args_usage(&self, "--work %s; expected prompt, chunk, query or backward", work);
    if (!one_of(cached, types, N_TYPE))
        return args_usage(&self, "--cache %s; expected f32, f16, bf16 or q8_0", cached);
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
                  keys[] = { bench_smoke ? 64 : 1024, 8192 },
                  longs[] = { bench_smoke ? 64 : 8192, 32768 };
    for (int n = 0; n < 2; n++)
        for (size_t k = 0; k < N_TYPE; k++)
            if (wanted("prompt", types[k], prompts[n]))
                measure_prompt(&j, "prompt", dtype_by_name(types[k]), prompts[n], prompts[n]);
    for (int n = 0; n < 2; n++)
        for (size_t k = 0; k < N_TYPE; k++)
            if (wanted("chunk", types[k], longs[n]))
                measure_prompt(&j, "chunk", dtype_by_name(types[k]), longs[n],
                               longs[n] < CHUNK ? longs[n] : CHUNK);
    for (int n = 0; n < 2; n++)
        for (size_t k = 0; k < N_TYPE; k++)
            if (wanted("query", types[k], keys[n]))
                measure_query(&j, dtype_by_name(types[k]), keys[n]);
    for (int n = 0; n < 2; n++)
        if (wanted("backward", "f32", prompts[n]))
            measure_backward(&j, prompts[n]);
    pool_free(threads);
    return 0;
}
