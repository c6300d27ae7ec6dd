/* edited.c - writes a model again with some tensors and keys changed. */
#include "edited.h"

#include "formats/gguf_write.h"
#include "formats/safetensors_write.h"
#include "support.h"

#include <sys/stat.h>

static const edit *edit_of(const char *name, const edit *e, int n)
{
    for (int i = 0; i < n; i++)
        if (strcmp(e[i].name, name) == 0)
            return &e[i];
    return NULL;
}

/* Calls `put` for every tensor of c that stays, then for every edit that has a type. */
static void each(const container *c, const edit *e, int n, void (*put)(void *ud, const edit *t),
                 void *ud)
{
    for (int64_t i = 0; i < c->n_tensor; i++) {
        const stored *t = &c->tensor[i];
        edit same = { t->name, t->type, t->n_dim, { 0 }, t->data };
        memcpy(same.shape, t->shape, sizeof same.shape);
        if (!edit_of(t->name, e, n))
            put(ud, &same);
    }
    for (int i = 0; i < n; i++)
        if (e[i].type)
            put(ud, &e[i]);
}

static void *bytes_of(const edit *t, uint64_t *n)
{
    assert_true(stored_bytes(t->type, t->n_dim, t->shape, n));
    void *data = calloc(1, (size_t)*n + 1);
    assert_non_null(data);
    if (t->data)
        memcpy(data, t->data, (size_t)*n);
    return data;
}

static void announce_hf(void *ud, const edit *t)
{
    safetensors_add(ud, t->name, t->type, t->n_dim, t->shape);
}

static void write_hf(void *ud, const edit *t)
{
    uint64_t n;
    void *data = bytes_of(t, &n);
    safetensors_writer_data(ud, data, (size_t)n);
    free(data);
}

static void announce_gguf(void *ud, const edit *t)
{
    gguf_add_tensor(ud, t->name, t->type, t->n_dim, t->shape);
}

static void write_gguf(void *ud, const edit *t)
{
    uint64_t n;
    void *data = bytes_of(t, &n);
    gguf_writer_data(ud, data, (size_t)n);
    free(data);
}

static void edit_config(const char *from, const char *name, const char *was, const char *is)
{
    char path[4200];
    size_t n;
    snprintf(path, sizeof path, "%s/config.json", from);
    char *config = read_whole(path, &n);
    const char *at = was ? strstr(config, was) : config;
    assert_non_null(at);
    char *text = malloc(n + strlen(is ? is : "") + 1);
    const size_t head = (size_t)(at - config), skip = was ? strlen(was) : 0;
    const int size = sprintf(text, "%.*s%s%s", (int)head, config, is ? is : "", at + skip);
    snprintf(path, sizeof path, "%s/config.json", name);
    temp_file(path, text, (size_t)size);
    free(text);
    free(config);
}

const char *edited_directory(const char *from, const char *name, const edit *e, int n,
                             const char *was, const char *is)
{
    char path[4200], source[4096];
    container c;
    host h;
    save s;
    safetensors_writer w;
    weft_error err = { 0 };
    snprintf(source, sizeof source, "%s", from); /* fixture's result lasts until its next call */
    const char *directory = temp_path(name);
    mkdir(directory, 0700);
    edit_config(source, name, was, is);
    host_plain(&h);
    if (container_open(&c, source, WEFT_LOAD_COPY, &h, &err) != WEFT_OK)
        fail_msg("%s", err.message);
    save_begin(&s, &h, &err);
    safetensors_writer_begin(&w, &s);
    each(&c, e, n, announce_hf, &w);
    snprintf(path, sizeof path, "%s/model.safetensors", directory);
    safetensors_writer_head(&w, path);
    each(&c, e, n, write_hf, &w);
    safetensors_writer_end(&w);
    if (save_commit(&s) != WEFT_OK)
        fail_msg("%s", err.message);
    container_close(&c);
    return directory;
}

const char *edited_gguf(const char *from, const char *name, const edit *e, int n, const char *key,
                        uint32_t x, const char *key2, uint32_t y)
{
    container c;
    host h;
    save s;
    gguf_writer w;
    weft_error err = { 0 };
    const char *path = temp_path(name);
    host_plain(&h);
    if (container_open(&c, from, WEFT_LOAD_COPY, &h, &err) != WEFT_OK)
        fail_msg("%s", err.message);
    save_begin(&s, &h, &err);
    gguf_writer_begin(&w, &s);
    for (int64_t i = 0; i < c.n_entry; i++)
        if (!(key && strcmp(c.entry[i].key, key) == 0) &&
            !(key2 && strcmp(c.entry[i].key, key2) == 0))
            gguf_add_meta(&w, &c.entry[i]);
    if (key)
        gguf_add_u32(&w, key, x);
    if (key2)
        gguf_add_u32(&w, key2, y);
    each(&c, e, n, announce_gguf, &w);
    gguf_writer_head(&w, path);
    each(&c, e, n, write_gguf, &w);
    gguf_writer_end(&w);
    if (save_commit(&s) != WEFT_OK)
        fail_msg("%s", err.message);
    container_close(&c);
    return path;
}
