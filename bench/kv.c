/* kv - the cost of a smaller KV cache: evaluates the same text with each cache type and compares it
 * with f32.
 *
 *     build/bench/kv MODEL TEXT [--tokenizer FILE] [--context N] [--tokens N] [--json]
 *
 * Deterministic: measures no time. */
#include "args.h"
#include "bench.h"

#include <stdio.h>
#include <stdlib.h>

static const char *positional[2], *tokenizer_path;
static int64_t n_thread, n_ctx, n_token;
static bool json;

static const arg args[] = {
    { "tokenizer", ARG_TEXT, &tokenizer_path, "FILE", "what the text is read with (MODEL)", 0, 0 },
    { "context", ARG_INT, &n_ctx, "N", "tokens of a window (the model's, at most 4096)", 2,
      1 << 20 },
    { "tokens", ARG_INT, &n_token, "N", "of the text, from its beginning (all)", 2, 1 << 30 },
    { "threads", ARG_INT, &n_thread, "N", "threads (all processors)", 1, 1024 },
    { "json", ARG_FLAG, &json, NULL, "one JSON object a line", 0, 0 },
    { 0 },
};

static const program self = {
    "kv",
    "MODEL TEXT",
    "Measures what a cache of keys and values in f16, bf16 and q8_0 changes in the predictions\n"
    "of a model: KL divergence from the same model with a cache in f32, token by token.\n",
    args,
    2,
    positional
};

static char *read_text(const char *path, size_t *size)
{
    FILE *f = fopen(path, "rb");
    char *text = NULL;
    if (f && fseek(f, 0, SEEK_END) == 0) {
        *size = (size_t)ftell(f);
        rewind(f);
        text = malloc(*size + 1);
        if (text && fread(text, 1, *size, f) != *size)
            exit(1);
    }
    if (f)
        fclose(f);
    if (!text)
        fprintf(stderr, "kv: cannot read %s\n", path);
    return text;
}

static size_t bytes_per_token(weft_model *m, weft_kv_type type)
{
    weft_error err = { 0 };
    const weft_engine_options o = { .struct_size = sizeof o, .n_ctx = 1, .kv_type = type };
    weft_memory_plan plan = { .struct_size = sizeof plan };
    bench_check(weft_engine_plan(m, &o, &plan, &err), &err);
    return plan.kv_bytes / PAGE_ROWS;
}

static void compare(weft_model *m, const weft_document *d, weft_kv_type type, const char *name)
{
    weft_error err = { 0 };
    const weft_evaluate_options o = { .struct_size = sizeof o,
                                      .threads = (int)n_thread,
                                      .n_ctx = n_ctx,
                                      .kv_type = type,
                                      .against_kv_type = WEFT_KV_F32 };
    weft_evaluation e = { .struct_size = sizeof e };
    const weft_status status = weft_evaluate(m, m, d, 1, &o, &e, &err);
    if (status == WEFT_EUNSUPPORTED) {
        fprintf(stderr, "%s\n", err.message);
        return;
    }
    bench_check(status, &err);
    printf(json ? "{\"kv\":\"%s\",\"bytes_per_token\":%zu,\"tokens\":%lld,\"perplexity\":%.6f,"
                  "\"kl_mean\":%.4g,\"kl_p99\":%.4g,\"kl_max\":%.4g,\"same_top\":%.5f}\n"
                : "%-5s %8zu %9lld %12.6f %10.3g %10.3g %10.3g %9.3f %%\n",
           name, bytes_per_token(m, type), (long long)e.n_token, e.perplexity, e.kl_mean, e.kl_p99,
           e.kl_max, (json ? 1 : 100) * e.same_top);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    const int code = args_parse(&self, argc, argv);
    if (code >= 0)
        return code;
    weft_error err = { 0 };
    size_t size = 0;
    char *text = read_text(positional[1], &size);
    if (!text)
        return 1;
    weft_model *m = bench_must(weft_model_open(positional[0], NULL, &err), &err);
    weft_tokenizer *t = bench_must(
        weft_tokenizer_load(tokenizer_path ? tokenizer_path : positional[0], NULL, &err), &err);
    weft_tokens *ids = bench_must(weft_tokenizer_encode(t, text, size, NULL, &err), &err);
    const weft_document d = { ids->ids, n_token && n_token < ids->n ? n_token : ids->n };
    if (!json)
        printf(
            "cache  bytes/token  tokens   perplexity    KL mean        p99        max  same top\n");
    compare(m, &d, WEFT_KV_F32, "f32");
    compare(m, &d, WEFT_KV_F16, "f16");
    compare(m, &d, WEFT_KV_BF16, "bf16");
    compare(m, &d, WEFT_KV_Q8_0, "q8_0");
    weft_tokens_free(ids);
    weft_tokenizer_free(t);
    weft_model_close(m);
    free(text);
    return 0;
}
