/* forced.c - what it gains that text without a choice skips the model.
 *
 *     forced MODEL SCHEMA PROMPT [--rounds N] [--threads N] [--new N]
 *
 * Generates JSON that fits the schema, greedily, alternating: with forced tokens, and with every token
 * drawn. The two texts may differ after the first key, because the tokens of a key are the
 * tokenizer's in one, the model's choice in the other; so bytes a second are given beside tokens. */
#include "args.h"
#include "bench.h"
#include "weft.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *positional[3];
static int64_t rounds = 7, n_thread, n_new = 400;
static bool show;

static const arg args[] = {
    { "rounds", ARG_INT, &rounds, "N", "texts of each kind (7)", 1, 64 },
    { "threads", ARG_INT, &n_thread, "N", "threads (one per CPU)", 0, 1024 },
    { "new", ARG_INT, &n_new, "N", "maximum tokens of a text (400)", 1, 100000 },
    { "show", ARG_FLAG, &show, NULL, "print the two texts", 0, 0 },
    { 0 },
};

static const program forced = {
    .name = "forced",
    .arguments = "MODEL SCHEMA PROMPT",
    .summary =
        "Generates JSON with and without drawing the tokens about which there is no choice.\n",
    .args = args,
    .n_positional = 3,
    .positional = positional,
};

typedef struct desk {
    weft_tokenizer *tokenizer;
    weft_session *session;
    weft_constraint *constraint;
    weft_tokens *prompt;
    char text[65536];
    size_t n;
} desk;

static bool take(void *ud, const weft_generated *t)
{
    desk *d = ud;
    if (t->length < sizeof d->text - d->n) {
        memcpy(d->text + d->n, t->text, t->length);
        d->n += t->length;
    }
    return true;
}

static weft_generation generate_text(desk *d, bool draw_all)
{
    weft_error err;
    weft_generation made = { .struct_size = sizeof made };
    const weft_generate_options o = { .struct_size = sizeof o,
                                      .prompt = d->prompt->ids,
                                      .n_prompt = d->prompt->n,
                                      .n_new = n_new,
                                      .constraint = d->constraint,
                                      .draw_all = draw_all };
    d->n = 0;
    weft_constraint_reset(d->constraint);
    bench_check(weft_generate(d->session, NULL, d->tokenizer, &o, take, d, &made, &err), &err);
    return made;
}

static weft_grammar *read_grammar(weft_tokenizer *t, const weft_model *m, const char *path)
{
    static char schema[65536];
    weft_error err;
    FILE *f = fopen(path, "r");
    const size_t n = f ? fread(schema, 1, sizeof schema, f) : 0;
    if (!f || n == sizeof schema) {
        fprintf(stderr, "forced: %s: expected a schema of less than 64 KiB\n", path);
        exit(1);
    }
    fclose(f);
    const weft_grammar_options o = { .struct_size = sizeof o, .model = m };
    return bench_must(weft_grammar_new(t, WEFT_GRAMMAR_SCHEMA, schema, n, &o, &err), &err);
}

static void measure(desk *d)
{
    static const char *const name[] = { "forced", "drawn" };
    samples seconds[2] = { 0 };
    weft_generation made[2];
    size_t n[2];
    for (int64_t i = -2; i < 2 * rounds; i++) { /* the first two warm the caches */
        const int kind = i & 1;
        made[kind] = generate_text(d, kind == 1);
        n[kind] = d->n;
        if (i >= 0)
            samples_add(&seconds[kind], made[kind].generate_seconds);
        if (i < 0 && show)
            printf("%-7s %.*s\n", name[kind], (int)d->n, d->text);
    }
    double rate[2];
    for (int kind = 0; kind < 2; kind++) {
        const double s = samples_median(&seconds[kind]);
        rate[kind] = (double)n[kind] / s;
        printf("%-7s %4lld tokens, %5zu bytes in %.3f s: %.1f tok/s, %.0f bytes/s\n", name[kind],
               (long long)made[kind].n_new, n[kind], s, (double)made[kind].n_new / s, rate[kind]);
    }
    printf("gain    %.2f by bytes\n", rate[0] / rate[1]);
}

int main(int argc, char **argv)
{
    static desk d;
    weft_error err;
    const int code = args_parse(&forced, argc, argv);
    if (code >= 0)
        return code;
    weft_model *m = bench_must(weft_model_open(positional[0], NULL, &err), &err);
    const weft_engine_options o = { .struct_size = sizeof o, .threads = (int)n_thread };
    d.tokenizer = bench_must(weft_tokenizer_load(positional[0], NULL, &err), &err);
    weft_engine *e = bench_must(weft_engine_new(m, &o, &err), &err);
    d.session = bench_must(weft_session_new(e, &err), &err);
    weft_grammar *g = read_grammar(d.tokenizer, m, positional[1]);
    d.constraint = bench_must(weft_constraint_new(g, &err), &err);
    d.prompt = bench_must(
        weft_tokenizer_encode(d.tokenizer, positional[2], strlen(positional[2]), NULL, &err), &err);
    measure(&d);
    weft_tokens_free(d.prompt);
    weft_constraint_free(d.constraint);
    weft_grammar_free(g);
    weft_session_free(d.session);
    weft_engine_free(e);
    weft_tokenizer_free(d.tokenizer);
    weft_model_close(m);
    return 0;
}
