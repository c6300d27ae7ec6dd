/* safetensors.c - the tensor file of Hugging Face.
 *
 *      0          8                 8 + n                              end of file
 *     +----------+-----------------+----------------------------------+
 *     | n: u64   | JSON, n bytes   | data                             |
 *     +----------+-----------------+----------------------------------+
 *       {"__metadata__": {text: text},
 *        "name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [begin, end]}, ...}
 *
 * Strict: n <= 100,000,000; the header begins with '{'; no duplicate keys. Offsets are relative to
 * the data, and the tensors in order of offset tile it without hole or overlap up to the last byte,
 * so a file has one meaning. An empty tensor (a dimension of 0) is legal and takes no bytes; a
 * tensor of rank 0 is one number. */
#include "base/sort.h"
#include "formats/container.h"
#include "formats/json.h"

#include <string.h>

#define MAX_NAME 255 /* names of adapters have up to a hundred bytes */

typedef struct reading {
    container *c;
    const uint8_t *data; /* the data section */
    uint64_t size;
    weft_error *err;
} reading;

static weft_status bad(const reading *r, const char *name, const char *what)
{
    return weft_fail(r->err, WEFT_EFORMAT, "%s: tensor %s: %s", r->c->path, name, what);
}

static weft_status read_shape(const reading *r, stored *t, const json_t *shape)
{
    if (!json_is_array(shape))
        return bad(r, t->name, "\"shape\" is not a list");
    if (json_array_size(shape) > MAX_DIM)
        return weft_fail(r->err, WEFT_EUNSUPPORTED,
                         "%s: tensor %s has %zu dimensions; expected at most %d", r->c->path,
                         t->name, json_array_size(shape), MAX_DIM);
    t->n_dim = (int)json_array_size(shape);
    for (int d = 0; d < t->n_dim; d++) {
        const json_t *n = json_array_get(shape, (size_t)d);
        if (!json_is_integer(n) || json_integer_value(n) < 0)
            return bad(r, t->name, "\"shape\" holds something that is not a count");
        t->shape[d] = json_integer_value(n);
    }
    return WEFT_OK;
}

static weft_status read_extent(const reading *r, stored *t, const json_t *offsets)
{
    const json_t *begin = json_array_get(offsets, 0), *end = json_array_get(offsets, 1);
    if (json_array_size(offsets) != 2 || !json_is_integer(begin) || !json_is_integer(end))
        return bad(r, t->name, "\"data_offsets\" is not a pair of integers");
    const int64_t b = json_integer_value(begin), e = json_integer_value(end);
    if (b < 0 || e < b || (uint64_t)e > r->size)
        return weft_fail(
            r->err, WEFT_EFORMAT,
            "%s: tensor %s: data_offsets [%lld, %lld] are outside the %llu bytes of data; is "
            "the file cut off? Download it again",
            r->c->path, t->name, (long long)b, (long long)e, (unsigned long long)r->size);
    t->data = r->data ? &r->data[b] : NULL;
    t->bytes = (uint64_t)(e - b);
    return WEFT_OK;
}

static weft_status read_tensor(const reading *r, const char *name, const json_t *spec)
{
    container *c = r->c;
    stored *t = &c->tensor[c->n_tensor];
    const size_t length = strlen(name);
    if (length == 0 || length > MAX_NAME)
        return weft_fail(r->err, WEFT_EFORMAT, "%s: a tensor name of %zu bytes; expected 1 to %d",
                         c->path, length, MAX_NAME);
    t->path = c->path;
    t->name = arena_text(c->store, name, length, r->err);
    if (!t->name)
        return WEFT_ENOMEM;
    if (!json_is_object(spec) || json_object_size(spec) != 3)
        return bad(r, name, "expected an object of \"dtype\", \"shape\" and \"data_offsets\"");

    const char *type = json_string_value(json_object_get(spec, "dtype"));
    if (!type)
        return bad(r, name, "\"dtype\" is missing or not text");
    t->type = dtype_by_safetensors(type);
    if (!t->type)
        return weft_fail(
            r->err, WEFT_EUNSUPPORTED,
            "%s: tensor %s has dtype %.16s, which weft does not support; expected F32, "
            "F16 or BF16; use the model's GGUF file, or its weights in one of these",
            c->path, name, type);
    weft_status status = read_shape(r, t, json_object_get(spec, "shape"));
    if (status == WEFT_OK)
        status = read_extent(r, t, json_object_get(spec, "data_offsets"));
    if (status != WEFT_OK)
        return status;
    uint64_t bytes;
    if (!stored_bytes(t->type, t->n_dim, t->shape, &bytes))
        return bad(r, name, "the shape overflows 64 bits");
    if (bytes != t->bytes)
        return weft_fail(r->err, WEFT_EFORMAT,
                         "%s: tensor %s: %llu bytes of data, its shape takes %llu", c->path, name,
                         (unsigned long long)t->bytes, (unsigned long long)bytes);
    c->n_tensor++;
    return WEFT_OK;
}

static weft_status check_metadata(const reading *r, json_t *texts)
{
    if (!json_is_object(texts))
        return weft_fail(r->err, WEFT_EFORMAT, "%s: __metadata__ is not an object", r->c->path);
    for (void *i = json_object_iter(texts); i; i = json_object_iter_next(texts, i))
        if (!json_is_string(json_object_iter_value(i)))
            return weft_fail(r->err, WEFT_EFORMAT, "%s: __metadata__ %.64s is not text", r->c->path,
                             json_object_iter_key(i));
    return WEFT_OK;
}

static int order_extent(const void *a, const void *b)
{
    const stored *x = a, *y = b;
    if (x->data != y->data)
        return x->data < y->data ? -1 : 1;
    return (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

/* In order of offset, each tensor begins where the last one ended, and the last ends at the end. */
static weft_status check_tiling(const reading *r)
{
    container *c = r->c;
    const int64_t n = c->n_tensor;
    const size_t bytes = (size_t)n * sizeof(stored *); /* bounded: by MAX_TENSOR */
    const arena_mark mark = arena_at(c->store);
    stored **order = arena_alloc(c->store, bytes, r->err);
    if (!order)
        return WEFT_ENOMEM;
    for (int64_t i = 0; i < n; i++)
        order[i] = &c->tensor[i]; /* bounded: by n_tensor */
    sort_pointers((void **)order, n, order_extent);

    uint64_t at = 0;
    weft_status status = WEFT_OK;
    for (int64_t i = 0; i < n && status == WEFT_OK; i++) {
        const uint64_t begin = (uint64_t)(order[i]->data - r->data);
        if (begin != at)
            status = weft_fail(
                r->err, WEFT_EFORMAT,
                "%s: tensor %s begins at %llu, %s where the one before it ends (%llu)", c->path,
                order[i]->name, (unsigned long long)begin, begin > at ? "beyond" : "before",
                (unsigned long long)at);
        at = begin + order[i]->bytes; /* bounded: inside the file */
    }
    arena_reset(c->store, mark);
    if (status == WEFT_OK && at != r->size)
        status = weft_fail(r->err, WEFT_EFORMAT, "%s: %llu bytes after the last tensor", c->path,
                           (unsigned long long)(r->size - at));
    return status;
}

static weft_status read_header(const reading *r, json_t *root)
{
    container *c = r->c;
    const size_t n = json_object_size(root);
    if (n > MAX_TENSOR)
        return weft_fail(r->err, WEFT_EFORMAT, "%s: %zu tensors; expected at most %d", c->path, n,
                         MAX_TENSOR);
    const size_t tensors = n - (json_object_get(root, "__metadata__") != NULL);
    weft_status status = container_room(c, tensors, r->err);
    for (void *i = json_object_iter(root); i && status == WEFT_OK;
         i = json_object_iter_next(root, i)) {
        const char *name = json_object_iter_key(i);
        status = strcmp(name, "__metadata__") == 0
                     ? check_metadata(r, json_object_iter_value(i))
                     : read_tensor(r, name, json_object_iter_value(i));
    }
    return status;
}

weft_status safetensors_parse(container *c, const uint8_t *data, uint64_t size, weft_error *err)
{
    uint64_t n;
    if (size < sizeof n)
        return weft_fail(err, WEFT_EFORMAT, "%s: %llu bytes; too short for a safetensors file",
                         c->path, (unsigned long long)size);
    memcpy(&n, data, sizeof n);
    if (n > JSON_MAX_BYTES || n > size - sizeof n)
        return weft_fail(
            err, WEFT_EFORMAT,
            "%s: a header of %llu bytes in a file of %llu; is it cut off? Download it again",
            c->path, (unsigned long long)n, (unsigned long long)size);
    const uint8_t *header = &data[sizeof n];
    if (n == 0 || header[0] != '{')
        return weft_fail(err, WEFT_EFORMAT, "%s: the header does not begin with '{'", c->path);

    reading r = { c, &header[n], size - sizeof n - n, err };
    json_section_begin(&c->host->mem);
    json_t *root = json_read(header, n, false, c->path, err);
    weft_status status = root ? read_header(&r, root) : WEFT_EFORMAT;
    json_section_end();
    return status == WEFT_OK ? check_tiling(&r) : status;
}
