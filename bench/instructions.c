/* instructions - three small works whose instructions tools/check-instructions.sh counts under
 * callgrind: one token after a prompt, the prompt, a step of training.
 *
 *     build/bench/instructions token|prompt|step
 *
 * Times on shared machines vary by more than a change is allowed to cost; counts do not. Each work is
 * a function of its own, for callgrind to switch its counting by, and has been done once before. */
#include "bench.h"
#include "random_gguf.h"

#include "engine/session.h"
#include "train/learner.h"

#include <stdio.h>
#include <string.h>

#define N_PROMPT 64

static const random_shape small = { .arch = "llama",
                                    .n_layer = 2,
                                    .d_model = 256,
                                    .d_ff = 768,
                                    .n_head = 4,
                                    .n_head_kv = 2,
                                    .n_vocab = 1024,
                                    .n_ctx = 256,
                                    .theta = 10000 };

/* ---- the works ------------------------------------------------------------------------------- */

static void append(session *s, const int32_t *ids, int64_t n)
{
    weft_error err = { 0 };
    work w = { .session = s, .ids = ids, .n = n };
    bench_check(engine_eval(s->engine, &w, 1, &err), &err);
}

static void step(learner *l, const batch *b)
{
    weft_error err = { 0 };
    bench_check(learner_begin(l, &err), &err);
    learner_backward(l, b);
    learner_update(l, 1e-4);
}

/* The functions that callgrind counts: the same, under separate names. */
void counted_append(session *s, const int32_t *ids, int64_t n);
void counted_step(learner *l, const batch *b);

__attribute__((noinline)) void counted_append(session *s, const int32_t *ids, int64_t n)
{
    append(s, ids, n);
}

__attribute__((noinline)) void counted_step(learner *l, const batch *b)
{
    step(l, b);
}

/* ---- what is around them --------------------------------------------------------------------- */

static void inference(host *h, bool token)
{
    weft_error err = { 0 };
    model m;
    int32_t ids[N_PROMPT + 2];
    const engine_options o = { .n_thread = 1, .n_ctx = 128, .n_batch = N_PROMPT };
    for (int i = 0; i < N_PROMPT + 2; i++)
        ids[i] = (37 * i + 11) % (int32_t)small.n_vocab;
    random_gguf_open(&m, &small, &dtype_q8_0, WEFT_LOAD_COPY, h);
    engine *e = bench_must(engine_new(&m, &o, &err), &err);
    session *s = bench_must(session_new(e, &err), &err);
    append(s, ids, N_PROMPT);
    append(s, ids + N_PROMPT, 1);
    if (!token)
        bench_check(session_rewind(s, 0, &err), &err);
    counted_append(s, token ? ids + N_PROMPT + 1 : ids, token ? 1 : N_PROMPT);
    session_free(s);
    engine_free(e);
    model_close(&m);
}

static void training(host *h)
{
    weft_error err = { 0 };
    model m;
    learner l;
    batch_row row[2 * N_PROMPT];
    sequence seq[2];
    const batch b = {
        .n_row = 2 * N_PROMPT, .n_seq = 2, .n_wanted = 2 * N_PROMPT, .row = row, .seq = seq
    };
    for (int i = 0; i < b.n_row; i++)
        row[i] = (batch_row){ .id = (37 * i + 11) % (int32_t)small.n_vocab,
                              .seq = i / N_PROMPT,
                              .pos = i % N_PROMPT,
                              .target = (41 * i + 5) % (int32_t)small.n_vocab,
                              .weight = 1,
                              .wanted = true };
    for (int i = 0; i < 2; i++)
        seq[i] = (sequence){ .first = i * N_PROMPT, .n = N_PROMPT, .source = -1 };
    random_gguf_open(&m, &small, &dtype_f32, WEFT_LOAD_COPY, h);
    const learner_options o = { .n_thread = 1,
                                .adamw = { .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8 } };
    bench_check(learner_init(&l, &m, &o, &b, &err), &err);
    step(&l, &b);
    counted_step(&l, &b);
    learner_free(&l);
    model_close(&m);
}

int main(int argc, char **argv)
{
    host h = { .io = io_system };
    mem_init(&h.mem, 0, NULL);
    const char *what = argc == 2 ? argv[1] : "";
    if (strcmp(what, "token") == 0 || strcmp(what, "prompt") == 0)
        inference(&h, strcmp(what, "token") == 0);
    else if (strcmp(what, "step") == 0)
        training(&h);
    else
        return fprintf(stderr, "usage: instructions token|prompt|step\n"), 2;
    return 0;
}
