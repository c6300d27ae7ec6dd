/* buffer.c - a growing array of bytes, and functions that append text to it. */
#include "base/buffer.h"

#include "base/utf8.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void buffer_begin(buffer *b, mem *m, weft_error *err)
{
    *b = (buffer){ .mem = m, .err = err };
}

void buffer_end(buffer *b)
{
    mem_free(b->mem, b->at);
    *b = (buffer){ 0 };
}

/* Makes room for n more bytes. */
static bool reserve(buffer *b, size_t n)
{
    if (b->failed || n <= b->room - b->n)
        return !b->failed;
    size_t room = b->room ? b->room : 4096;
    while (room - b->n < n && room <= SIZE_MAX / 2)
        room *= 2;
    uint8_t *more = mem_alloc(b->mem, room, "a file's head", b->err);
    b->failed = !more;
    if (b->failed)
        return false;
    if (b->n)
        memcpy(more, b->at, b->n);
    mem_free(b->mem, b->at);
    b->at = more;
    b->room = room;
    return true;
}

void buffer_put(buffer *b, const void *bytes, size_t n)
{
    if (n == 0 || !reserve(b, n))
        return;
    memcpy(b->at + b->n, bytes, n);
    b->n += n;
}

void buffer_text(buffer *b, const char *text)
{
    buffer_put(b, text, strlen(text));
}

void buffer_format(buffer *b, const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    const int n = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (n > 0)
        buffer_put(b, text, (size_t)n < sizeof text ? (size_t)n : sizeof text - 1);
}

static void quote_byte(buffer *b, uint8_t c)
{
    if (c == '"' || c == '\\')
        buffer_put(b, (char[]){ '\\', (char)c }, 2);
    else if (c < 0x20)
        buffer_format(b, "\\u%04x", c);
    else
        buffer_put(b, &c, 1);
}

void buffer_quote(buffer *b, const char *text, size_t n)
{
    buffer_put(b, "\"", 1);
    for (size_t i = 0; i < n; i++)
        quote_byte(b, (uint8_t)text[i]);
    buffer_put(b, "\"", 1);
}

void buffer_quote_any(buffer *b, const char *bytes, size_t n)
{
    uint32_t point;
    buffer_put(b, "\"", 1);
    for (size_t i = 0; i < n;) {
        size_t step = utf8_decode(bytes + i, n - i, &point);
        if (step == 0) {
            buffer_text(b, "\\ufffd");
            i++;
        }
        for (; step > 0; step--)
            quote_byte(b, (uint8_t)bytes[i++]);
    }
    buffer_put(b, "\"", 1);
}
