/* open.c - opens an adapter in whichever format it is. */
#include "adapt/adapter.h"

#include "adapt/gguf_lora.h"
#include "adapt/peft.h"

#include <string.h>

weft_status adapter_open(adapter *a, const model *m, const char *path, weft_load load,
                         weft_error *err)
{
    const bool is_file = path_exists(path, m->host) && !path_is_directory(path, m->host);
    return is_file ? gguf_lora_open(a, m, path, load, err) : peft_open(a, m, path, load, err);
}

static bool has(const char *directory, const char *name, host *h)
{
    char path[4096];
    return path_join(path, sizeof path, directory, name) && path_exists(path, h);
}

static bool is_gguf_lora(const char *path, host *h)
{
    container c;
    weft_error why = { 0 };
    bool is = false;
    if (container_begin(&c, "gguf", path, h, &why) != WEFT_OK)
        return false;
    file *f = container_file(&c, &why);
    if (f && file_open(f, path, WEFT_LOAD_MAP, h, &why) == WEFT_OK && f->size > 4 &&
        memcmp(f->data, "GGUF", 4) == 0)
        is = gguf_parse(&c, f->data, f->size, &why) == WEFT_OK &&
             container_index(&c, &why) == WEFT_OK && gguf_is_lora(&c);
    container_close(&c);
    return is;
}

bool adapter_is_one(const char *path, host *h)
{
    if (path_is_directory(path, h))
        return has(path, "adapter_config.json", h) && !has(path, "config.json", h);
    return path_exists(path, h) && is_gguf_lora(path, h);
}
