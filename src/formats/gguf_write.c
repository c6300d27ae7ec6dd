/* gguf_write.c - collects keys and tensor headers in a buffer, then writes header, padding and data
 * in order. */
#include "formats/gguf_write.h"

#include "base/checked.h"

#include <assert.h>
#include <string.h>

#define ALIGNMENT 32 /* the default of readers */

enum { U8 = 0, U16 = 2, U32 = 4, I32 = 5, F32 = 6, BOOL = 7, STRING = 8, ARRAY = 9 };

void gguf_writer_begin(gguf_writer *w, save *s)
{
    mem *m = &s->host->mem;
    *w = (gguf_writer){ .save = s };
    buffer_begin(&w->entries, m, s->err);
    buffer_begin(&w->tensors, m, s->err);
    buffer_begin(&w->ends, m, s->err);
}

static void put_u32(buffer *b, uint32_t x)
{
    buffer_put(b, &x, sizeof x);
}

static void put_u64(buffer *b, uint64_t x)
{
    buffer_put(b, &x, sizeof x);
}

static void put_text(buffer *b, const char *text, size_t length)
{
    put_u64(b, length);
    buffer_put(b, text, length);
}

/* ---- keys ------------------------------------------------------------------------------------ */

static void put_entry(gguf_writer *w, const char *key, uint32_t kind, const void *value,
                      size_t size)
{
    put_text(&w->entries, key, strlen(key));
    put_u32(&w->entries, kind);
    buffer_put(&w->entries, value, size);
    w->n_entry++;
}

void gguf_add_u16(gguf_writer *w, const char *key, uint16_t x)
{
    put_entry(w, key, U16, &x, sizeof x);
}

void gguf_add_u32(gguf_writer *w, const char *key, uint32_t x)
{
    put_entry(w, key, U32, &x, sizeof x);
}

void gguf_add_i32(gguf_writer *w, const char *key, int32_t x)
{
    put_entry(w, key, I32, &x, sizeof x);
}

void gguf_add_f32(gguf_writer *w, const char *key, float x)
{
    put_entry(w, key, F32, &x, sizeof x);
}

void gguf_add_bool(gguf_writer *w, const char *key, bool x)
{
    put_entry(w, key, BOOL, &(uint8_t){ x }, 1);
}

void gguf_add_text(gguf_writer *w, const char *key, const char *text, size_t length)
{
    put_entry(w, key, STRING, NULL, 0);
    put_text(&w->entries, text, length);
}

static void array(gguf_writer *w, const char *key, uint32_t element, uint64_t n)
{
    put_entry(w, key, ARRAY, &element, sizeof element);
    put_u64(&w->entries, n);
}

void gguf_add_i32s(gguf_writer *w, const char *key, const int32_t *x, uint64_t n)
{
    array(w, key, I32, n);
    buffer_put(&w->entries, x, n * sizeof *x); /* bounded: n numbers are in memory */
}

void gguf_add_bytes(gguf_writer *w, const char *key, const uint8_t *x, uint64_t n)
{
    array(w, key, U8, n);
    buffer_put(&w->entries, x, n); /* bounded: likewise */
}

void gguf_add_bools(gguf_writer *w, const char *key, const bool *x, uint64_t n)
{
    array(w, key, BOOL, n);
    buffer_put(&w->entries, x, n); /* bounded: likewise */
}

void gguf_add_f32s(gguf_writer *w, const char *key, const float *x, uint64_t n)
{
    array(w, key, F32, n);
    buffer_put(&w->entries, x, n * sizeof *x); /* bounded: likewise */
}

void gguf_add_texts(gguf_writer *w, const char *key, uint64_t n)
{
    array(w, key, STRING, n);
}

void gguf_add_element(gguf_writer *w, const char *text, size_t length)
{
    put_text(&w->entries, text, length);
}

void gguf_add_meta(gguf_writer *w, const meta *m)
{
    put_text(&w->entries, m->key, strlen(m->key));
    buffer_put(&w->entries, m->raw, m->raw_bytes);
    w->n_entry++;
}

/* ---- tensors --------------------------------------------------------------------------------- */

void gguf_add_tensor(gguf_writer *w, const char *name, const dtype *type, int n_dim,
                     const int64_t *shape)
{
    uint64_t begin, bytes, end;
    if (!stored_bytes(type, n_dim, shape, &bytes) || !checked_align(w->size, ALIGNMENT, &begin) ||
        !checked_add(begin, bytes, &end)) {
        save_fail(w->save, WEFT_EINVAL,
                  "tensor %s: its rows are not a multiple of the %s block, or it is too large",
                  name, type->name);
        return;
    }
    put_text(&w->tensors, name, strlen(name));
    put_u32(&w->tensors, (uint32_t)n_dim);
    for (int d = n_dim - 1; d >= 0; d--)
        put_u64(&w->tensors, (uint64_t)shape[d]);
    put_u32(&w->tensors, (uint32_t)type->gguf);
    put_u64(&w->tensors, begin);
    buffer_put(&w->ends, &end, sizeof end);
    w->size = end;
    w->n_tensor++;
}

/* ---- the file -------------------------------------------------------------------------------- */

/* Writes zeros from n up to a multiple of the alignment; returns how many. */
static uint64_t pad(gguf_writer *w, uint64_t n)
{
    static const uint8_t zeros[ALIGNMENT];
    const uint64_t more = (ALIGNMENT - n % ALIGNMENT) % ALIGNMENT;
    save_put(w->save, zeros, (size_t)more);
    return more;
}

void gguf_writer_head(gguf_writer *w, const char *path)
{
    const uint32_t version = 3;
    save *s = w->save;
    if (w->entries.failed || w->tensors.failed || w->ends.failed)
        s->status = s->status == WEFT_OK ? WEFT_ENOMEM : s->status;
    save_file(s, path);
    save_put(s, "GGUF", 4);
    save_put(s, &version, sizeof version);
    save_put(s, &w->n_tensor, sizeof w->n_tensor);
    save_put(s, &w->n_entry, sizeof w->n_entry);
    save_put(s, w->entries.at, w->entries.n);
    save_put(s, w->tensors.at, w->tensors.n);
    pad(w, s->bytes);
}

/* Pads each tensor with zeros up to the next one, and the last one up to the end of the file, as
 * other writers do. */
void gguf_writer_data(gguf_writer *w, const void *bytes, size_t n)
{
    if (w->save->status != WEFT_OK)
        return;
    const uint64_t end = ((const uint64_t *)(const void *)w->ends.at)[w->i];
    assert(w->i < w->n_tensor && n <= end - w->at);
    save_put(w->save, bytes, n);
    w->at += n; /* bounded: by what was announced */
    if (w->at < end)
        return;
    w->at += pad(w, w->at); /* bounded: checked when the next was announced */
    w->i++;
}

void gguf_writer_end(gguf_writer *w)
{
    assert(w->save->status != WEFT_OK || w->i == w->n_tensor);
    buffer_end(&w->entries);
    buffer_end(&w->tensors);
    buffer_end(&w->ends);
}
