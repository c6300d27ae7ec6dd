/* explain.c - what a page costs: its size, and its time in forwards.
 *
 *     explain MODEL [--tokens N] [--rounds N] [--threads N]
 *
 * Alternates a forward over N tokens with a page about them, and prints medians. The page includes
 * its own forward, the lens, a beam search, the timing of the cache and the nearest tokens. */
#include "args.h"
#include "bench.h"
#include "weft.h"

#include <stdio.h>
#include <stdlib.h>

static const char *path;
static int64_t n_token = 64, rounds = 7, n_thread;
static bool all;

static const arg args[] = {
    { "tokens", ARG_INT, &n_token, "N", "tokens of the text (64)", 1, WEFT_EXPLAIN_TOKENS },
    { "rounds", ARG_INT, &rounds, "N", "pages and forwards (7)", 1, 64 },
    { "threads", ARG_INT, &n_thread, "N", "threads (one per CPU)", 0, 1024 },
    { "all", ARG_FLAG, &all, NULL, "pages with the numbers of all layers", 0, 0 },
    { 0 },
};

static const program explain = {
    .name = "explain",
    .arguments = "MODEL",
    .summary = "Size of the page of weft explain, and its time beside a forward.\n",
    .args = args,
    .n_positional = 1,
    .positional = &path,
};

static bool take_size(void *ud, const char *bytes, size_t n, weft_error *err)
{
    (void)err;
    *(size_t *)ud = n;
    return bytes != NULL;
}

static double time_forward(weft_session *s, const int32_t *ids)
{
    weft_error err;
    bench_check(weft_session_rewind(s, 0, &err), &err);
    const double began = bench_now();
    bench_check(weft_session_eval(s, ids, n_token, &err), &err);
    return bench_now() - began;
}

static double time_page(weft_model *m, const weft_tokenizer *t, const int32_t *ids, size_t *size)
{
    weft_error err;
    const weft_explain_options o = {
        .struct_size = sizeof o, .tokenizer = t, .token = -1, .all = all, .threads = (int)n_thread
    };
    const double began = bench_now();
    bench_check(weft_explain(m, ids, n_token, &o, take_size, size, &err), &err);
    return bench_now() - began;
}

int main(int argc, char **argv)
{
    weft_error err;
    const int code = args_parse(&explain, argc, argv);
    if (code >= 0)
        return code;
    weft_model *m = bench_must(weft_model_open(path, NULL, &err), &err);
    weft_model_info info = { .struct_size = sizeof info };
    weft_model_get_info(m, &info);
    weft_tokenizer *t = weft_tokenizer_load(path, NULL, &err); /* a random model has none */
    const weft_engine_options o = { .struct_size = sizeof o,
                                    .threads = (int)n_thread,
                                    .n_ctx = n_token,
                                    .n_batch = (int)n_token,
                                    .kv_type = WEFT_KV_F32 };
    weft_engine *e = bench_must(weft_engine_new(m, &o, &err), &err);
    weft_session *s = bench_must(weft_session_new(e, &err), &err);
    int32_t *ids = calloc((size_t)n_token, sizeof *ids);
    for (int64_t i = 0; i < n_token; i++)
        ids[i] = (int32_t)((i * 7919 + 13) % info.n_vocab);
    samples forward = { 0 }, page = { 0 };
    size_t size = 0;
    for (int64_t i = -1; i < rounds; i++) { /* the first warms the caches */
        const double a = time_forward(s, ids), b = time_page(m, t, ids, &size);
        if (i >= 0) {
            samples_add(&forward, a);
            samples_add(&page, b);
        }
    }
    const double a = samples_median(&forward), b = samples_median(&page);
    printf("forward %.1f ms, page %.1f ms: %.2f forwards; %.2f MB\n", a * 1e3, b * 1e3, b / a,
           (double)size / 1e6);
    free(ids);
    weft_session_free(s);
    weft_engine_free(e);
    weft_tokenizer_free(t);
    weft_model_close(m);
    return 0;
}
