/* gguf_write.h - writes a GGUF file, version 3; gguf.c has the layout.
 *
 *     gguf_writer w;
 *     gguf_writer_begin(&w, &set);
 *     gguf_add_text(&w, "general.architecture", "llama", 5);      keys, in the order of the file
 *     gguf_add_tensor(&w, "token_embd.weight", type, 2, shape);   tensors, likewise
 *     gguf_writer_head(&w, path);                                 opens the file, writes the above
 *     gguf_writer_data(&w, bytes, n);                             all bytes of the first tensor ...
 *     gguf_writer_end(&w);
 *
 * Descriptions of tensors are buffered until the header is written, their data never is. Errors
 * stick to the set of files. */
#ifndef WEFT_FORMATS_GGUF_WRITE_H
#define WEFT_FORMATS_GGUF_WRITE_H

#include "base/buffer.h"
#include "base/save.h"
#include "formats/container.h"

typedef struct gguf_writer {
    save *save;
    buffer entries, tensors;
    buffer ends; /* end of each tensor in the data: u64 */
    uint64_t n_entry, n_tensor;
    uint64_t size;  /* of the data, as declared */
    uint64_t at, i; /* bytes of data so far, and the current tensor */
} gguf_writer;

void gguf_writer_begin(gguf_writer *w, save *s);

void gguf_add_u16(gguf_writer *w, const char *key, uint16_t x);
void gguf_add_u32(gguf_writer *w, const char *key, uint32_t x);
void gguf_add_i32(gguf_writer *w, const char *key, int32_t x);
void gguf_add_f32(gguf_writer *w, const char *key, float x);
void gguf_add_bool(gguf_writer *w, const char *key, bool x);
void gguf_add_text(gguf_writer *w, const char *key, const char *text, size_t length);
void gguf_add_i32s(gguf_writer *w, const char *key, const int32_t *x, uint64_t n);
void gguf_add_bytes(gguf_writer *w, const char *key, const uint8_t *x, uint64_t n);
void gguf_add_bools(gguf_writer *w, const char *key, const bool *x, uint64_t n);
void gguf_add_f32s(gguf_writer *w, const char *key, const float *x, uint64_t n);

/* An array of strings: this header, then n elements. */
void gguf_add_texts(gguf_writer *w, const char *key, uint64_t n);
void gguf_add_element(gguf_writer *w, const char *text, size_t length);

/* Copies an entry of another file. */
void gguf_add_meta(gguf_writer *w, const meta *m);

/* shape: outermost first. */
void gguf_add_tensor(gguf_writer *w, const char *name, const dtype *type, int n_dim,
                     const int64_t *shape);

void gguf_writer_head(gguf_writer *w, const char *path);
void gguf_writer_data(gguf_writer *w, const void *bytes, size_t n);

/* Frees the writer; the file stays in the set, which is not yet committed. */
void gguf_writer_end(gguf_writer *w);

#endif
