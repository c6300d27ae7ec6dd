/* chars.h - code points as Python's str methods see them: chat templates are written for Python. */
#ifndef WEFT_TEXT_JINJA_CHARS_H
#define WEFT_TEXT_JINJA_CHARS_H

#include <stdbool.h>
#include <stdint.h>

enum {
    CHAR_ALPHA = 1,
    CHAR_DECIMAL = 2,
    CHAR_DIGIT = 4,
    CHAR_NUMERIC = 8,
    CHAR_PRINTABLE = 16,
    CHAR_LOWER = 32,
    CHAR_UPPER = 64,
    CHAR_TITLE = 128,
    CHAR_IGNORABLE = 256, /* a final sigma looks past it */
    CHAR_CASED = 512
};

/* Where the bits change: code point << 11 | the bits from there on. */
extern const uint32_t jinja_edges[];
extern const int n_jinja_edges;

typedef struct jinja_case {
    uint32_t first, last; /* every `step`-th of these */
    int32_t step, difference;
} jinja_case;

typedef struct jinja_special {
    uint32_t from, to[3]; /* 0: no further code point */
} jinja_special;

extern const jinja_case jinja_uppers[];
extern const int n_jinja_uppers;
extern const jinja_special jinja_long_uppers[], jinja_titles[];
extern const int n_jinja_long_uppers, n_jinja_titles;

int jchar_bits(uint32_t c);
bool jchar_is_space(uint32_t c); /* str.isspace, strip, split and \s of Python's re */

/* Write up to three code points and return how many. */
int jchar_upper(uint32_t c, uint32_t to[3]);
int jchar_title(uint32_t c, uint32_t to[3]);

#endif
