/* safetensors_write.h - writes a safetensors file (safetensors.c has the layout), and the index
 * over several of them. Used like gguf_write.h: names first, then the header, then the data in the
 * same order. */
#ifndef WEFT_FORMATS_SAFETENSORS_WRITE_H
#define WEFT_FORMATS_SAFETENSORS_WRITE_H

#include "base/buffer.h"
#include "base/save.h"
#include "formats/container.h"

typedef struct safetensors_writer {
    save *save;
    buffer head;   /* JSON */
    uint64_t size; /* of the data, as declared */
    uint64_t at;   /* bytes of data so far */
    uint64_t n_tensor;
} safetensors_writer;

void safetensors_writer_begin(safetensors_writer *w, save *s);

/* shape: outermost first. */
void safetensors_add(safetensors_writer *w, const char *name, const dtype *type, int n_dim,
                     const int64_t *shape);

void safetensors_writer_head(safetensors_writer *w, const char *path);
void safetensors_writer_data(safetensors_writer *w, const void *bytes, size_t n);
void safetensors_writer_end(safetensors_writer *w);

#endif
