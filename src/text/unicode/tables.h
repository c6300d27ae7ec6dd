/* tables.h - the tables for unicode.h. */
#ifndef WEFT_TEXT_UNICODE_TABLES_H
#define WEFT_TEXT_UNICODE_TABLES_H

#include <stdbool.h>
#include <stdint.h>

/* The bits of a code point. */
enum {
    IS_NUMERIC = 1,
    IS_WORD = 2,
    IS_CONTROL = 4,
    IS_PUNCTUATION = 8,
    IS_ACCENT = 16,
    IS_MARK = 32,
    IS_INERT = 64 /* the normal forms neither change nor move it */
};

/* Where the bits change: code point << 8 | the bits from there on. */
extern const uint32_t unicode_edges[];
extern const int n_unicode_edges;

/* For each 256 code points below 0x20000, the last edge at or before the first of them. */
extern const uint16_t unicode_index[512];

/* Where the script changes: code point << 8 | the script from there on. */
extern const uint32_t unicode_scripts[];
extern const int n_unicode_scripts;

typedef struct unicode_case {
    uint32_t first, last; /* every `step`-th of these */
    int32_t step, difference;
} unicode_case;

extern const unicode_case unicode_lowers[];
extern const int n_unicode_lowers;

bool unicode_is_inert(uint32_t c);

#endif
