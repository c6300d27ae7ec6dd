/* heads - the cost of keys and values: the same decoder with multi-head, grouped-query,
 * multi-query and latent attention. Prints cache bytes and time per generated token over the
 * context length.
 *
 *     build/bench/heads [--heads 16] [--d-head 64] [--layers 4] [--longest 8192] [--kv f16] [--json]
 *
 * Widths, heads and feed forwards are the same for all; latents have DeepSeek's proportions,
 * four heads and half a rotated head. The weights are random, in a temporary directory. It runs
 * on one thread and measures its CPU time, so other programs only matter through shared caches
 * and memory. */
#include "args.h"
#include "bench.h"

#include "base/rng.h"
#include "engine/session.h"
#include "train/init_model.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static const char *kv_name = "f16";
static int64_t n_head = 16, d_head = 64, n_layer = 4, longest = 8192, n_generate = 8;
static bool json;

static const arg args[] = {
    { "heads", ARG_INT, &n_head, "N", "of queries; 4 share one in groups (16)", 4, 256 },
    { "d-head", ARG_INT, &d_head, "N", "numbers of a head (64)", 8, 128 },
    { "layers", ARG_INT, &n_layer, "N", "layers (4)", 1, 128 },
    { "longest", ARG_INT, &longest, "N", "tokens of the context (8192)", 64, 1 << 20 },
    { "generate", ARG_INT, &n_generate, "N", "tokens at each length (8)", 1, 64 },
    { "kv", ARG_TEXT, &kv_name, "TYPE", "of the cache (f16)", 0, 0 },
    { "json", ARG_FLAG, &json, NULL, "one JSON object a line", 0, 0 },
    { 0 },
};

static const program self = {
    "heads",
    "",
    "Measures the cache and the time of a generated token of four ways to "
    "have keys and values:\na head for each of queries, for groups of four, "
    "one for all, and latents.\n",
    args,
    0,
    NULL
};

#define MAX_LENGTH 16

typedef struct way {
    const char *name;
    int64_t n_head_kv; /* 0: latents */
    size_t bytes;      /* of a position */
    int n;
    double length[MAX_LENGTH], seconds[MAX_LENGTH];
} way;

static void put_config(buffer *b, const way *w)
{
    const long long D = n_head * d_head;
    buffer_format(b,
                  "{ \"model_type\": \"%s\", \"num_hidden_layers\": %lld, \"hidden_size\": %lld,"
                  "\"num_attention_heads\": %lld, \"num_key_value_heads\": %lld,"
                  "\"intermediate_size\": %lld, \"max_position_embeddings\": %lld,"
                  "\"vocab_size\": 256",
                  w->n_head_kv ? "llama" : "deepseek_v2", (long long)n_layer, D, (long long)n_head,
                  (long long)(w->n_head_kv ? w->n_head_kv : n_head), D, (long long)longest);
    if (!w->n_head_kv)
        buffer_format(b,
                      ", \"kv_lora_rank\": %lld, \"qk_nope_head_dim\": %lld,"
                      "\"qk_rope_head_dim\": %lld, \"v_head_dim\": %lld,"
                      "\"first_k_dense_replace\": %lld",
                      (long long)(4 * d_head), (long long)d_head, (long long)(d_head / 4 * 2),
                      (long long)d_head, (long long)n_layer);
    buffer_text(b, " }");
}

static double thread_time(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void append(session *s, const int32_t *ids, int64_t n)
{
    weft_error err = { 0 };
    work w = { .session = s, .ids = ids, .n = n };
    bench_check(engine_eval(s->engine, &w, 1, &err), &err);
}

/* The median time of a token after prompts of 256, 512 ... tokens. */
static void generate(way *w, session *s, const int32_t *ids)
{
    weft_error err = { 0 };
    for (int64_t length = longest < 256 ? longest / 2 : 256; length <= longest; length *= 2) {
        samples t = { 0 };
        append(s, ids + s->cache.length, length - 1 - s->cache.length);
        for (int64_t i = 0; i < n_generate; i++) {
            const double began = thread_time();
            append(s, &ids[i], 1);
            samples_add(&t, thread_time() - began);
            bench_check(session_rewind(s, length - 1, &err), &err);
        }
        w->length[w->n] = (double)length;
        w->seconds[w->n++] = samples_median(&t);
    }
}

static void measure(way *w, const char *directory, host *h, const int32_t *ids)
{
    weft_error err = { 0 };
    model m;
    buffer config;
    engine_options o = { .n_thread = 1, .n_ctx = longest };
    o.kv = dtype_by_name(kv_name);
    buffer_begin(&config, &h->mem, &err);
    put_config(&config, w);
    bench_check(init_model_write(directory, (const char *)config.at, config.n,
                                 &(init_model_source){ .seed = 1 }, h, &err),
                &err);
    buffer_end(&config);
    bench_check(model_open(&m, directory, WEFT_LOAD_COPY, h, &err), &err);
    bench_check(engine_resolve(&m, &o, &err), &err);
    engine *e = bench_must(engine_new(&m, &o, &err), &err);
    session *s = bench_must(session_new(e, &err), &err);
    w->bytes = e->pages.layout.page_bytes / PAGE_ROWS;
    generate(w, s, ids);
    session_free(s);
    engine_free(e);
    model_close(&m);
}

static void report(const way *w, const way *first)
{
    if (!json)
        printf("%-4s %8zu bytes a token  %5.1f %%   ms a token:", w->name, w->bytes,
               100 * (double)w->bytes / (double)first->bytes);
    for (int i = 0; i < w->n; i++)
        printf(json ? "{\"way\":\"%s\",\"bytes_per_token\":%zu,\"context\":%.0f,"
                      "\"ms_per_token\":%.4f}\n"
                    : "",
               w->name, w->bytes, w->length[i], 1e3 * w->seconds[i]);
    for (int i = 0; !json && i < w->n; i++)
        printf("  %.0f: %.2f", w->length[i], 1e3 * w->seconds[i]);
    if (!json)
        printf("\n");
}

static void remove_files(const char *directory)
{
    static const char *const files[] = { "model.safetensors", "config.json" };
    char path[4096];
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/%s", directory, files[i]);
        unlink(path);
    }
    rmdir(directory);
}

int main(int argc, char **argv)
{
    const int code = args_parse(&self, argc, argv);
    if (code >= 0)
        return code;
    const dtype *kv = dtype_by_name(kv_name);
    if (!kv || !kv->encode)
        return args_usage(&self, "--kv is \"%s\", a type that weft does not cache in", kv_name);
    host h = { .io = io_system };
    char directory[1024];
    const char *tmp = getenv("TMPDIR");
    way ways[] = { { "MHA", n_head, 0, 0, { 0 }, { 0 } },
                   { "GQA", n_head / 4, 0, 0, { 0 }, { 0 } },
                   { "MQA", 1, 0, 0, { 0 }, { 0 } },
                   { "MLA", 0, 0, 0, { 0 }, { 0 } } };
    mem_init(&h.mem, 0, NULL);
    snprintf(directory, sizeof directory, "%s/weft-heads-XXXXXX", tmp && *tmp ? tmp : "/tmp");
    bench_must(mkdtemp(directory), NULL);
    int32_t *ids = bench_must(calloc((size_t)longest, sizeof *ids), NULL);
    for (int64_t i = 0; i < longest; i++)
        ids[i] = (int32_t)(rng_draw(7, 0, (uint64_t)i).word[0] % 256);
    for (int i = 0; i < 4; i++) {
        measure(&ways[i], directory, &h, ids);
        report(&ways[i], &ways[0]);
        fflush(stdout);
    }
    remove_files(directory);
    free(ids);
    return 0;
}
