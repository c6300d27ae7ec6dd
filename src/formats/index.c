/* index.c - the index of a directory with several weight files: which file holds which tensor.
 *
 *     {"metadata": {"total_size": 26953662464},
 *      "weight_map": {"model.norm.weight": "model-00002-of-00002.safetensors", ...}}
 *
 * Strict: a file is a name in the same directory, never a path. Once all files have been read, each
 * tensor must be in the file that the index names, and in no other. The sizes in "metadata" are not
 * checked: they are often wrong. */
#include "base/sort.h"
#include "formats/container.h"
#include "formats/json.h"

#include <string.h>

#define MAX_FILE_NAME 255

static int order_file(const void *a, const void *b)
{
    const placed *x = a, *y = b;
    return strcmp(x->file, y->file);
}

static int order_tensor(const void *a, const void *b)
{
    const placed *x = a, *y = b;
    return strcmp(x->tensor, y->tensor);
}

static bool is_file_name(const char *name, size_t length)
{
    static const char tail[] = ".safetensors";
    return length >= sizeof tail && length <= MAX_FILE_NAME && strlen(name) == length &&
           name[0] != '.' && !strchr(name, '/') &&
           strcmp(&name[length - (sizeof tail - 1)], tail) == 0;
}

/* Adjacent entries mostly share their file: its name is stored once for them. */
static weft_status read_place(container *c, placed *p, const char *last, const char *key,
                              const json_t *value, weft_error *err)
{
    const char *name = json_string_value(value);
    if (!name || !is_file_name(name, json_string_length(value)))
        return weft_fail(err, WEFT_EFORMAT,
                         "%s: weight_map: the file of %.80s is not the name of a .safetensors file",
                         c->path, key);
    if (!key[0])
        return weft_fail(err, WEFT_EFORMAT, "%s: weight_map holds a tensor without a name",
                         c->path);
    p->tensor = arena_text(c->store, key, strlen(key), err);
    p->file = last && strcmp(last, name) == 0 ? last
                                              : arena_text(c->store, name, strlen(name), err);
    return p->tensor && p->file ? WEFT_OK : WEFT_ENOMEM;
}

static weft_status read_map(container *c, json_t *map, weft_error *err)
{
    const size_t n = json_object_size(map);
    if (n == 0)
        return weft_fail(err, WEFT_EFORMAT, "%s: weight_map is missing or names no tensor",
                         c->path);
    if (n > MAX_TENSOR)
        return weft_fail(err, WEFT_EFORMAT, "%s: %zu tensors; expected at most %d", c->path, n,
                         MAX_TENSOR);
    placed *p = arena_alloc(c->store, n * sizeof *p, err);       /* bounded: MAX_TENSOR */
    c->place = arena_alloc(c->store, n * sizeof *c->place, err); /* bounded: likewise */
    if (!p || !c->place)
        return WEFT_ENOMEM;
    weft_status status = WEFT_OK;
    const char *last = NULL;
    for (void *i = json_object_iter(map); i && status == WEFT_OK;
         i = json_object_iter_next(map, i), p++) {
        status = read_place(c, p, last, json_object_iter_key(i), json_object_iter_value(i), err);
        c->place[c->n_place++] = p;
        last = p->file;
    }
    if (status == WEFT_OK)
        sort_pointers((void **)c->place, c->n_place, order_file);
    return status;
}

weft_status index_parse(container *c, const uint8_t *data, uint64_t size, weft_error *err)
{
    json_section_begin(&c->host->mem);
    json_t *root = json_read(data, size, true, c->path, err);
    const weft_status status = root ? read_map(c, json_object_get(root, "weight_map"), err)
                                    : WEFT_EFORMAT;
    json_section_end();
    return status;
}

/* Whether the path is the directory's, a slash and the name. */
static bool lies_in(const stored *t, const char *name)
{
    return strcmp(&strrchr(t->path, '/')[1], name) == 0;
}

/* Both lists are sorted by name, and neither has duplicates. */
weft_status index_check(container *c, weft_error *err)
{
    sort_pointers((void **)c->place, c->n_place, order_tensor);
    for (int64_t i = 0; i < c->n_place || i < c->n_tensor; i++) {
        const placed *p = i < c->n_place ? c->place[i] : NULL;
        const stored *t = i < c->n_tensor ? c->by_name[i] : NULL;
        const int order = !p ? 1 : !t ? -1 : strcmp(p->tensor, t->name);
        if (order < 0)
            return weft_fail(err, WEFT_EFORMAT, "%s: tensor %s is not in %s", c->path, p->tensor,
                             p->file);
        if (order > 0)
            return weft_fail(err, WEFT_EFORMAT, "%s: tensor %s is not in the index %s", t->path,
                             t->name, c->path);
        if (!lies_in(t, p->file))
            return weft_fail(err, WEFT_EFORMAT, "%s: tensor %s is in %s, the index says %s",
                             c->path, t->name, t->path, p->file);
    }
    return WEFT_OK;
}
