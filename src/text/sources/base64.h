/* base64.h - the value of a base64 digit. */
#ifndef WEFT_TEXT_SOURCES_BASE64_H
#define WEFT_TEXT_SOURCES_BASE64_H

/* 0 to 63, or -1. */
static inline int base64_digit(char c)
{
    return c >= 'A' && c <= 'Z'   ? c - 'A'
           : c >= 'a' && c <= 'z' ? c - 'a' + 26
           : c >= '0' && c <= '9' ? c - '0' + 52
           : c == '+'             ? 62
           : c == '/'             ? 63
                                  : -1;
}

#endif
