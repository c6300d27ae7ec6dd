/* two_threads.c - two models on two host threads, and one model shared by two: each gives the same
 * bits as alone. */
#include "say.h"

#include <pthread.h>

#define EVALS 200

/* A walk of evals and rewinds through one session, and the resulting logits. */
typedef struct walk {
    weft_model *model;
    uint32_t seed;
    float *logits; /* [EVALS, V] */
    char why[256]; /* empty if all went well */
} walk;

static uint32_t draw(uint32_t *state, uint32_t below)
{
    *state = *state * 1664525u + 1013904223u;
    return (*state >> 8) % below;
}

/* Evaluates one to eight tokens; rewinds to a random position when they would not fit. */
static weft_status step(weft_session *s, const weft_model_info *info, uint32_t *state,
                        weft_error *err)
{
    int32_t ids[8];
    const int64_t n = 1 + draw(state, 8), length = weft_session_length(s);
    for (int64_t i = 0; i < n; i++)
        ids[i] = (int32_t)draw(state, (uint32_t)info->n_vocab);
    if (length + n > info->n_ctx || draw(state, 8) == 0) {
        const int64_t back = length ? draw(state, (uint32_t)length) : 0;
        const weft_status status = weft_session_rewind(s, back < info->n_ctx - n ? back : 0, err);
        if (status != WEFT_OK)
            return status;
    }
    return weft_session_eval(s, ids, n, err);
}

static void *walk_main(void *ud)
{
    walk *w = ud;
    weft_error err = { 0 };
    weft_model_info info = { .struct_size = sizeof info };
    weft_model_get_info(w->model, &info);
    const weft_engine_options o = { .struct_size = sizeof o, .threads = 2, .n_batch = 5 };
    weft_engine *engine = weft_engine_new(w->model, &o, &err);
    weft_session *session = engine ? weft_session_new(engine, &err) : NULL;
    uint32_t state = w->seed;
    for (int i = 0; session && i < EVALS && err.code == WEFT_OK; i++)
        if (step(session, &info, &state, &err) == WEFT_OK)
            memcpy(w->logits + i * info.n_vocab, weft_session_logits(session),
                   (size_t)info.n_vocab * sizeof(float));
    weft_session_free(session);
    weft_engine_free(engine);
    snprintf(w->why, sizeof w->why, "%.200s", err.code ? err.message : "");
    return NULL;
}

static size_t logits_bytes(const weft_model *m)
{
    weft_model_info info = { .struct_size = sizeof info };
    weft_model_get_info(m, &info);
    return EVALS * (size_t)info.n_vocab * sizeof(float);
}

static walk walk_new(weft_model *m, uint32_t seed)
{
    walk w = { .model = m, .seed = seed, .logits = calloc(1, logits_bytes(m)) };
    must(w.logits, "two threads: memory for the logits", NULL);
    return w;
}

/* Both walks one after the other, then at the same time; compares the bits. */
static void compare(const char *sentence, weft_model *a, weft_model *b)
{
    walk alone[2] = { walk_new(a, 1), walk_new(b, 2) },
         together[2] = { walk_new(a, 1), walk_new(b, 2) };
    pthread_t thread[2];
    for (int i = 0; i < 2; i++)
        walk_main(&alone[i]);
    for (int i = 0; i < 2; i++)
        must(pthread_create(&thread[i], NULL, walk_main, &together[i]) == 0, "two threads: start",
             NULL);
    for (int i = 0; i < 2; i++)
        pthread_join(thread[i], NULL);

    bool same = true;
    const char *why = "the logits differ";
    for (int i = 0; i < 2; i++) {
        same &= memcmp(alone[i].logits, together[i].logits, logits_bytes(alone[i].model)) == 0;
        why = *alone[i].why ? alone[i].why : *together[i].why ? together[i].why : why;
    }
    check(same && !*alone[0].why && !*alone[1].why && !*together[0].why && !*together[1].why,
          sentence, "%s", why);
    for (int i = 0; i < 2; i++) {
        free(alone[i].logits);
        free(together[i].logits);
    }
}

int main(void)
{
    weft_error err = { 0 };
    weft_model *llama = weft_model_open(golden("llama-gqa"), NULL, &err);
    must(llama, "two threads: the first model opens", &err);
    weft_model *gpt2 = weft_model_open(golden("gpt2"), NULL, &err);
    must(gpt2, "two threads: the second model opens", &err);
    compare("two threads: two models, 200 evals with rewinds each, are bit for bit as alone", llama,
            gpt2);
    compare("two threads: one model shared by two engines is bit for bit as alone", llama, llama);
    weft_model_close(gpt2);
    weft_model_close(llama);
    return n_failed > 0;
}
