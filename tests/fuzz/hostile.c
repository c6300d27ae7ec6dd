#include "hostile.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TWO31 ((uint64_t)1 << 31)
#define TWO32 ((uint64_t)1 << 32)
#define TWO63 ((uint64_t)1 << 63)

/* clang-format off */
const uint64_t hostile[N_HOSTILE] = {
    0, 1,
    TWO31 - 1, TWO31, TWO31 + 1,                                   /* int */
    TWO32 - 1, TWO32, TWO32 + 1,                                   /* unsigned */
    TWO63 / 2, TWO63 - 1, TWO63, TWO63 + 1,                        /* int64_t, doubled and alone */
    UINT64_MAX, UINT64_MAX - 2, UINT64_MAX - 30, UINT64_MAX - 31,  /* uint64_t, and with padding */
};
/* clang-format on */

/* ---- the fields of a GGUF file --------------------------------------------------------------- */

enum { TEXT = 8, ARRAY = 9, LAST_KIND = 12 };

static void step(fields *f, uint64_t n)
{
    f->at = n < f->size - f->at ? f->at + (size_t)n : f->size;
}

/* Records the number at the cursor and steps over it. Limit 0: the value itself, which fills the
 * file. */
static uint64_t number(fields *f, int width, uint64_t limit)
{
    uint64_t x = 0;
    if (f->size - f->at >= (size_t)width) {
        memcpy(&x, f->data + f->at, (size_t)width);
        if (f->n < MAX_FIELD)
            f->field[f->n++] = (field){ f->at, width, limit ? limit : x, false };
    }
    step(f, (uint64_t)width);
    return x;
}

static void text(fields *f, uint64_t limit)
{
    step(f, number(f, 8, limit));
}

static void value(fields *f, uint64_t kind)
{
    static const int width[LAST_KIND + 1] = { 1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8 };
    if (kind == TEXT) {
        text(f, 16 << 20);
    } else if (kind == ARRAY) {
        const uint64_t element = number(f, 4, LAST_KIND), n = number(f, 8, 0);
        for (uint64_t i = 0; element == TEXT && i < n && f->at < f->size; i++)
            text(f, 16 << 20);
        if (element <= LAST_KIND && element != TEXT)
            step(f, n < f->size ? n * (uint64_t)width[element] : f->size);
    } else if (kind <= LAST_KIND) {
        number(f, width[kind], 65536);
    }
}

static void tensor_header(fields *f)
{
    text(f, 64);
    const uint64_t n_dim = number(f, 4, MAX_DIM);
    for (uint64_t d = 0; d < n_dim && f->at < f->size; d++)
        number(f, 8, 0);
    const int before = f->n;
    number(f, 4, 30);
    if (f->n > before)
        f->field[before].dtype = true;
    number(f, 8, 0);
}

void gguf_fields(fields *f, const uint8_t *data, size_t size)
{
    *f = (fields){ .data = data, .size = size };
    step(f, 4);
    number(f, 4, 3);
    const uint64_t n_tensor = number(f, 8, 65536), n_entry = number(f, 8, 65536);
    for (uint64_t i = 0; i < n_entry && f->at < f->size; i++) {
        text(f, 65535);
        value(f, number(f, 4, LAST_KIND));
    }
    for (uint64_t i = 0; i < n_tensor && f->at < f->size; i++)
        tensor_header(f);
}

/* ---- what must hold -------------------------------------------------------------------------- */

static bool inside(const uint8_t *at, uint64_t n, const uint8_t *data, size_t size)
{
    return at >= data && at <= data + size && n <= (uint64_t)(data + size - at);
}

static const char *wrong_tensor(const container *c, const stored *t, const uint8_t *data,
                                size_t size)
{
    unsigned __int128 n = 1;
    if (!t->name || !t->name[0] || container_tensor(c, t->name) != t)
        return "a tensor is not found by its name";
    if (!t->type || t->n_dim < 0 || t->n_dim > MAX_DIM)
        return "a tensor has no type or rank";
    for (int d = 0; d < t->n_dim; d++) {
        if (t->shape[d] < 0 || n > UINT64_MAX)
            return "a shape is out of range";
        n *= (uint64_t)t->shape[d];
    }
    if (n / (unsigned)t->type->block * (unsigned)t->type->bytes != t->bytes)
        return "a tensor's bytes do not follow from its shape";
    return inside(t->data, t->bytes, data, size) ? NULL : "a tensor lies outside the file";
}

static bool apart(const stored *a, const stored *b)
{
    return a->data + a->bytes <= b->data || b->data + b->bytes <= a->data;
}

static const char *wrong_entry(const container *c, const meta *m, const uint8_t *data, size_t size)
{
    if (!m->key || !m->key[0] || container_meta(c, m->key) != m)
        return "an entry is not found by its key";
    if (m->type == META_TEXT && m->text[m->length] != '\0')
        return "a text is not terminated";
    if (m->type != META_ARRAY || m->length == 0)
        return NULL;
    if (m->element != GGUF_STRING) {
        (void)gguf_number(m, m->length - 1); /* a sanitizer checks that it may be read */
        return inside(m->at, m->length, data, size) ? NULL : "an array lies outside the file";
    }
    const uint8_t *at = m->at;
    for (uint64_t i = 0; i < m->length; i++) {
        uint64_t n;
        if (!inside(at, sizeof n, data, size))
            return "an array of strings lies outside the file";
        const char *string = gguf_string(&at, &n);
        if (!inside((const uint8_t *)string, n, data, size))
            return "a string of an array lies outside the file";
    }
    return NULL;
}

static const char *wrong(const container *c, const uint8_t *data, size_t size)
{
    const char *why = NULL;
    for (int64_t i = 0; i < c->n_tensor && !why; i++) {
        why = wrong_tensor(c, &c->tensor[i], data, size);
        for (int64_t k = 0; k < i && !why; k++)
            why = apart(&c->tensor[i], &c->tensor[k]) ? NULL : "two tensors overlap";
    }
    for (int64_t i = 0; i < c->n_entry && !why; i++)
        why = wrong_entry(c, &c->entry[i], data, size);
    return why;
}

const char *parse_and_check(parser_fn *parser, const uint8_t *data, size_t size,
                            weft_status *status, weft_error *err)
{
    host h = { .io = io_system };
    container c;
    mem_init(&h.mem, 64 << 20, NULL);
    *err = (weft_error){ 0 };
    *status = container_begin(&c, "test", "input", &h, err);
    if (*status == WEFT_OK)
        *status = parser(&c, data, size, err);
    if (*status == WEFT_OK)
        *status = container_index(&c, err);
    const char *why = NULL;
    if (*status == WEFT_OK)
        why = wrong(&c, data, size);
    else if (err->code == WEFT_OK || strncmp(err->message, "input: ", 7) != 0)
        why = "an error does not name the file";
    container_close(&c);
    return !why && atomic_load(&h.mem.used) != 0 ? "memory is left behind" : why;
}

void fuzz_parser(parser_fn *parser, const uint8_t *data, size_t size)
{
    weft_error err;
    weft_status status;
    const char *why = parse_and_check(parser, data, size, &status, &err);
    if (!why)
        return;
    fprintf(stderr, "%s (status %d: %s)\n", why, (int)status, err.message);
    abort();
}

void holds(bool good, const char *what)
{
    if (good)
        return;
    fprintf(stderr, "%s\n", what);
    abort();
}

static void *plain_alloc(void *ud, size_t align, size_t size)
{
    (void)ud;
    return aligned_alloc(align, size);
}

static void plain_release(void *ud, void *block)
{
    (void)ud;
    free(block);
}

const mem_hooks plain_hooks = { plain_alloc, plain_release, NULL, .chunk = 1 };
