/* fuzz_session.c - bytes as a saved session of a small Llama (tests/golden/llama-gqa): if it loads,
 * it must continue. Three of four mutations fix the checksum; otherwise hardly any input would pass
 * it. */
#include "base/checksum.h"
#include "engine/session.h"
#include "hostile.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct input {
    const uint8_t *data;
    size_t size, at;
} input;

static int serve_open(void *ud, const char *path)
{
    (void)path;
    ((input *)ud)->at = 0;
    return 3;
}

static int serve_size(void *ud, int fd, uint64_t *size)
{
    (void)fd;
    *size = ((input *)ud)->size;
    return 0;
}

static ssize_t serve_read(void *ud, int fd, void *to, size_t size)
{
    input *p = ud;
    (void)fd;
    const size_t left = p->size - p->at, n = size < left ? size : left;
    if (n > 0)
        memcpy(to, p->data + p->at, n);
    p->at += n;
    return (ssize_t)n;
}

static void serve_close(void *ud, int fd)
{
    (void)ud, (void)fd;
}

static void must(bool holds, const char *what, const weft_error *err)
{
    if (holds)
        return;
    fprintf(stderr, "%s (%d: %s)\n", what, (int)err->code, err->message);
    abort();
}

/* The engine for all inputs; its host is separate, because its files become the input. */
static engine *the_engine(host *h)
{
    static model m;
    weft_error err = { 0 };
    const engine_options o = { .n_thread = 1, .n_batch = 4, .n_ctx = 100, .kv = &dtype_f16 };
    *h = (host){ .io = io_system };
    mem_init(&h->mem, 64 << 20, NULL);
    const bool opened = model_open(&m, WEFT_TESTS_DIR "/golden/llama-gqa", WEFT_LOAD_COPY, h,
                                   &err) == WEFT_OK;
    must(opened, "the model does not open", &err);
    engine *e = engine_new(&m, &o, &err);
    must(e != NULL, "the model has no engine", &err);
    return e;
}

/* One more token, alone and in a fork. Non-finite logits are an error. */
static void go_on(session *s, weft_error *err)
{
    session *fork = session_fork(s, err);
    must(fork != NULL, "no fork", err);
    work w[] = { { .session = s, .ids = &(int32_t){ 1 }, .n = 1 },
                 { .session = fork, .ids = &(int32_t){ 2 }, .n = 1 } };
    const weft_status status = engine_eval(s->engine, w, 2, err);
    must(status == WEFT_OK || status == WEFT_ENUMERIC || status == WEFT_ECONTEXT, "not evaluated",
         err);
    session_free(fork);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static host h;
    static engine *e;
    if (!e)
        e = the_engine(&h);
    input in = { data, size, 0 };
    weft_error err = { 0 };
    h.io = (io_hooks){
        .open = serve_open, .size = serve_size, .read = serve_read, .close = serve_close, .ud = &in
    };
    const size_t used = atomic_load(&h.mem.used);
    session *s = session_restore(e, "input", (adaption){ 0 }, &err);
    must(s || (err.code != WEFT_OK && err.message[0]), "a failure without a message", &err);
    if (s)
        go_on(s, &err);
    session_free(s);
    must(atomic_load(&h.mem.used) == used, "memory is left behind", &err);
    must(e->pages.n_free == e->pages.n_page, "pages are left behind", &err);
    return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t room, unsigned seed)
{
    size = LLVMFuzzerMutate(data, size, room);
    if (size >= sizeof(uint64_t) && seed % 4) {
        const uint64_t end = xxh64_of(data, size - sizeof end);
        memcpy(data + size - sizeof end, &end, sizeof end);
    }
    return size;
}
