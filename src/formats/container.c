/* container.c - the tensors and keys of a model file: grows the arrays, sorts names, refuses
 * duplicates, finds entries. */
#include "formats/container.h"

#include "base/checked.h"
#include "base/sort.h"

#include <stdio.h>
#include <string.h>

bool stored_bytes(const dtype *t, int n_dim, const int64_t *shape, uint64_t *bytes)
{
    uint64_t n = 1;
    for (int d = 0; d < n_dim; d++)
        if (shape[d] < 0 || !checked_mul(n, (uint64_t)shape[d], &n))
            return false;
    const int64_t row = n_dim > 0 ? shape[n_dim - 1] : 1;
    return row % t->block == 0 && checked_mul(n / (uint64_t)t->block, (uint64_t)t->bytes, bytes);
}

const uint8_t *stored_row(const stored *t, int64_t i, int64_t n)
{
    const size_t row = dtype_row_bytes(t->type, n);
    return &t->data[(size_t)i * row]; /* bounded: inside the tensor */
}

void stored_copy_row(const stored *t, int64_t i, int64_t n, uint8_t *to)
{
    if (t->spread)
        t->spread->row(t, i, n, to);
    else
        memcpy(to, stored_row(t, i, n), dtype_row_bytes(t->type, n));
}

static int order_tensor(const void *a, const void *b)
{
    return strcmp(((const stored *)a)->name, ((const stored *)b)->name);
}

static int order_meta(const void *a, const void *b)
{
    return strcmp(((const meta *)a)->key, ((const meta *)b)->key);
}

weft_status container_begin(container *c, const char *format, const char *path, host *h,
                            weft_error *err)
{
    *c = (container){ .format = format, .host = h };
    if (arena_init(&c->memory, ARENA_GROWING, &h->mem, 0, "", err) != WEFT_OK)
        return WEFT_ENOMEM;
    c->store = &c->memory;
    c->path = c->meta_path = arena_text(c->store, path, strlen(path), err);
    return c->path ? WEFT_OK : WEFT_ENOMEM;
}

void container_part(container *part, container *whole, const char *path)
{
    *part = (container){ .format = whole->format,
                         .path = path,
                         .meta_path = path,
                         .store = whole->store,
                         .host = whole->host };
}

weft_status container_append(container *whole, const container *part, weft_error *err)
{
    const uint64_t n = (uint64_t)part->n_tensor;
    if (n > MAX_TENSOR - (uint64_t)whole->n_tensor)
        return weft_fail(err, WEFT_EFORMAT, "%s: more than %d tensors", part->path, MAX_TENSOR);
    const weft_status status = container_room(whole, n, err);
    if (status != WEFT_OK || n == 0)
        return status;
    memcpy(&whole->tensor[whole->n_tensor], part->tensor,
           n * sizeof(stored));        /* bounded: by room */
    whole->n_tensor += part->n_tensor; /* bounded: by MAX_TENSOR */
    return WEFT_OK;
}

/* An array of n objects is full at n = 0 and at powers of two. */
static bool full(uint64_t n)
{
    return n == 0 || (n & (n - 1)) == 0;
}

file *container_file(container *c, weft_error *err)
{
    const size_t n = (size_t)c->n_file;
    if (full(n)) {
        const size_t room = n ? 2 * n : 1; /* bounded: n files are open */
        file *more = arena_alloc(c->store, room * sizeof *more, err); /* bounded: likewise */
        if (!more)
            return NULL;
        if (n)
            memcpy(more, c->file, n * sizeof *more); /* bounded: likewise */
        c->file = more;
    }
    c->file[n] = (file){ 0 };
    return &c->file[c->n_file++];
}

/* Doubles the array when it must grow, so that many files do not cause many copies. Callers check
 * that n plus the existing tensors is at most MAX_TENSOR. */
weft_status container_room(container *c, uint64_t n, weft_error *err)
{
    const uint64_t have = (uint64_t)c->n_tensor;
    if (!c->tensor || n > c->room - have) {
        const uint64_t room = have ? 2 * (have + n) : n;                /* bounded: by MAX_TENSOR */
        stored *more = arena_alloc(c->store, room * sizeof *more, err); /* bounded: likewise */
        if (!more)
            return WEFT_ENOMEM;
        if (have)
            memcpy(more, c->tensor, have * sizeof *more); /* bounded: likewise */
        c->tensor = more;
        c->room = room;
    }
    memset(&c->tensor[have], 0, n * sizeof(stored)); /* bounded: likewise */
    return WEFT_OK;
}

static void **sorted(arena *store, void *first, size_t size, int64_t n, order_fn *order,
                     weft_error *err)
{
    void **p = arena_alloc(store, (size_t)n * sizeof *p, err); /* bounded: n larger objects exist */
    for (int64_t i = 0; p && i < n; i++)
        p[i] = (char *)first + (size_t)i * size; /* bounded: inside the array */
    if (p)
        sort_pointers(p, n, order);
    return p;
}

weft_status container_index(container *c, weft_error *err)
{
    c->by_name = (stored **)sorted(c->store, c->tensor, sizeof *c->tensor, c->n_tensor,
                                   order_tensor, err);
    c->by_key = (meta **)sorted(c->store, c->entry, sizeof *c->entry, c->n_entry, order_meta, err);
    if (!c->by_name || !c->by_key)
        return WEFT_ENOMEM;
    c->n_key = c->n_entry;
    for (int64_t i = 1; i < c->n_tensor; i++)
        if (order_tensor(c->by_name[i - 1], c->by_name[i]) == 0)
            return weft_fail(err, WEFT_EFORMAT, "%s: tensor %s occurs twice", c->path,
                             c->by_name[i]->name);
    for (int64_t i = 1; i < c->n_entry; i++)
        if (order_meta(c->by_key[i - 1], c->by_key[i]) == 0)
            return weft_fail(err, WEFT_EFORMAT, "%s: key %s occurs twice", c->meta_path,
                             c->by_key[i]->key);
    return WEFT_OK;
}

const stored *container_tensor(const container *c, const char *name)
{
    const stored key = { .name = name };
    return find_pointer((void *const *)c->by_name, c->n_tensor, &key, order_tensor);
}

const meta *container_meta(const container *c, const char *key)
{
    const meta want = { .key = key };
    return find_pointer((void *const *)c->by_key, c->n_key, &want, order_meta);
}

void container_release_pages(const container *c)
{
    for (int i = 0; i < c->n_file; i++)
        file_release_pages(&c->file[i], c->host);
}

void container_close(container *c)
{
    if (!c->host)
        return;
    for (int i = 0; i < c->n_file; i++)
        file_close(&c->file[i], c->host);
    arena_free(&c->memory);
    *c = (container){ 0 };
}

void shape_text(char *text, size_t size, int n_dim, const int64_t *shape)
{
    size_t at = (size_t)snprintf(text, size, "[");
    for (int d = 0; d < n_dim && at < size; d++)
        at += (size_t)snprintf(&text[at], size - at, "%s%lld", /* bounded: at < size */
                               d ? ", " : "", (long long)shape[d]);
    if (at < size)
        snprintf(&text[at], size - at, "]");
}
