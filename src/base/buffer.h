/* buffer.h - a growing byte buffer, for building file headers and JSON. Memory is counted; errors
 * stick: after one, appends do nothing and `failed` stays true. */
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

/* Appends UTF-8 as a JSON string. Invalid bytes stay as they are, so that a reader refuses the file
 * instead of seeing another name. */
void buffer_quote(buffer *b, const char *text, size_t n);

/* The same for text that only people read: invalid UTF-8 becomes U+FFFD. */
void buffer_quote_any(buffer *b, const char *bytes, size_t n);

#endif
