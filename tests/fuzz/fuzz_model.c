/* fuzz_model.c - bytes as a model, a GGUF file or a directory, in one file or two. If it opens,
 * evaluates one token or a text of two and reads every piece of its vocabulary. Input that passes
 * the parsers may still be inconsistent: heads, widths, contexts. */
#include "engine/encode.h"
#include "engine/session.h"
#include "formats/kept.h"
#include "hostile.h"
#include "text/sources/pieces.h"
#include "text/sources/source.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- a file system of one model -------------------------------------------------------------- */

typedef struct part {
    const uint8_t *data;
    size_t size, at;
} part;

enum { WHOLE, CONFIG, WEIGHTS, INDEX, SECOND, N_PART }; /* descriptors */

/* Two files: the length of the first in four bytes, and both. */
static void cut_two(part *first, part *second, const uint8_t *data, size_t size)
{
    uint32_t n = 0;
    if (size >= sizeof n)
        memcpy(&n, data, sizeof n);
    const size_t begin = size >= sizeof n ? sizeof n : size;
    const size_t length = n < size - begin ? n : size - begin;
    *first = (part){ data + begin, length, 0 };
    *second = (part){ data + begin + length, size - begin - length, 0 };
}

/* A text that begins with a brace and ends with a NUL; the rest is ignored. */
static bool cut_text(part *p, const uint8_t **data, size_t *size)
{
    const uint8_t *end = *size && (*data)[0] == '{' ? memchr(*data, 0, *size) : NULL;
    if (!end)
        return false;
    *p = (part){ *data, (size_t)(end - *data), 0 };
    *size -= p->size + 1;
    *data = end + 1;
    return true;
}

/* A directory is written as its config.json, a NUL, and its model.safetensors; or, instead of the
 * latter, an index, a NUL and two files. A GGUF file in two parts begins with "SPLT". */
static void cut(part *p, const uint8_t *data, size_t size)
{
    if (size >= 4 && memcmp(data, "SPLT", 4) == 0) {
        cut_two(&p[WHOLE], &p[SECOND], data + 4, size - 4);
    } else if (!cut_text(&p[CONFIG], &data, &size)) {
        p[WHOLE] = (part){ data, size, 0 };
    } else if (cut_text(&p[INDEX], &data, &size)) {
        cut_two(&p[WEIGHTS], &p[SECOND], data, size);
    } else {
        p[WEIGHTS] = (part){ data, size, 0 };
    }
}

static int serve_open(void *ud, const char *path)
{
    part *p = ud;
    const bool second = strstr(path, "-00002-of-") != NULL;
    const int fd = strstr(path, "/config.json")                          ? CONFIG
                   : strstr(path, ".index.json")                         ? INDEX
                   : strstr(path, "/model.safetensors") && p[INDEX].data ? -1
                   : second                                              ? SECOND
                   : strstr(path, ".safetensors")                        ? WEIGHTS
                                                                         : WHOLE;
    errno = ENOENT;
    if (fd >= 0)
        p[fd].at = 0;
    return fd;
}

static int serve_size(void *ud, int fd, uint64_t *size)
{
    const part *p = (const part *)ud + fd;
    *size = p->size;
    errno = EISDIR;
    return p->data ? 0 : -1;
}

static ssize_t serve_read(void *ud, int fd, void *to, size_t size)
{
    part *p = (part *)ud + fd;
    const size_t left = p->size - p->at, n = size < left ? size : left;
    memcpy(to, p->data + p->at, n);
    p->at += n;
    return (ssize_t)n;
}

static void serve_close(void *ud, int fd)
{
    (void)ud, (void)fd;
}

/* ---- the life of a model --------------------------------------------------------------------- */

static void must(bool holds, const char *what, const weft_error *err)
{
    if (holds)
        return;
    fprintf(stderr, "%s (%d: %s)\n", what, (int)err->code, err->message);
    abort();
}

static void spell(model *m, weft_error *err)
{
    pieces p;
    char text[16];
    if (pieces_init(&p, &m->file, &m->store, err) != WEFT_OK)
        return;
    for (int32_t id = -1; id <= p.n; id++)
        pieces_bytes(&p, id, text, sizeof text);
}

/* A GGUF file of weft's own keeps a directory's tokenizer, one for each side. */
static void read_tokenizers(const model *m, const char *path, host *h, weft_error *err)
{
    if (strcmp(m->file.format, "gguf") != 0 || !kept_is_own(&m->file))
        return;
    for (weft_side side = WEFT_SIDE_ANY; side <= WEFT_SIDE_TARGET; side++) {
        tokenizer t;
        if (tokenizer_load_side(&t, path, side, NULL, WEFT_LOAD_COPY, h, err) == WEFT_OK)
            tokenizer_free(&t);
    }
}

static bool evaluate(engine *e, weft_error *err)
{
    session *s = session_new(e, err);
    if (!s)
        return false;
    const int32_t source[] = { 0, 0 };
    if (model_has_source(e->model) &&
        engine_encode(e, &(source_text){ s, source, 2 }, 1, err) != WEFT_OK) {
        session_free(s);
        return false;
    }
    const weft_status status = engine_eval(
        e, &(work){ .session = s, .ids = &(int32_t){ 0 }, .n = 1 }, 1, err);
    if (status == WEFT_OK)
        session_greedy(s);
    session_free(s);
    return status == WEFT_OK;
}

/* Two tokens, with every kind of output. */
static bool read_whole_text(const model *m, weft_error *err)
{
    bool done = true;
    for (weft_encoder_output what = WEFT_OUTPUT_HEAD; done && what <= WEFT_OUTPUT_POOLED; what++) {
        const int64_t most = m->n_ctx < 8 ? m->n_ctx : 8, n = most < 2 ? most : 2;
        const encode_engine_options o = {
            .n_thread = 1, .n_batch = 8, .n_ctx = most, .output = what
        };
        encode_engine *e = encode_engine_new(m, &o, err);
        weft_input in = { .ids = (const int32_t[]){ 0, 0 }, .n = n };
        in.out = e ? calloc((size_t)(n * encode_engine_width(e)), sizeof *in.out) : NULL;
        done = e && in.out && encode_engine_eval(e, &in, 1, err) == WEFT_OK;
        free(in.out);
        encode_engine_free(e);
    }
    return done;
}

static bool live(model *m, weft_error *err)
{
    spell(m, err);
    if (m->task != WEFT_TASK_GENERATE)
        return read_whole_text(m, err);
    const engine_options o = { .n_thread = 1, .n_batch = 1, .n_ctx = m->n_ctx < 8 ? m->n_ctx : 8 };
    engine *e = engine_new(m, &o, err);
    const bool done = e && evaluate(e, err);
    engine_free(e);
    return done;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    part parts[N_PART] = { 0 };
    host h = { .io = { .open = serve_open,
                       .size = serve_size,
                       .read = serve_read,
                       .close = serve_close,
                       .ud = parts } };
    weft_error err = { 0 };
    model m;
    cut(parts, data, size);
    json_object_seed(1); /* hashing is random by default, findings must repeat */
    mem_init(&h.mem, 64 << 20, NULL);
    const char *path = parts[SECOND].data && !parts[CONFIG].data ? "input-00001-of-00002.gguf"
                                                                 : "input";
    bool done = model_open(&m, path, WEFT_LOAD_COPY, &h, &err) == WEFT_OK;
    if (done) {
        read_tokenizers(&m, path, &h, &err);
        done = live(&m, &err);
        model_close(&m);
    }
    must(done || (err.code != WEFT_OK && err.message[0]), "a failure without a message", &err);
    must(atomic_load(&h.mem.used) == 0, "memory is left behind", &err);
    return 0;
}
