/* buffer.h - bytes that grow while a file's head or a JSON text is put together. Memory is counted;
 * errors stick: after one, nothing is added and `failed` stays true. */
#ifndef WEFT_BASE_BUFFER_H
#define WEFT_BASE_BUFFER_H

#include "base/mem.h"

typedef struct buffer {
    mem *mem;
    weft_error *err;
    uint8_t *at;
    size_t n, room;
    bool failed;
} buffer;

void buffer_begin(buffer *b, mem *m, weft_error *err);
void buffer_end(buffer *b);

void buffer_put(buffer *b, const void *bytes, size_t n);
void buffer_text(buffer *b, const char *text);
void buffer_format(buffer *b, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* UTF-8 in quotes, as JSON has it. Other bytes stay as they are, so that a reader refuses the file
 * instead of meeting another name. */
void buffer_quote(buffer *b, const char *text, size_t n);

/* The same for text that only people read: bytes that are not UTF-8 become U+FFFD. */
void buffer_quote_any(buffer *b, const char *bytes, size_t n);

#endif
