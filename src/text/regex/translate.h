/* translate.h - Oniguruma's Ruby syntax in, PCRE2's syntax out. */
#ifndef WEFT_TEXT_REGEX_TRANSLATE_H
#define WEFT_TEXT_REGEX_TRANSLATE_H

#include "base/mem.h"
#include "text/regex/tables.h"

/* Text that grows. Once memory is refused it stays as it is and `failed` says so. */
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

/* Makes room for so many bytes more. False, with the error filled, where there is none. */
bool regex_grow(regex_text *t, size_t more);

/* Puts "(?:" before what begins at `from`, and ")" behind it. */
void regex_wrap(regex_text *t, size_t from);
void regex_text_free(regex_text *t);

/* What is being read. */
typedef struct regex_source {
    const char *pattern;
    size_t n, at;
    mem *mem;
    weft_error *err;
} regex_source;

/* Fails with `what`, the text from `from` on, and where it is. */
weft_status regex_refuse(const regex_source *s, size_t from, weft_status code, const char *what);

/* The code point at s->at, which is moved behind it; false at the end or where it is not UTF-8. */
bool regex_read(regex_source *s, uint32_t *c);

/* The ASCII character at s->at + ahead, or 0. */
char regex_peek(const regex_source *s, size_t ahead);

/* What an escape stands for: one code point, or those that have a property or do not. */
typedef struct regex_escape {
    uint32_t point;
    const regex_property *property; /* NULL for a code point */
    bool negated;
} regex_escape;

/* Reads an escape behind its '\'. False, with nothing read, if it stands for neither. */
bool regex_read_escape(regex_source *s, regex_escape *e, weft_status *status);

/* By its name in any spelling; NULL if there is none. */
const regex_property *regex_find_property(const char *name, size_t n);

/* What it is inside a class of PCRE2. */
void regex_put_property(regex_text *t, const regex_property *p);

/* Reads a class behind its '[' and puts it as PCRE2 spells it, brackets included. With `plain` set
 * only ASCII and no negation is taken. */
weft_status regex_read_class(regex_source *s, bool plain, regex_text *to);

weft_status regex_translate(const char *pattern, size_t n, regex_text *out, mem *m,
                            weft_error *err);

#endif
