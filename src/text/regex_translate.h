/* regex_translate.h - Oniguruma's Ruby syntax in, PCRE2's syntax out. */
#ifndef WEFT_TEXT_REGEX_TRANSLATE_H
#define WEFT_TEXT_REGEX_TRANSLATE_H

#include "base/mem.h"

/* Text that grows. Once memory is refused it stays as it is and `failed` says so. */
typedef struct regex_text {
    char *text;
    size_t n, room;
    bool failed;
    bool word; /* it names the property word */
    mem *mem;
    weft_error *err;
} regex_text;

void regex_put(regex_text *t, const char *text, size_t n);
void regex_puts(regex_text *t, const char *text);
void regex_put_range(regex_text *t, uint32_t first, uint32_t last);
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

/* What stands for one code point. */
typedef struct regex_set {
    regex_text items; /* inside [ ] */
    bool negated;
} regex_set;

/* Reads behind a '\' an escape that stands for one code point, true with *c set, or for a class of
 * them, true with *c = REGEX_CLASS and its items put into `set` (as negated there). False with
 * *status == WEFT_OK, and nothing read, if it is neither. */
#define REGEX_CLASS UINT32_MAX
bool regex_read_escape(regex_source *s, regex_set *set, uint32_t *c, weft_status *status);

/* Reads a class behind its '['. With `plain` set only ASCII and no negation is taken. */
weft_status regex_read_class(regex_source *s, regex_set *set, bool plain);

/* The items of a property by its name in any spelling; false if there is none. */
bool regex_put_property(regex_text *t, const char *name, size_t n);

weft_status regex_translate(const char *pattern, size_t n, regex_text *out, mem *m,
                            weft_error *err);

/* As regex_new, for what is PCRE2's syntax already. */
struct regex;
struct regex *regex_compile(const char *translated, size_t n, mem *m, weft_error *err);

#endif
