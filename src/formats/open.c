/* open.c - which format a path is, and which files belong to it. */
#include "formats/container.h"

#include <stdio.h>
#include <string.h>

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
    weft_error why = { 0 };
    weft_status status = open_part(c, 1, "config.json", WEFT_LOAD_COPY, &why);
    if (status == WEFT_EIO)
        return weft_fail(err, WEFT_EIO,
                         "%.300s; a model is a GGUF file or a directory with config.json and "
                         "model.safetensors",
                         why.message);
    if (status != WEFT_OK)
        return weft_fail(err, why.code, "%s", why.message);
    status = open_part(c, 0, "model.safetensors", load, err);
    if (status == WEFT_EIO &&
        open_part(c, 0, "model.safetensors.index.json", load, NULL) == WEFT_OK)
        return weft_fail(
            err, WEFT_EUNSUPPORTED,
            "%s: weights in several files (model.safetensors.index.json) are not read yet",
            c->path);
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
