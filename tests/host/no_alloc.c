/* no_alloc.c - a step allocates no memory. The program has its own counting malloc, so no
 * allocation is missed. (glibc only; not built with sanitizers, which have their own malloc.) */
#include "say.h"

#include <errno.h>
#include <stdatomic.h>

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *block, size_t size);
void *__libc_memalign(size_t align, size_t size);
void __libc_free(void *block);

static atomic_long n_call;

void *malloc(size_t size)
{
    n_call++;
    return __libc_malloc(size);
}

void *calloc(size_t n, size_t size)
{
    n_call++;
    return __libc_calloc(n, size);
}

void *realloc(void *block, size_t size)
{
    n_call++;
    return __libc_realloc(block, size);
}

void *aligned_alloc(size_t align, size_t size)
{
    n_call++;
    return __libc_memalign(align, size);
}

int posix_memalign(void **block, size_t align, size_t size)
{
    n_call++;
    *block = __libc_memalign(align, size);
    return *block ? 0 : ENOMEM;
}

void free(void *block)
{
    n_call++;
    __libc_free(block);
}

typedef struct setup {
    const char *name, *model;
    int threads;
    weft_kv_type kv;
} setup;

static void steps(const setup *u)
{
    weft_error err = { 0 };
    const long start = n_call;
    weft_model *model = weft_model_open(golden(u->model), NULL, &err);
    must(model, "no allocation: the model opens", &err);
    const weft_engine_options o = {
        .struct_size = sizeof o, .threads = u->threads, .kv_type = u->kv, .n_batch = 8
    };
    weft_engine *engine = weft_engine_new(model, &o, &err);
    must(engine, "no allocation: the engine is made", &err);
    weft_session *session = weft_session_new(engine, &err);
    must(session, "no allocation: the session is made", &err);
    const int32_t ids[20] = { 1, 5, 7, 9, 11 };
    const long opened = n_call;
    must(weft_session_eval(session, ids, 5, &err) == WEFT_OK, "no allocation: a first eval", &err);

    const long before = n_call;
    bool fine = true;
    for (int round = 0; round < 10; round++) {
        fine &= weft_session_rewind(session, 2, &err) == WEFT_OK;
        fine &= weft_session_eval(session, ids, 20, &err) == WEFT_OK;
        for (int i = 0; i < 5; i++) {
            const int32_t id = weft_session_greedy(session);
            fine &= weft_session_eval(session, &id, 1, &err) == WEFT_OK;
        }
    }
    const long after = n_call;
    printf("%s: %ld calls to load, %ld in the first eval, %ld in 60 more\n", u->name,
           opened - start, before - opened, after - before);
    must(fine, "no allocation: evals and rewinds", &err);
    must(opened > start, "no allocation: loading is seen to allocate", NULL);
    check(after == before, u->name, "%ld calls of malloc and free", after - before);
    weft_session_free(session);
    weft_engine_free(engine);
    weft_model_close(model);
}

int main(void)
{
    static const setup setups[] = {
        { "no allocation: llama, one thread: 0 in eval, rewind and greedy", "llama-gqa", 1,
          WEFT_KV_F32 },
        { "no allocation: llama, three threads: 0 in eval, rewind and greedy", "llama-gqa", 3,
          WEFT_KV_F32 },
        { "no allocation: llama, cache in bf16: 0 in eval, rewind and greedy", "llama-gqa", 2,
          WEFT_KV_BF16 },
        { "no allocation: gpt2, two threads: 0 in eval, rewind and greedy", "gpt2", 2,
          WEFT_KV_F16 },
    };
    for (size_t i = 0; i < sizeof setups / sizeof *setups; i++)
        steps(&setups[i]);
    return n_failed > 0;
}
