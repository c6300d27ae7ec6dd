/* generate - a model from a file reads a prompt and generates, each from an empty context, with
 * random tokens (as llama-bench does, so that the two can be compared).
 *
 *     build/bench/generate MODEL [--threads N] [--prompt 512] [--generate 32] [--json]
 *
 * The limits: a prompt cannot be read faster than the multiply-adds of its products take (the head
 * counts once, attention not at all); a token cannot be generated faster than memory gives up the
 * weights. Files to measure with come from build/tools/random_model. */
#include "args.h"
#include "bench.h"

#include "base/rng.h"
#include "engine/session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *path, *kv_name;
static int64_t n_thread, n_prompt = 512, n_generate = 32, n_repeat = 3, n_batch;
static bool json, by_op, bf16;

static const arg args[] = {
    { "threads", ARG_INT, &n_thread, "N", "threads (all processors)", 1, 1024 },
    { "prompt", ARG_INT, &n_prompt, "N", "tokens of the prompt; 0: none (512)", 0, 1 << 20 },
    { "generate", ARG_INT, &n_generate, "N", "tokens to generate; 0: none (32)", 0, 1 << 20 },
    { "repeat", ARG_INT, &n_repeat, "N",
      "steady samples of each; 0: with --by-op, only that pass (3)", 0, 20 },
    { "batch", ARG_INT, &n_batch, "N", "rows of a step (the engine's default)", 1, 65536 },
    { "kv", ARG_TEXT, &kv_name, "TYPE", "of cached keys and values (the engine's default)", 0, 0 },
    { "bf16", ARG_FLAG, &bf16, NULL, "products in class bf16", 0, 0 },
    { "by-op", ARG_FLAG, &by_op, NULL, "show where the time of a last prompt and token went", 0,
      0 },
    { "smoke", ARG_FLAG, &bench_smoke, NULL, "see only that it runs: rough limits", 0, 0 },
    { "json", ARG_FLAG, &json, NULL, "one JSON object a line", 0, 0 },
    { 0 },
};

static const program self = {
    "generate",
    "MODEL",
    "Measures tokens a second for a prompt and for generation, as shares of what the machine's\n"
    "multiply-adds and memory allow in the same minutes.\n",
    args,
    1,
    &path
};

/* ---- what the model asks of the machine ------------------------------------------------------ */

typedef struct weights {
    double linear; /* values of the matrices that multiply every row of a prompt */
    double head;   /* values of the output matrix */
    double bytes;  /* bytes read for one generated token */
    bool quantised;
    const char *type;
} weights;

static weights weigh(const model *m)
{
    weights w = { .type = "f32" };
    double embedding = 0;
    bool untied = false;
    for (int64_t i = 0; i < m->n_param; i++) {
        const tensor *t = m->param[i];
        const double n = (double)(t->n_dim > 1 ? rows(t) : 1) * (double)cols(t);
        const double bytes = n / t->type->block * t->type->bytes;
        if (strncmp(t->name, "token_embd", 10) == 0) {
            embedding = bytes;
            w.head = n;
        } else if (strncmp(t->name, "position_embd", 13) != 0) {
            untied = untied || strncmp(t->name, "output.", 7) == 0;
            w.bytes += bytes;
            if (t->n_dim > 1 && strncmp(t->name, "output.", 7) != 0) {
                w.linear += n;
                w.quantised = t->type->block > 1;
                w.type = t->type->name;
            }
        }
    }
    w.bytes += untied ? 0 : embedding;
    return w;
}

/* ---- the work -------------------------------------------------------------------------------- */

typedef struct job {
    engine *engine;
    session *session;
    int32_t *ids;
    uint64_t draw;
} job;

static void append(job *j, const int32_t *ids, int64_t n)
{
    weft_error err = { 0 };
    work w = { .session = j->session, .ids = ids, .n = n };
    bench_check(engine_eval(j->engine, &w, 1, &err), &err);
}

static double begin(job *j)
{
    weft_error err = { 0 };
    bench_check(session_rewind(j->session, 0, &err), &err);
    const int64_t n = n_prompt > n_generate ? n_prompt : n_generate;
    for (int64_t i = 0; i < n; i++)
        j->ids[i] = (int32_t)(rng_draw(7, j->draw, (uint64_t)i).word[0] %
                              (uint32_t)j->engine->model->n_vocab);
    j->draw++;
    return bench_now();
}

static double read_prompt(void *ud)
{
    job *j = ud;
    const double began = begin(j);
    append(j, j->ids, n_prompt);
    return bench_now() - began;
}

static double generate(void *ud)
{
    job *j = ud;
    const double began = begin(j);
    for (int64_t i = 0; i < n_generate; i++)
        append(j, &j->ids[i], 1);
    return bench_now() - began;
}

/* ---- the report ------------------------------------------------------------------------------ */

static void report(const char *what, int64_t n, const timings *t, const weights *w)
{
    const bool prompt = strcmp(what, "prompt") == 0;
    const double products = (double)n * w->linear + w->head;
    const demand f32 = { .flops = 2 * products }, int8 = { .int8 = 2 * products };
    const demand tiles = { .bf16 = 2 * products };
    const demand read = { .bytes = (double)n * w->bytes };
    const double speed = (double)n / timings_seconds(t);
    const limits at = timings_limits(t);
    if (json) {
        printf("{\"work\":\"%s\",\"type\":\"%s\",\"tokens\":%lld,\"tokens_per_second\":%.4g,"
               "\"spread\":%.3f,\"samples\":%d,\"steady\":%d,\"thrown\":%d,"
               "\"share_of_f32\":%.4f,\"share_of_int8\":%.4f,\"share_of_bf16\":%.4f,"
               "\"share_of_memory\":%.4f,"
               "\"read_bytes_per_second\":%.4g,\"f32_flops_per_second\":%.4g,"
               "\"int8_ops_per_second\":%.4g,\"bf16_flops_per_second\":%.4g}\n",
               what, w->type, (long long)n, speed, timings_spread(t), t->n, t->steady, t->thrown,
               timings_share(t, &f32), timings_share(t, &int8), timings_share(t, &tiles),
               timings_share(t, &read), at.read, at.flops, at.int8, at.bf16);
        return;
    }
    printf("%-8s %5lld tokens  %8.2f tok/s", what, (long long)n, speed);
    if (prompt)
        printf("  %5.1f %% of f32 multiply-adds (%.0f GFLOP/s)", 100 * timings_share(t, &f32),
               at.flops / 1e9);
    if (prompt && bf16)
        printf("  %5.1f %% of bf16 (%.0f GFLOP/s)", 100 * timings_share(t, &tiles), at.bf16 / 1e9);
    if (prompt && w->quantised && !bf16)
        printf("  %5.1f %% of int8 (%.0f GOP/s)", 100 * timings_share(t, &int8), at.int8 / 1e9);
    if (!prompt)
        printf("  %5.1f %% of memory bandwidth (%.1f GB/s)", 100 * timings_share(t, &read),
               at.read / 1e9);
    printf("  spread %.0f %%%s\n", 100 * timings_spread(t),
           t->steady ? "" : "  (unsteady machine)");
    fflush(stdout);
}

static void measure(job *j, const weights *w, const char *what, int64_t n, work_fn *fn)
{
    if (n == 0)
        return;
    timings t;
    profile p = { 0 };
    if (n_repeat > 0) {
        bench_time(&t, j->engine->pool, fn, j, (int)n_repeat);
        report(what, n, &t, w);
    }
    if (by_op) {
        j->engine->run.profile = &p;
        const double seconds = fn(j);
        j->engine->run.profile = NULL;
        bench_print_profile(&p, what, seconds, json);
    }
}

int main(int argc, char **argv)
{
    const int code = args_parse(&self, argc, argv);
    if (code >= 0)
        return code;
    weft_error err = { 0 };
    host h = { .io = io_system };
    mem_init(&h.mem, 0, NULL);
    model m;
    engine_options o = { .n_thread = (int)n_thread, .n_batch = (int)n_batch };
    o.kv = kv_name ? dtype_by_name(kv_name) : NULL;
    if (kv_name && (!o.kv || !o.kv->encode))
        return args_usage(&self, "--kv is \"%s\", a type that weft does not cache in", kv_name);
    const int64_t n = n_prompt > n_generate ? n_prompt : n_generate;
    o.n_ctx = n > 0 ? n : 1;
    bench_check(model_open(&m, path, WEFT_LOAD_MAP, &h, &err), &err);
    if (bf16)
        model_compute_bf16(&m);

    job j = { .engine = bench_must(engine_new(&m, &o, &err), &err) };
    j.session = bench_must(session_new(j.engine, &err), &err);
    j.ids = bench_must(calloc((size_t)o.n_ctx, sizeof *j.ids), NULL);
    const weights w = weigh(&m);
    bench_print_machine(j.engine->pool, j.engine->model->kern->name, json);
    append(&j, j.ids, 1); /* from here on every weight is in memory */
    measure(&j, &w, "prompt", n_prompt, read_prompt);
    measure(&j, &w, "generate", n_generate, generate);

    free(j.ids);
    session_free(j.session);
    engine_free(j.engine);
    model_close(&m);
    return 0;
}
