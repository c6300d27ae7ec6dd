/* open.c - detects the format of a path, and opens the files that belong to it. */
#include "formats/container.h"
#include "formats/recognise.h"

#include <stdio.h>
#include <string.h>

#define MAX_PATH 4096

/* Opens one more file of the container and returns it in *f. If opening fails, its slot stays
 * empty. */
static weft_status add_file(container *c, const char *path, weft_load load, file **f,
                            weft_error *err)
{
    *f = container_file(c, err);
    const weft_status status = *f ? file_open(*f, path, load, c->host, err) : WEFT_ENOMEM;
    if (status == WEFT_EFORMAT)
        return weft_fail(err, WEFT_EFORMAT,
                         "%s: the file is empty, as a download that failed leaves it; expected "
                         "a part of a model; download it again",
                         path);
    return status;
}

/* ---- directories ----------------------------------------------------------------------------- */

static weft_status add_inner(container *c, const char *directory, const char *name, weft_load load,
                             file **f, weft_error *err)
{
    char path[MAX_PATH];
    if (!path_join(path, sizeof path, directory, name))
        return weft_fail(err, WEFT_EINVAL, "%.200s...: the path is too long", directory);
    return add_file(c, path, load, f, err);
}

static bool is_missing(const container *c, const char *directory, const char *name)
{
    char path[MAX_PATH];
    return path_join(path, sizeof path, directory, name) && !path_exists(path, c->host);
}

static weft_status add_weights(container *c, const file *f, weft_error *err)
{
    container part;
    container_part(&part, c, f->path);
    weft_status status = f->size > 8 && f->data[8] == '{' /* after the length of the header */
                             ? WEFT_OK
                             : recognise(f->path, f->data, f->size, EXPECT_WEIGHTS, err);
    if (status == WEFT_OK)
        status = safetensors_parse(&part, f->data, f->size, err);
    return status == WEFT_OK ? container_append(c, &part, err) : status;
}

/* Opens the weight files that an index names, each once. */
static weft_status open_shards(container *c, const char *directory, const file *index,
                               weft_load load, weft_error *err)
{
    c->path = index->path;
    weft_status status = index_parse(c, index->data, index->size, err);
    for (int64_t i = 0; i < c->n_place && status == WEFT_OK; i++) {
        if (i > 0 && strcmp(c->place[i]->file, c->place[i - 1]->file) == 0)
            continue;
        file *f = NULL;
        status = add_inner(c, directory, c->place[i]->file, load, &f, err);
        if (status == WEFT_OK)
            status = add_weights(c, f, err);
    }
    if (status == WEFT_OK)
        status = container_index(c, err);
    return status == WEFT_OK ? index_check(c, err) : status;
}

/* Opens the one file of weights or, if that is missing, the files of an index. */
static weft_status open_weights(container *c, const char *directory, weft_load load,
                                weft_error *err)
{
    weft_error why = { 0 }, none = { 0 };
    file *f = NULL;
    weft_status status = add_inner(c, directory, "model.safetensors", load, &f, &why);
    if (status == WEFT_OK) {
        c->path = f->path;
        return add_weights(c, f, err);
    }
    if (status == WEFT_EIO)
        status = add_inner(c, directory, "model.safetensors.index.json", WEFT_LOAD_COPY, &f, &none);
    if (status == WEFT_OK)
        return open_shards(c, directory, f, load, err);
    if (why.code == WEFT_EIO && none.code == WEFT_EIO &&
        is_missing(c, directory, "model.safetensors"))
        return recognise_directory(directory, true, c->host, err);
    const weft_error *first = none.code == WEFT_OK || none.code == WEFT_EIO ? &why : &none;
    return weft_fail(err, first->code, "%s", first->message);
}

/* NULL if the file has no such key. For use before the keys are sorted. */
static const meta *entry_of(const container *c, const char *key)
{
    for (int64_t i = 0; i < c->n_entry; i++)
        if (strcmp(c->entry[i].key, key) == 0)
            return &c->entry[i];
    return NULL;
}

/* Directories of quantised weights: each method has names and layouts of its own. Those in MXFP4 and
 * FP8 are left to the model, which knows the names. */
static weft_status refuse_method(const container *c, weft_error *err)
{
    static const char *const keys[] = { "quantization_config.quant_method",
                                        "compression_config.quant_method" };
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const meta *method = entry_of(c, keys[i]);
        const bool text = method && method->type == META_TEXT;
        const bool read = text &&
                          (strcmp(method->text, "mxfp4") == 0 || strcmp(method->text, "fp8") == 0);
        if (method && !read)
            return weft_fail(
                err, WEFT_EUNSUPPORTED,
                "%s: %s is %.40s; expected mxfp4, fp8 or weights in F32, F16 or BF16; use the "
                "model's GGUF file, or the directory it was quantised from",
                c->meta_path, keys[i], text ? method->text : "not text");
    }
    return WEFT_OK;
}

/* Errors name the wrong file, not the directory. */
static weft_status open_directory(container *c, weft_load load, weft_error *err)
{
    weft_error why = { 0 };
    const char *directory = c->path;
    file *config = NULL;
    weft_status status = add_inner(c, directory, "config.json", WEFT_LOAD_COPY, &config, &why);
    if (status == WEFT_EIO && is_missing(c, directory, "config.json"))
        return recognise_directory(directory, false, c->host, err);
    if (status != WEFT_OK)
        return weft_fail(err, why.code, "%s", why.message);
    c->path = c->meta_path = config->path; /* for errors, until the weights are open */
    status = recognise_known(config->path, config->data, config->size, "JSON", err);
    if (status == WEFT_OK)
        status = config_parse(c, config->data, config->size, err);
    if (status == WEFT_OK)
        status = refuse_method(c, err);
    return status == WEFT_OK ? open_weights(c, directory, load, err) : status;
}

/* ---- GGUF files in parts --------------------------------------------------------------------- */

#define MAX_PART 65535

/* "-00002-of-00003.gguf", which has the same length for every part. */
static size_t part_tail(int64_t part, int64_t count, char tail[40])
{
    return (size_t)snprintf(tail, 40, "-%05lld-of-%05lld.gguf", (long long)part, (long long)count);
}

static bool is_first_part(const char *path, int64_t count)
{
    char tail[40];
    const size_t n = strlen(path), k = part_tail(1, count, tail);
    return n >= k && strcmp(&path[n - k], tail) == 0;
}

static bool same_value(const meta *a, const meta *b)
{
    if (a->type != b->type || a->type == META_ARRAY)
        return false;
    if (a->type == META_TEXT)
        return a->length == b->length && memcmp(a->text, b->text, a->length) == 0;
    return a->type == META_BOOL ? a->flag == b->flag : a->number == b->number;
}

/* A later part must have its number, and agree with the first part otherwise. */
static weft_status check_part(const container *whole, const container *part, int64_t at,
                              int64_t count, weft_error *err)
{
    const meta *number = entry_of(part, "split.no");
    if (!number || number->type != META_INT || number->integer != at - 1)
        return weft_fail(err, WEFT_EFORMAT,
                         "%s: split.no and split.count do not say part %lld of %lld", part->path,
                         (long long)at, (long long)count);
    for (int64_t i = 0; i < part->n_entry; i++) {
        const meta *m = &part->entry[i], *first = container_meta(whole, m->key);
        if (m != number && (!first || !same_value(m, first)))
            return weft_fail(err, WEFT_EFORMAT, "%s: %.64s differs from the first part", part->path,
                             m->key);
    }
    return WEFT_OK;
}

static weft_status open_part(container *c, int64_t at, int64_t count, weft_load load,
                             weft_error *err)
{
    char tail[40];
    const size_t stem = strlen(c->path) - part_tail(at, count, tail);
    char *path = arena_text(c->store, c->path, strlen(c->path), err);
    if (!path)
        return WEFT_ENOMEM;
    memcpy(&path[stem], tail, strlen(tail));
    file *f = NULL;
    container part;
    weft_status status = add_file(c, path, load, &f, err);
    if (status != WEFT_OK)
        return status;
    container_part(&part, c, f->path);
    status = gguf_parse(&part, f->data, f->size, err);
    if (status == WEFT_OK)
        status = check_part(c, &part, at, count, err);
    return status == WEFT_OK ? container_append(c, &part, err) : status;
}

static weft_status read_split(const container *c, int64_t *count, int64_t *n_tensor,
                              weft_error *err)
{
    const meta *number = entry_of(c, "split.no"), *parts = entry_of(c, "split.count");
    const meta *tensors = entry_of(c, "split.tensors.count");
    if (!number || number->type != META_INT || parts->type != META_INT || parts->integer < 1 ||
        parts->integer > MAX_PART || number->integer < 0 || number->integer >= parts->integer)
        return weft_fail(err, WEFT_EFORMAT,
                         "%s: split.no or split.count is invalid; expected 1 to %d parts", c->path,
                         MAX_PART);
    if (tensors ? tensors->type != META_INT : parts->integer > 1)
        return weft_fail(err, WEFT_EFORMAT, "%s: split.tensors.count is missing or not an integer",
                         c->path);
    if (number->integer != 0)
        return weft_fail(err, WEFT_EINVAL,
                         "%s: part %lld of %lld of a model; give the first one, whose name ends "
                         "in -00001-of-%05lld.gguf",
                         c->path, (long long)number->integer + 1, /* bounded: by the count */
                         (long long)parts->integer, (long long)parts->integer);
    *count = parts->integer;
    *n_tensor = tensors ? tensors->integer : c->n_tensor;
    return WEFT_OK;
}

/* Opens the other parts of a file whose first part has been parsed. */
static weft_status open_parts(container *c, weft_load load, weft_error *err)
{
    int64_t count = 0, n_tensor = 0;
    weft_status status = read_split(c, &count, &n_tensor, err);
    if (status == WEFT_OK && count > 1 && !is_first_part(c->path, count))
        return weft_fail(err, WEFT_EFORMAT,
                         "%s: the first of %lld parts, but its name does not end in "
                         "-00001-of-%05lld.gguf",
                         c->path, (long long)count, (long long)count);
    if (status == WEFT_OK)
        status = container_index(c, err);
    for (int64_t part = 2; part <= count && status == WEFT_OK; part++)
        status = open_part(c, part, count, load, err);
    if (status == WEFT_OK && c->n_tensor != n_tensor)
        status = weft_fail(err, WEFT_EFORMAT,
                           "%s: its %lld parts hold %lld tensors, split.tensors.count says %lld",
                           c->path, (long long)count, (long long)c->n_tensor, (long long)n_tensor);
    return status;
}

/* ---- files ----------------------------------------------------------------------------------- */

static weft_status open_file(container *c, const char *path, weft_load load, weft_error *err)
{
    file *f = NULL;
    weft_status status = add_file(c, path, load, &f, err);
    if (status != WEFT_OK)
        return status;
    if (f->size >= 4 && memcmp(f->data, "GGUF", 4) == 0) {
        status = gguf_parse(c, f->data, f->size, err);
        return status == WEFT_OK && entry_of(c, "split.count") ? open_parts(c, load, err) : status;
    }
    return recognise(path, f->data, f->size, EXPECT_MODEL, err);
}

weft_status container_open(container *c, const char *path, weft_load load, host *h, weft_error *err)
{
    const bool directory = path_is_directory(path, h);
    weft_status status = container_begin(c, directory ? "safetensors" : "gguf", path, h, err);
    if (status == WEFT_OK)
        status = directory ? open_directory(c, load, err) : open_file(c, path, load, err);
    if (status == WEFT_OK)
        status = container_index(c, err);
    if (status != WEFT_OK)
        container_close(c);
    return status;
}
