#include "formats/container.h"

#include "base/checked.h"
#include "base/sort.h"

#include <errno.h>
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
    if (arena_init(&c->store, ARENA_GROWING, &h->mem, 0, "", err) != WEFT_OK)
        return WEFT_ENOMEM;
    c->path = c->meta_path = arena_text(&c->store, path, strlen(path), err);
    return c->path ? WEFT_OK : WEFT_ENOMEM;
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
    c->by_name = (stored **)sorted(&c->store, c->tensor, sizeof *c->tensor, c->n_tensor,
                                   order_tensor, err);
    c->by_key = (meta **)sorted(&c->store, c->entry, sizeof *c->entry, c->n_entry, order_meta, err);
    if (!c->by_name || !c->by_key)
        return WEFT_ENOMEM;
    for (int64_t i = 1; i < c->n_tensor; i++)
        if (order_tensor(c->by_name[i - 1], c->by_name[i]) == 0)
            return weft_fail(err, WEFT_EFORMAT, "%s: tensor %s occurs twice", c->path,
                             c->by_name[i]->name);
    for (int64_t i = 1; i < c->n_entry; i++)
        if (order_meta(c->by_key[i - 1], c->by_key[i]) == 0)
            return weft_fail(err, WEFT_EFORMAT, "%s: key %s occurs twice", c->path,
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
    return find_pointer((void *const *)c->by_key, c->n_entry, &want, order_meta);
}

void container_close(container *c)
{
    if (!c->host)
        return;
    for (int i = 0; i < 2; i++)
        file_close(&c->file[i], c->host);
    arena_free(&c->store);
    *c = (container){ 0 };
}

static bool is_directory(const char *path, host *h)
{
    uint64_t size;
    const int fd = h->io.open(h->io.ud, path);
    if (fd < 0)
        return false;
    errno = 0;
    const bool is = h->io.size(h->io.ud, fd, &size) != 0 && errno == EISDIR;
    h->io.close(h->io.ud, fd);
    return is;
}

static weft_status open_part(container *c, int i, const char *name, weft_load load, weft_error *err)
{
    char path[4096];
    const int n = snprintf(path, sizeof path, "%s/%s", c->path, name);
    if (n < 0 || (size_t)n >= sizeof path)
        return weft_fail(err, WEFT_EINVAL, "%.200s...: the path is too long", c->path);
    return file_open(&c->file[i], path, load, c->host, err);
}

/* Errors name the file that is wrong, not the directory. */
static weft_status open_directory(container *c, weft_load load, weft_error *err)
{
    weft_status status = open_part(c, 1, "config.json", WEFT_LOAD_COPY, err);
    if (status == WEFT_OK)
        status = open_part(c, 0, "model.safetensors", load, err);
    if (status != WEFT_OK)
        return status;
    c->path = c->meta_path = c->file[1].path;
    status = config_parse(c, c->file[1].data, c->file[1].size, err);
    if (status == WEFT_OK) {
        c->path = c->file[0].path;
        status = safetensors_parse(c, c->file[0].data, c->file[0].size, err);
    }
    return status;
}

static weft_status open_file(container *c, const char *path, weft_load load, weft_error *err)
{
    weft_status status = file_open(&c->file[0], path, load, c->host, err);
    if (status != WEFT_OK)
        return status;
    const file *f = &c->file[0];
    if (f->size >= 4 && memcmp(f->data, "GGUF", 4) == 0)
        return gguf_parse(c, f->data, f->size, err);
    if (f->size >= 4 && (memcmp(f->data, "PK\3\4", 4) == 0 || f->data[0] == 0x80))
        return weft_fail(
            err, WEFT_EUNSUPPORTED,
            "%s: looks like a PyTorch pickle, which can run code; weft reads GGUF files and "
            "directories with config.json and model.safetensors",
            path);
    const char *tail = strrchr(path, '.');
    if (tail && strcmp(tail, ".safetensors") == 0)
        return weft_fail(
            err, WEFT_EUNSUPPORTED,
            "%s: weights without a configuration; give the directory that also holds its "
            "config.json",
            path);
    return weft_fail(err, WEFT_EFORMAT, "%s: not a GGUF file (it begins with other bytes)", path);
}

weft_status container_open(container *c, const char *path, weft_load load, host *h, weft_error *err)
{
    const bool directory = is_directory(path, h);
    weft_status status = container_begin(c, directory ? "safetensors" : "gguf", path, h, err);
    if (status == WEFT_OK)
        status = directory ? open_directory(c, load, err) : open_file(c, path, load, err);
    if (status == WEFT_OK)
        status = container_index(c, err);
    if (status != WEFT_OK)
        container_close(c);
    return status;
}
