/* trace - writes a trace of requests for load and simulate (cli/load_file.h).
 *
 *     build/bench/trace --mix chat --rate 2.5 --requests 400 > chat.trace
 *
 * Requests, or conversations, arrive as a Poisson process. Mixes:
 *
 *     short   prompts of 32 to 128 tokens, 8 to 24 new ones
 *     shared  128 to 384 tokens of which the first 128 are one of four texts, 8 to 16 new ones
 *     chat    conversations of four turns. A turn's prompt is the whole conversation so far: 64 tokens
 *             that all share, and for each turn 24 to 72 that are asked and 16 that were answered (the
 *             answers are made up: a trace does not know them); 16 new ones. Turns are 4 / rate seconds apart
 *             or more (exponential), whether or not the one before has its answer
 *
 * The same seed gives the same trace; another rate gives the same requests, closer together. */
#include "args.h"
#include "bench.h"
#include "load_file.h"

#include "base/rng.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define N_TURN 4
#define ANSWER 16

static const char *mix = "short";
static int64_t n_request = 300, seed = 1;
static double rate = 1;

static const arg args[] = {
    { "mix", ARG_TEXT, &mix, "NAME", "short, shared or chat (short)", 0, 0 },
    { "rate", ARG_REAL, &rate, "R", "requests a second (1)", 0, 0 },
    { "requests", ARG_INT, &n_request, "N", "number of them (300)", 1, 1 << 24 },
    { "seed", ARG_INT, &seed, "N", "of lengths and times (1)", 0, 0 },
    { 0 },
};

static const program self = {
    "trace", NULL, "Writes a trace of requests that arrive as a Poisson process.\n", args, 0, NULL
};

static double uniform(uint64_t which, int64_t i)
{
    return rng_uniform((uint64_t)seed, which, (uint64_t)i);
}

static double exponential(uint64_t which, int64_t i, double mean)
{
    return -log(1 - uniform(which, i)) * mean;
}

/* An integer from a to b, both included. */
static int64_t between(uint64_t which, int64_t i, int64_t a, int64_t b)
{
    return a + (int64_t)(uniform(which, i) * (double)(b - a + 1));
}

static void add(load_trace *t, double at, int64_t n_new, const weft_load_part *part, int n_part)
{
    const weft_load_request q = { .at = at, .n_new = n_new, .part = part, .n_part = n_part };
    if (!load_trace_add(t, &q)) {
        fprintf(stderr, "trace: no memory\n");
        exit(1);
    }
}

static void add_short(load_trace *t, int64_t i, double at)
{
    const weft_load_part own = { 1000 + (uint64_t)i, between(2, i, 32, 128) };
    add(t, at, between(3, i, 8, 24), &own, 1);
}

static void add_shared(load_trace *t, int64_t i, double at)
{
    const weft_load_part parts[2] = { { 1 + (uint64_t)between(4, i, 0, 3), 128 },
                                      { 1000 + (uint64_t)i, between(2, i, 1, 256) } };
    add(t, at, between(3, i, 8, 16), parts, 2);
}

/* All turns of a conversation. */
static void add_chat(load_trace *t, int64_t i, double at)
{
    weft_load_part parts[1 + 2 * N_TURN] = { { 1, 64 } };
    int n = 1;
    for (int64_t turn = 0; turn < N_TURN && t->n < n_request; turn++) {
        const uint64_t text = 1000 + 2 * (uint64_t)(N_TURN * i + turn);
        parts[n++] = (weft_load_part){ text, between(2, N_TURN * i + turn, 24, 72) };
        add(t, at, ANSWER, parts, n);
        parts[n++] = (weft_load_part){ text + 1, ANSWER };
        at += N_TURN / rate * (1 + exponential(5, N_TURN * i + turn, 1));
    }
}

static int by_time(const void *a, const void *b)
{
    const weft_load_request *x = a, *y = b;
    if (x->at != y->at)
        return x->at < y->at ? -1 : 1;
    return (x->part > y->part) - (x->part < y->part);
}

int main(int argc, char **argv)
{
    load_trace t = { 0 };
    const int code = args_parse(&self, argc, argv);
    if (code >= 0)
        return code;
    const bool chat = strcmp(mix, "chat") == 0, shared = strcmp(mix, "shared") == 0;
    if (!chat && !shared && strcmp(mix, "short") != 0)
        return args_usage(&self, "--mix is \"%s\"; expected short, shared or chat", mix);
    if (!(rate > 0))
        return args_usage(&self, "--rate is %g; expected more than 0", rate);
    double at = 0;
    for (int64_t i = 0; t.n < n_request; i++) {
        if (chat)
            add_chat(&t, i, at);
        else if (shared)
            add_shared(&t, i, at);
        else
            add_short(&t, i, at);
        at += exponential(1, i, (chat ? N_TURN : 1) / rate);
    }
    qsort(t.at, (size_t)t.n, sizeof *t.at, by_time);
    const bool good = load_trace_write(&t, stdout) && fflush(stdout) == 0;
    load_trace_free(&t);
    return good ? 0 : 1;
}
