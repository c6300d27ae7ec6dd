/* constrained.c - what constraints cost in a step of many streams.
 *
 *     constrained MODEL CASES [--streams 32] [--steps 48]
 *
 * Every stream follows the text of a case of constrain.txt, each from another place on, over and
 * over. After each forward every stream draws tokens from its logits, greedily and with top-p, which
 * needs the whole mask, each with and without a constraint. What is drawn is not used. Grammars are shared by the streams of a case, as in the server, and compiled anew with every
 * run, so their automata are warmed by what is measured. Draws are measured in one thread; a server
 * spreads them over all, so its share is smaller. */
#include "args.h"
#include "bench.h"
#include "cases.h"
#include "weft.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_STREAM 256

static const char *positional[2];
static int64_t n_stream = 32, n_step = 48, n_thread;

static const arg args[] = {
    { "streams", ARG_INT, &n_stream, "N", "texts side by side (32)", 1, MAX_STREAM },
    { "steps", ARG_INT, &n_step, "N", "forwards (48)", 1, 64 },
    { "threads", ARG_INT, &n_thread, "N", "threads of a forward (all processors)", 1, 1024 },
    { 0 },
};

static const program self = {
    .name = "constrained",
    .arguments = "MODEL CASES",
    .summary = "Measures what constraints cost in a step of many streams.\n",
    .args = args,
    .n_positional = 2,
    .positional = positional,
};

enum { GREEDY, GREEDY_CONSTRAINED, TOP_P, TOP_P_CONSTRAINED, N_DRAW };

typedef struct stream_state {
    weft_session *session;
    weft_tokens *text; /* of its case; it is at token `at` */
    weft_constraint *constraint;
    int64_t at;
} stream_state;

typedef struct job {
    weft_model *model;
    weft_tokenizer *tokenizer;
    weft_engine *engine;
    weft_grammar *grammar[MAX_CASE];
    weft_sampler *sampler[N_DRAW];
    stream_state stream[MAX_STREAM];
    samples forward, draw[N_DRAW], accept;
} job;

/* The next token of a stream, at whose end it begins again. */
static int32_t advance(stream_state *s)
{
    weft_error err;
    if (s->at == s->text->n) {
        weft_constraint_reset(s->constraint);
        s->at = 0;
    }
    const int32_t id = s->text->ids[s->at++];
    bench_check(weft_constraint_accept(s->constraint, id, &err), &err);
    return id;
}

static void forward(job *j)
{
    static weft_eval_request work[MAX_STREAM];
    static int32_t ids[MAX_STREAM];
    weft_error err;
    double start = bench_now();
    for (int64_t i = 0; i < n_stream; i++)
        ids[i] = advance(&j->stream[i]);
    samples_add(&j->accept, bench_now() - start);
    for (int64_t i = 0; i < n_stream; i++)
        work[i] = (weft_eval_request){ .session = j->stream[i].session, .ids = ids + i, .n = 1 };
    start = bench_now();
    bench_check(weft_engine_step(j->engine, work, (int)n_stream, &err), &err);
    samples_add(&j->forward, bench_now() - start);
}

static void draw(job *j, int kind)
{
    weft_error err;
    int32_t id;
    const double start = bench_now();
    for (int64_t i = 0; i < n_stream; i++) {
        stream_state *s = &j->stream[i];
        weft_constraint *c = kind % 2 ? s->constraint : NULL;
        bench_check(weft_sampler_constrain(j->sampler[kind], c, &err), &err);
        bench_check(weft_sampler_next(j->sampler[kind], s->session, &id, &err), &err);
    }
    samples_add(&j->draw[kind], bench_now() - start);
}

static void open_all(job *j, const cases *c)
{
    weft_error err;
    const weft_engine_options o = {
        .struct_size = sizeof o, .threads = (int)n_thread, .n_session = (int)n_stream, .n_ctx = 256
    };
    const weft_sampler_options greedy = { .struct_size = sizeof greedy }, top_p = {
        .struct_size = sizeof top_p, .temperature = 0.8F, .top_p = 0.95F
    };
    j->model = bench_must(weft_model_open(positional[0], NULL, &err), &err);
    j->tokenizer = bench_must(weft_tokenizer_load(positional[0], NULL, &err), &err);
    j->engine = bench_must(weft_engine_new(j->model, &o, &err), &err);
    for (int kind = 0; kind < N_DRAW; kind++)
        j->sampler[kind] = bench_must(
            weft_sampler_new(j->model, kind < TOP_P ? &greedy : &top_p, &err), &err);
    for (int i = 0; i < c->n; i++)
        j->grammar[i] = bench_must(weft_grammar_new(j->tokenizer, WEFT_GRAMMAR_SCHEMA, c->schema[i],
                                                    strlen(c->schema[i]), NULL, &err),
                                   &err);
}

static void open_stream(job *j, const cases *c, int64_t i)
{
    weft_error err;
    const weft_tokenize_options plain = { .struct_size = sizeof plain, .no_special = true };
    stream_state *s = &j->stream[i];
    const char *text = c->text[i % c->n];
    s->session = bench_must(weft_session_new(j->engine, &err), &err);
    s->text = bench_must(weft_tokenizer_encode(j->tokenizer, text, strlen(text), &plain, &err),
                         &err);
    s->constraint = bench_must(weft_constraint_new(j->grammar[i % c->n], &err), &err);
    for (int64_t k = 0; k < i / c->n * 7; k++)
        advance(s);
}

static void close_all(job *j, const cases *c)
{
    for (int64_t i = 0; i < n_stream; i++) {
        weft_constraint_free(j->stream[i].constraint);
        weft_tokens_free(j->stream[i].text);
        weft_session_free(j->stream[i].session);
    }
    for (int i = 0; i < c->n; i++)
        weft_grammar_free(j->grammar[i]);
    for (int kind = 0; kind < N_DRAW; kind++)
        weft_sampler_free(j->sampler[kind]);
    weft_engine_free(j->engine);
    weft_tokenizer_free(j->tokenizer);
    weft_model_close(j->model);
}

int main(int argc, char **argv)
{
    static job j;
    const int code = args_parse(&self, argc, argv);
    if (code >= 0)
        return code;
    cases c = cases_read(positional[1]);
    open_all(&j, &c);
    for (int64_t i = 0; i < n_stream; i++)
        open_stream(&j, &c, i);
    for (int64_t step = 0; step < n_step; step++) {
        forward(&j);
        for (int kind = 0; kind < N_DRAW; kind++)
            draw(&j, kind);
    }
    const double forward_ms = 1e3 * samples_median(&j.forward),
                 accept_ms = 1e3 * samples_median(&j.accept);
    printf("%d streams: forward %.2f ms, accepting %.3f ms\n", (int)n_stream, forward_ms,
           accept_ms);
    for (int kind = GREEDY; kind < N_DRAW; kind += 2) {
        const double plain = 1e3 * samples_median(&j.draw[kind]),
                     constrained = 1e3 * samples_median(&j.draw[kind + 1]);
        printf("%-6s draws %.2f ms, constrained %.2f ms: %.2f %% more of a step\n",
               kind == GREEDY ? "greedy" : "top-p", plain, constrained,
               100 * (constrained - plain + accept_ms) / (forward_ms + plain));
    }
    close_all(&j, &c);
    cases_free(&c);
    return 0;
}
