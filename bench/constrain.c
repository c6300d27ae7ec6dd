/* constrain.c - how long grammars take to compile, and masks to compute.
 *
 *     constrain TOKENIZER CASES [--rounds N]
 *
 * CASES has two lines for each case: a JSON schema, and a text that fits it. Every round compiles
 * each schema anew, then walks along its text, and takes the mask before each token: nothing is warm
 * but what the same text has warmed. Times are of the processor, in one thread. */
#include "args.h"
#include "bench.h"
#include "cases.h"
#include "weft.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *positional[2];
static int64_t rounds = 5;
static bool each;

static const arg args[] = {
    { "rounds", ARG_INT, &rounds, "N", "times that every case is compiled and walked (5)", 1,
      1000 },
    { "each", ARG_FLAG, &each, NULL, "a line for each case: its mean and its slowest mask", 0, 0 },
    { 0 },
};

static const program constrain = {
    .name = "constrain",
    .arguments = "TOKENIZER CASES",
    .summary =
        "Compiles JSON schemas and computes the mask before each token of a text that fits.\n",
    .args = args,
    .n_positional = 2,
    .positional = positional,
};

typedef struct times {
    double *at;
    size_t n, room;
} times;

static void times_add(times *t, double seconds)
{
    if (t->n == t->room) {
        t->room = t->room ? 2 * t->room : 4096;
        t->at = realloc(t->at, t->room * sizeof *t->at);
        if (!t->at)
            abort();
    }
    t->at[t->n++] = seconds;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void times_print(times *t, const char *what)
{
    double sum = 0;
    for (size_t i = 0; i < t->n; i++)
        sum += t->at[i];
    qsort(t->at, t->n, sizeof *t->at, by_value);
    printf("%-8s %8zu   mean %9.1f   p50 %9.1f   p99 %9.1f   max %9.1f us\n", what, t->n,
           1e6 * sum / (double)t->n, 1e6 * t->at[t->n / 2], 1e6 * t->at[t->n - 1 - t->n / 100],
           1e6 * t->at[t->n - 1]);
}

/* The mask before each token of a text, and before its end. */
static void walk(weft_constraint *c, const weft_tokens *k, uint64_t *bits, int64_t n_vocab,
                 times *masks)
{
    weft_error err;
    for (int64_t i = 0; i <= k->n; i++) {
        const double start = bench_cpu();
        bench_check(weft_constraint_mask(c, bits, n_vocab, &err), &err);
        times_add(masks, bench_cpu() - start);
        if (i < k->n)
            bench_check(weft_constraint_accept(c, k->ids[i], &err), &err);
    }
    if (!weft_constraint_may_end(c)) {
        fprintf(stderr, "constrain: a text ends too early\n");
        exit(1);
    }
}

static void run_case(weft_tokenizer *t, const char *schema, const char *text, uint64_t *bits,
                     int64_t n_vocab, times *compiles, times *masks)
{
    weft_error err;
    const weft_tokenize_options plain = { .struct_size = sizeof plain, .no_special = true };
    weft_tokens *k = bench_must(weft_tokenizer_encode(t, text, strlen(text), &plain, &err), &err);
    const size_t before = masks->n;
    const double start = bench_cpu();
    weft_grammar *g = bench_must(
        weft_grammar_new(t, WEFT_GRAMMAR_SCHEMA, schema, strlen(schema), NULL, &err), &err);
    times_add(compiles, bench_cpu() - start);
    weft_constraint *c = bench_must(weft_constraint_new(g, &err), &err);
    walk(c, k, bits, n_vocab, masks);
    double sum = 0, worst = 0;
    for (size_t i = before; i < masks->n; i++) {
        sum += masks->at[i];
        worst = masks->at[i] > worst ? masks->at[i] : worst;
    }
    if (each)
        printf("compile %8.1f  mean %8.1f  max %8.1f us  %.60s\n",
               1e6 * compiles->at[compiles->n - 1], 1e6 * sum / (double)(masks->n - before),
               1e6 * worst, schema);
    weft_constraint_free(c);
    weft_grammar_free(g);
    weft_tokens_free(k);
}

int main(int argc, char **argv)
{
    times compiles = { 0 }, masks = { 0 };
    weft_error err;
    const int code = args_parse(&constrain, argc, argv);
    if (code >= 0)
        return code;
    cases c = cases_read(positional[1]);
    weft_tokenizer *t = bench_must(weft_tokenizer_load(positional[0], NULL, &err), &err);
    weft_tokenizer_info info = { .struct_size = sizeof info };
    weft_tokenizer_get_info(t, &info);
    uint64_t *bits = calloc((size_t)info.n_vocab / 64 + 1, sizeof *bits);
    const double start = bench_cpu();
    weft_grammar_free(weft_grammar_new(t, WEFT_GRAMMAR_REGEX, "a", 1, NULL, &err));
    printf("%s: %d tokens, trie in %.1f ms; %d cases\n", positional[0], (int)info.n_vocab,
           1e3 * (bench_cpu() - start), c.n);
    for (int64_t r = 0; bits && r < rounds; r++)
        for (int i = 0; i < c.n; i++)
            run_case(t, c.schema[i], c.text[i], bits, info.n_vocab, &compiles, &masks);
    times_print(&compiles, "compile");
    times_print(&masks, "mask");
    cases_free(&c);
    free(compiles.at);
    free(masks.at);
    free(bits);
    weft_tokenizer_free(t);
    return 0;
}
