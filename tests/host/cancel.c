/* cancel.c - four host threads evaluate, each with an engine of two threads on one model, while
 * another cancels their sessions: uncancelled evals give the same bits as alone, cancelled ones
 * leave no trace. With the thread sanitizer it also checks for data races. */
#include "say.h"

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#define N_WORKER 4
#define N_TOKEN  24
#define ROUNDS   (SANITIZED ? 40 : 400)

static int32_t text[N_TOKEN];

typedef struct worker {
    weft_model *model;
    _Atomic(weft_session *) session; /* for the one who cancels */
    const float *answer;
    int64_t n_vocab;
    int wrong;
    char why[256];
} worker;

static _Atomic int stopped, done; /* evals of all workers */

static weft_session *open_session(weft_model *m, weft_engine **engine, weft_error *err)
{
    const weft_engine_options o = { .struct_size = sizeof o, .threads = 2, .n_batch = 5 };
    *engine = weft_engine_new(m, &o, err);
    return *engine ? weft_session_new(*engine, err) : NULL;
}

static void one_round(worker *w, weft_session *s, weft_sampler *sampler)
{
    weft_error err = { 0 };
    int32_t id;
    const weft_status status = weft_session_eval(s, text, N_TOKEN, &err);
    atomic_fetch_add(&stopped, status == WEFT_ESTOPPED);
    atomic_fetch_add(&done, status == WEFT_OK);
    if (status == WEFT_OK)
        w->wrong += memcmp(weft_session_logits(s), w->answer, (size_t)w->n_vocab * sizeof(float)) !=
                        0 ||
                    weft_sampler_next(sampler, s, &id, &err) != WEFT_OK;
    else
        w->wrong += status != WEFT_ESTOPPED || weft_session_length(s) != 0;
    w->wrong += weft_session_rewind(s, 0, &err) != WEFT_OK;
}

static void *work(void *ud)
{
    worker *w = ud;
    weft_error err = { 0 };
    weft_engine *engine;
    const weft_sampler_options o = { .struct_size = sizeof o, .temperature = 1, .top_p = 0.9 };
    weft_session *s = open_session(w->model, &engine, &err);
    weft_sampler *sampler = weft_sampler_new(w->model, &o, &err);
    if (s && sampler) {
        atomic_store(&w->session, s);
        for (int i = 0; i < ROUNDS; i++)
            one_round(w, s, sampler);
    }
    snprintf(w->why, sizeof w->why, "%.200s", err.code ? err.message : "");
    weft_sampler_free(sampler);
    return engine;
}

typedef struct canceller {
    worker *worker;
    atomic_bool enough;
} canceller;

/* Roughly as many evals are cancelled as not, whatever the machine's speed. */
static void *cancel(void *ud)
{
    canceller *c = ud;
    for (uint32_t i = 1; !atomic_load(&c->enough); i = i * 1664525u + 1013904223u) {
        if (atomic_load(&stopped) <= atomic_load(&done))
            weft_session_cancel(atomic_load(&c->worker[i >> 8 & (N_WORKER - 1)].session));
        nanosleep(&(struct timespec){ 0, (i >> 10) % 400000 }, NULL);
    }
    return NULL;
}

int main(void)
{
    weft_error err = { 0 };
    weft_engine *engine;
    weft_model_info info = { .struct_size = sizeof info };
    weft_model *model = weft_model_open(golden("llama-gqa"), NULL, &err);
    must(model, "cancel: the model", &err);
    weft_model_get_info(model, &info);
    for (int i = 0; i < N_TOKEN; i++)
        text[i] = (int32_t)(3 + i * 7 % (info.n_vocab - 3));
    weft_session *alone = open_session(model, &engine, &err);
    must(alone && weft_session_eval(alone, text, N_TOKEN, &err) == WEFT_OK, "cancel: alone", &err);

    worker w[N_WORKER];
    pthread_t thread[N_WORKER], other;
    canceller c = { .worker = w };
    for (int i = 0; i < N_WORKER; i++)
        w[i] = (worker){ .model = model,
                         .answer = weft_session_logits(alone),
                         .n_vocab = info.n_vocab };
    for (int i = 0; i < N_WORKER; i++)
        must(pthread_create(&thread[i], NULL, work, &w[i]) == 0, "cancel: a thread", NULL);
    must(pthread_create(&other, NULL, cancel, &c) == 0, "cancel: a thread", NULL);
    weft_engine *engines[N_WORKER];
    for (int i = 0; i < N_WORKER; i++)
        pthread_join(thread[i], (void **)&engines[i]);
    atomic_store(&c.enough, true);
    pthread_join(other, NULL);

    int wrong = 0;
    for (int i = 0; i < N_WORKER; i++) {
        must(!*w[i].why, "cancel: a worker", NULL);
        wrong += w[i].wrong;
        weft_session_free(atomic_load(&w[i].session));
        weft_engine_free(engines[i]);
    }
    printf("%d evals, of which %d were stopped\n", stopped + done, stopped);
    check(wrong == 0, "cancel: from another thread, sessions are stopped or give their bits",
          "%d of %d evals did neither", wrong, stopped + done);
    check(stopped > 0 && done > 0, "cancel: both happened", "%d stopped, %d done", stopped, done);
    weft_session_free(alone);
    weft_engine_free(engine);
    weft_model_close(model);
    return n_failed > 0;
}
