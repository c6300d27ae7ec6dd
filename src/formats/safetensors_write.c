/* safetensors_write.c - collects the JSON header, then writes it and the data in the same order. */
#include "formats/safetensors_write.h"

#include "base/checked.h"

#include <assert.h>
#include <string.h>

void safetensors_writer_begin(safetensors_writer *w, save *s)
{
    *w = (safetensors_writer){ .save = s };
    buffer_begin(&w->head, &s->host->mem, s->err);
    buffer_text(&w->head, "{\"__metadata__\":{\"format\":\"pt\"}"); /* transformers requires it */
}

void safetensors_add(safetensors_writer *w, const char *name, const dtype *type, int n_dim,
                     const int64_t *shape)
{
    uint64_t bytes, end;
    if (!stored_bytes(type, n_dim, shape, &bytes) || !checked_add(w->size, bytes, &end)) {
        save_fail(w->save, WEFT_EINVAL, "tensor %s is too large", name);
        return;
    }
    buffer_text(&w->head, ",");
    buffer_quote(&w->head, name, strlen(name));
    buffer_format(&w->head, ":{\"dtype\":\"%s\",\"shape\":[", type->safetensors);
    for (int d = 0; d < n_dim; d++)
        buffer_format(&w->head, "%s%lld", d ? "," : "", (long long)shape[d]);
    buffer_format(&w->head, "],\"data_offsets\":[%llu,%llu]}", (unsigned long long)w->size,
                  (unsigned long long)end);
    w->size = end;
    w->n_tensor++;
}

/* Spaces after the JSON align the data to 8 bytes. */
void safetensors_writer_head(safetensors_writer *w, const char *path)
{
    save *s = w->save;
    buffer_text(&w->head, "}");
    buffer_put(&w->head, "       ", (8 - w->head.n % 8) % 8);
    const uint64_t n = w->head.n;
    if (w->head.failed && s->status == WEFT_OK)
        s->status = WEFT_ENOMEM;
    save_file(s, path);
    save_put(s, &n, sizeof n);
    save_put(s, w->head.at, w->head.n);
}

void safetensors_writer_data(safetensors_writer *w, const void *bytes, size_t n)
{
    assert(w->save->status != WEFT_OK || n <= w->size - w->at);
    save_put(w->save, bytes, n);
    w->at += n; /* bounded: by what was announced */
}

void safetensors_writer_end(safetensors_writer *w)
{
    assert(w->save->status != WEFT_OK || w->at == w->size);
    buffer_end(&w->head);
}
