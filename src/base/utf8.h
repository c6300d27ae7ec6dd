/* utf8.h - code points in and out of bytes. Strict: no overlong forms, no surrogates, nothing above
 * U+10FFFF. */
#ifndef WEFT_BASE_UTF8_H
#define WEFT_BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Reads one code point from text[0..length). Returns the bytes it takes, or 0 if they are not
 * UTF-8. */
size_t utf8_decode(const char *text, size_t length, uint32_t *point);

/* Writes a code point, at most four bytes; returns how many, or 0 if it is not one. */
size_t utf8_encode(uint32_t point, char *to);

/* The first byte of text that is not UTF-8, or length. */
size_t utf8_find_wrong(const char *text, size_t length);

/* Length of an incomplete code point at the end of text, which a stream must hold back. */
size_t utf8_unfinished(const char *text, size_t length);

/* The value of a hexadecimal digit, or -1. */
static inline int text_hex(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if ((c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'))
        return (c & 7) + 9;
    return -1;
}

/* Are these the last bytes of s? */
bool text_ends_with(const char *s, const char *tail);

#endif
