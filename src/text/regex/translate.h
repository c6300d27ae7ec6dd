/* translate.h - Oniguruma's Ruby syntax in, PCRE2's syntax out. */
#ifndef WEFT_TEXT_REGEX_TRANSLATE_H
#define WEFT_TEXT_REGEX_TRANSLATE_H

#include "base/mem.h"
#include "text/regex/tables.h"

/* Text that grows. Once an allocation fails it stays as it is and `failed` is set. */
typedef struct regex_text {
    char *text;
    size_t n, room;
    bool failed;
    mem *mem;
    weft_error *err;
} regex_text;

void regex_put(regex_text *t, const char *text, size_t n);
void regex_puts(regex_text *t, const char *text);
void regex_put_range(regex_text *t, uint32_t first, uint32_t last);

/* Makes room for `more` bytes. False, with the error filled, if there is no memory. */
bool regex_grow(regex_text *t, size_t more);

/* Wraps the text from `from` on in "(?:" and ")". */
void regex_wrap(regex_text *t, size_t from);
void regex_text_free(regex_text *t);

/* The pattern being read. */
typedef struct regex_source {
    const char *pattern;
    size_t n, at;
    mem *mem;
    weft_error *err;
} regex_source;

/* Fails with `what`, the text from `from` on, and its place. */
weft_status regex_refuse(const regex_source *s, size_t from, weft_status code, const char *what);

/* Reads the code point at s->at and advances; false at the end or on invalid UTF-8. */
bool regex_read(regex_source *s, uint32_t *c);

/* The ASCII character at s->at + ahead, or 0. */
char regex_peek(const regex_source *s, size_t ahead);

/* The meaning of an escape: one code point, or the code points with or without a property. */
typedef struct regex_escape {
    uint32_t point;
    const regex_property *property; /* NULL for a code point */
    bool negated;
} regex_escape;

/* Reads an escape after its '\'. False, with nothing read, if it is neither. */
bool regex_read_escape(regex_source *s, regex_escape *e, weft_status *status);

/* Looks up a name in any spelling; NULL if there is none. */
const regex_property *regex_find_property(const char *name, size_t n);

/* Writes it as items of a PCRE2 class. */
void regex_put_property(regex_text *t, const regex_property *p);

/* Reads a class after its '[' and writes it in PCRE2 syntax, brackets included. With `plain` set,
 * only ASCII without negation is accepted. */
weft_status regex_read_class(regex_source *s, bool plain, regex_text *to);

weft_status regex_translate(const char *pattern, size_t n, regex_text *out, mem *m,
                            weft_error *err);

#endif
