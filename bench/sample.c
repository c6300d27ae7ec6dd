/* sample - what picking the next token costs, chain by chain.
 *
 *     build/bench/sample [--vocab 152000] [--history 1024] [--json]
 *
 * Logits are normal numbers times 2 with twenty tokens lifted by 16, which then hold most of the
 * probability, as in language; `flat` is without either. Beside each chain: one pass over the logits
 * that only looks for the largest, which no sampler can do without. */
#include "args.h"
#include "bench.h"

#include "base/rng.h"
#include "engine/sampler.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static int64_t n_vocab = 152000, n_history = 1024, n_repeat = 21;
static bool json;

static const arg args[] = {
    { "vocab", ARG_INT, &n_vocab, "N", "tokens of the vocabulary (152000)", 32, 1 << 24 },
    { "history", ARG_INT, &n_history, "N", "tokens before (1024)", 0, 1 << 20 },
    { "repeat", ARG_INT, &n_repeat, "N", "samples of each (21)", 1, 64 },
    { "smoke", ARG_FLAG, &bench_smoke, NULL, "see only that it runs", 0, 0 },
    { "json", ARG_FLAG, &json, NULL, "one JSON object a line", 0, 0 },
    { 0 },
};

static const program self = {
    "sample", NULL, "Measures what picking the next token costs, chain by chain.\n", args, 0, NULL
};

enum { N_TEXT = 8 }; /* several sets of logits, so that branches are not predicted */

static float *make_logits(bool flat)
{
    float *z = malloc((size_t)(N_TEXT * n_vocab) * sizeof *z);
    if (!z)
        exit(1);
    for (int64_t i = 0; i < N_TEXT * n_vocab; i++)
        z[i] = (float)rng_normal(1, 0, (uint64_t)i) * (flat ? 0.1f : 2);
    for (int64_t i = 0; i < N_TEXT * 20 && !flat; i++)
        z[i / 20 * n_vocab + rng_draw(2, 0, (uint64_t)i).word[0] % n_vocab] += 16;
    return z;
}

/* CPU seconds of this thread, independent of other load. */
static double cpu_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static double pass_seconds(const float *z)
{
    const double begin = cpu_now();
    int64_t at = 0;
    for (int64_t i = 1; i < n_vocab; i++)
        at = z[i] > z[at] ? i : at;
    __asm__ volatile("" : : "r"(at)); /* somebody wants to know */
    return cpu_now() - begin;
}

static void measure(const char *name, weft_sampler_options o, const float *z, mem *m)
{
    weft_error err = { 0 };
    samples pick = { .n = 0 }, pass = { .n = 0 };
    int32_t *ids = calloc((size_t)n_history + 1, sizeof *ids), id;
    sampler *s = bench_must(sampler_new(m, n_vocab, &o, &err), &err);
    bench_must(ids, &err);
    for (int64_t i = 0; i < n_history; i++)
        ids[i] = (int32_t)(rng_draw(3, 0, (uint64_t)i).word[0] % (uint64_t)n_vocab);
    for (int64_t r = 0; r < n_repeat; r++) {
        const float *logits = z + r % N_TEXT * n_vocab;
        samples_add(&pass, pass_seconds(logits));
        const double begin = cpu_now();
        bench_check(sampler_pick(s, logits, ids, n_history, &id, &err), &err);
        samples_add(&pick, cpu_now() - begin);
    }
    const double us = samples_median(&pick) * 1e6, pass_us = samples_median(&pass) * 1e6;
    if (json)
        printf("{\"chain\":\"%s\",\"microseconds\":%.1f,\"pass\":%.1f}\n", name, us, pass_us);
    else
        printf("%-40s %9.1f %9.1f\n", name, us, pass_us);
    sampler_free(s);
    free(ids);
}

int main(int argc, char **argv)
{
    const int code = args_parse(&self, argc, argv);
    if (code >= 0)
        return code;
    mem m;
    mem_init(&m, 0, NULL);
    float *z = make_logits(false), *flat = make_logits(true);
    const weft_sampler_options usual = {
        .temperature = 0.8, .top_k = 40, .top_p = 0.95, .min_p = 0.05
    };
    weft_sampler_options repeat = usual;
    repeat.repetition = 1.1;
    repeat.dry_multiplier = 0.8;
    if (!json)
        printf("%lld tokens, %lld before; microseconds a token\n%-40s %9s %9s\n",
               (long long)n_vocab, (long long)n_history, "", "pick", "one pass");
    measure("greedy", (weft_sampler_options){ 0 }, z, &m);
    measure("temperature, top_k 40, top_p, min_p", usual, z, &m);
    measure("the same with penalties and dry", repeat, z, &m);
    measure("temperature, min_p", (weft_sampler_options){ .temperature = 0.8, .min_p = 0.05 }, z,
            &m);
    measure("temperature, top_p", (weft_sampler_options){ .temperature = 0.8, .top_p = 0.95 }, z,
            &m);
    measure("temperature", (weft_sampler_options){ .temperature = 1 }, z, &m);
    measure("typical", (weft_sampler_options){ .temperature = 1, .typical = 0.9 }, z, &m);
    measure("flat: temperature, top_p", (weft_sampler_options){ .temperature = 1, .top_p = 0.95 },
            flat, &m);
    free(z);
    free(flat);
    return 0;
}
