/* schema_generate.c - texts that a model generates under JSON Schemas, for tools/schema_golden.py.
 *
 *     schema_generate MODEL TOKENIZER TOKENS
 *
 * Reads a schema a line. Generates a text of at most TOKENS tokens for each, 32 at a time, at
 * temperature 1 from the best 100 tokens. Answers each, in the order in which they end:
 *
 *     N finished BYTES     and the text; N is the number of its line. Or "cut": too many tokens
 *     N refused 0 */
#include "weft.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STREAMS  32
#define MAX_TEXT 65536

typedef struct one {
    bool busy;
    int number; /* of its line */
    weft_grammar *grammar;
    weft_constraint *constraint;
    char text[MAX_TEXT];
    size_t n;
} one;

typedef struct job {
    weft_tokenizer *tokenizer;
    weft_scheduler *scheduler;
    weft_tokens *prompt;
    int64_t n_new;
    one ones[STREAMS];
} job;

static void *must(void *p, const weft_error *err)
{
    if (p)
        return p;
    fprintf(stderr, "schema_generate: %s\n", err->message);
    exit(1);
}

static bool take(void *ud, const weft_generated *token)
{
    one *o = ud;
    if (o->n + token->length > sizeof o->text)
        return false;
    memcpy(o->text + o->n, token->text, token->length);
    o->n += token->length;
    return true;
}

static void answer(one *o, const char *how)
{
    printf("%d %s %zu\n", o->number, how, o->n);
    fwrite(o->text, 1, o->n, stdout);
    putchar('\n');
    weft_constraint_free(o->constraint);
    weft_grammar_free(o->grammar);
    *o = (one){ .busy = false };
}

static void end(void *ud, const weft_generation *info, const weft_error *err)
{
    if (err->code != WEFT_OK) {
        fprintf(stderr, "schema_generate: %s\n", err->message);
        exit(1);
    }
    answer(ud, info->finish == WEFT_FINISH_END ? "finished" : "cut");
}

static void begin(job *j, one *o, int number, const char *schema, size_t n)
{
    weft_error err = { 0 };
    *o = (one){ .busy = true, .number = number };
    o->grammar = weft_grammar_new(j->tokenizer, WEFT_GRAMMAR_SCHEMA, schema, n, NULL, &err);
    if (!o->grammar) {
        answer(o, "refused");
        return;
    }
    o->constraint = must(weft_constraint_new(o->grammar, &err), &err);
    const weft_sampler_options sampler = {
        .struct_size = sizeof sampler, .temperature = 1, .top_k = 100, .seed = (uint64_t)number + 1
    };
    const weft_generate_options generate = { .struct_size = sizeof generate,
                                             .prompt = j->prompt->ids,
                                             .n_prompt = j->prompt->n,
                                             .n_new = j->n_new,
                                             .constraint = o->constraint };
    const weft_request r = { .struct_size = sizeof r,
                             .generate = &generate,
                             .sampler = &sampler,
                             .tokenizer = j->tokenizer,
                             .fn = take,
                             .done = end,
                             .ud = o };
    if (weft_scheduler_submit(j->scheduler, &r, &err) == 0)
        must(NULL, &err);
}

static void run(job *j)
{
    char *line = NULL;
    size_t room = 0;
    int number = 0;
    bool more = true;
    ssize_t n = 0;
    while (n >= 0 || more) {
        weft_error err = { 0 };
        for (int i = 0; i < STREAMS && n >= 0; i++)
            while (!j->ones[i].busy && (n = getline(&line, &room, stdin)) > 0)
                begin(j, &j->ones[i], number++, line, (size_t)n - (line[n - 1] == '\n'));
        if (weft_scheduler_step(j->scheduler, &more, &err) != WEFT_OK)
            must(NULL, &err);
    }
    free(line);
}

int main(int argc, char **argv)
{
    static job j;
    weft_error err = { 0 };
    if (argc != 4) {
        fprintf(stderr, "usage: schema_generate MODEL TOKENIZER TOKENS\n");
        return 2;
    }
    j.n_new = atoi(argv[3]);
    const weft_engine_options o = { .struct_size = sizeof o,
                                    .n_session = STREAMS,
                                    .n_ctx = j.n_new + 64 };
    const char *prompt = "As JSON: ";
    weft_model *model = must(weft_model_open(argv[1], NULL, &err), &err);
    weft_engine *engine = must(weft_engine_new(model, &o, &err), &err);
    j.tokenizer = must(weft_tokenizer_load(argv[2], NULL, &err), &err);
    j.scheduler = must(weft_scheduler_new(engine, NULL, &err), &err);
    j.prompt = must(weft_tokenizer_encode(j.tokenizer, prompt, strlen(prompt), NULL, &err), &err);
    run(&j);
    weft_tokens_free(j.prompt);
    weft_scheduler_free(j.scheduler);
    weft_engine_free(engine);
    weft_model_close(model);
    weft_tokenizer_free(j.tokenizer);
    return 0;
}
