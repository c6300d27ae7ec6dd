/* config.c - a Hugging Face config.json as flat metadata.
 *
 *     {"hidden_size": 64, "rope_scaling": {"factor": 8.0}, "architectures": ["LlamaForCausalLM"]}
 *
 * becomes hidden_size = 64, rope_scaling.factor = 8.0, architectures.0 = LlamaForCausalLM. A null
 * is an absent entry. The tree is freed before this returns. */
#include "formats/container.h"
#include "formats/json.h"

#include <stdio.h>
#include <string.h>

#define MAX_ENTRY 65536
#define MAX_KEY   256

typedef struct flattening {
    container *c;
    char key[MAX_KEY];
    weft_error *err;
} flattening;

static weft_status flatten(flattening *f, json_t *value, size_t length);

static weft_status child(flattening *f, size_t length, const char *name, json_t *value)
{
    if (!name[0])
        return weft_fail(f->err, WEFT_EFORMAT, "%s: a key in \"%s\" is empty", f->c->path, f->key);
    const size_t room = sizeof f->key - length;
    const int n = snprintf(&f->key[length], room, "%s%s", length ? "." : "", name);
    if (n < 0 || (size_t)n >= room)
        return weft_fail(f->err, WEFT_EFORMAT, "%s: key %s... is longer than %d bytes", f->c->path,
                         f->key, MAX_KEY - 1);
    const weft_status status = flatten(f, value, length + (size_t)n); /* bounded: by room */
    f->key[length] = '\0';
    return status;
}

static weft_status leaf(flattening *f, json_t *value)
{
    container *c = f->c;
    meta *m = &c->entry[c->n_entry];
    m->key = arena_text(c->store, f->key, strlen(f->key), f->err);
    if (!m->key)
        return WEFT_ENOMEM;

    if (json_is_boolean(value)) {
        m->type = META_BOOL;
        m->flag = json_is_true(value);
    } else if (json_is_integer(value)) {
        m->type = META_INT;
        m->integer = json_integer_value(value);
        m->number = (double)m->integer;
    } else if (json_is_real(value)) {
        m->number = json_real_value(value);
        const bool whole = m->number >= -0x1p53 && m->number <= 0x1p53 &&
                           m->number == (double)(int64_t)m->number;
        m->type = whole ? META_INT : META_REAL;
        m->integer = whole ? (int64_t)m->number : 0;
    } else {
        m->type = META_TEXT;
        m->length = json_string_length(value);
        m->text = arena_text(c->store, json_string_value(value), m->length, f->err);
        if (!m->text)
            return WEFT_ENOMEM;
    }
    c->n_entry++;
    return WEFT_OK;
}

static weft_status flatten(flattening *f, json_t *value, size_t length)
{
    weft_status status = WEFT_OK;
    if (json_is_object(value)) {
        for (void *i = json_object_iter(value); i && status == WEFT_OK;
             i = json_object_iter_next(value, i))
            status = child(f, length, json_object_iter_key(i), json_object_iter_value(i));
    } else if (json_is_array(value)) {
        for (size_t i = 0; i < json_array_size(value) && status == WEFT_OK; i++) {
            char index[24];
            snprintf(index, sizeof index, "%zu", i);
            status = child(f, length, index, json_array_get(value, i));
        }
    } else if (!json_is_null(value)) {
        status = leaf(f, value);
    }
    return status;
}

/* Leaves of the tree, nulls included. */
static int64_t count(json_t *value)
{
    int64_t n = 0;
    if (json_is_object(value))
        for (void *i = json_object_iter(value); i; i = json_object_iter_next(value, i))
            n += count(json_object_iter_value(i)); /* bounded: one for each byte of JSON at most */
    else if (json_is_array(value))
        for (size_t i = 0; i < json_array_size(value); i++)
            n += count(json_array_get(value, i)); /* bounded: likewise */
    else
        n = 1;
    return n;
}

static weft_status flatten_root(flattening *f, json_t *root)
{
    const int64_t n = count(root);
    if (n > MAX_ENTRY)
        return weft_fail(f->err, WEFT_EFORMAT, "%s: %lld values; expected at most %d", f->c->path,
                         (long long)n, MAX_ENTRY);
    const size_t bytes = (size_t)n * sizeof(meta); /* bounded: n <= MAX_ENTRY */
    f->c->entry = arena_alloc(f->c->store, bytes, f->err);
    if (!f->c->entry)
        return WEFT_ENOMEM;
    memset(f->c->entry, 0, bytes);
    return flatten(f, root, 0);
}

static weft_status parse(container *c, const uint8_t *data, uint64_t size, bool array,
                         weft_error *err)
{
    flattening f = { .c = c, .err = err };
    json_section_begin(&c->host->mem);
    json_t *root = json_read_root(data, size, true, array, c->path, err);
    const weft_status status = root ? flatten_root(&f, root) : WEFT_EFORMAT;
    json_section_end();
    return status;
}

weft_status config_parse(container *c, const uint8_t *data, uint64_t size, weft_error *err)
{
    return parse(c, data, size, false, err);
}

weft_status config_parse_list(container *c, const uint8_t *data, uint64_t size, weft_error *err)
{
    return parse(c, data, size, true, err);
}

weft_status config_beside(container *c, const char *path, const char *name, bool *there, host *h,
                          weft_error *err)
{
    char beside[4096];
    const char *slash = strrchr(path, '/');
    const int before = slash ? (int)(slash - path) + 1 : 0; /* bounded: inside a path */
    const int n = snprintf(beside, sizeof beside, "%.*s%s", before, path, name);
    *c = (container){ .host = h };
    *there = false;
    if ((size_t)n >= sizeof beside || !path_exists(beside, h))
        return WEFT_OK;
    file f;
    weft_status status = file_open(&f, beside, WEFT_LOAD_COPY, h, err);
    if (status != WEFT_OK)
        return status;
    *there = true;
    status = container_begin(c, "json", beside, h, err);
    if (status == WEFT_OK)
        status = config_parse_list(c, f.data, f.size, err);
    if (status == WEFT_OK)
        status = container_index(c, err);
    file_close(&f, h);
    return status;
}
