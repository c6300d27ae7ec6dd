/* regex.h - the patterns that tokenizers ship, which Hugging Face runs on Oniguruma, run here on
 * PCRE2.
 *
 * A pattern is translated construct by construct. Syntax that means the same to both engines is
 * copied. Syntax that they read differently is rewritten (\s \w \d \h, POSIX brackets, \p{...},
 * {n,m}+, ^ and $). Anything else is an error that names the construct and its byte in the pattern.
 * docs/TEXT.md has the table.
 *
 * A regex never changes after regex_new and may be shared between threads. A search writes to a
 * scratch only, one per thread, good for any regex. */
#ifndef WEFT_TEXT_REGEX_REGEX_H
#define WEFT_TEXT_REGEX_REGEX_H

#include "base/mem.h"

typedef struct regex regex;
typedef struct regex_scratch regex_scratch;

/* `pattern` is UTF-8 in Oniguruma's Ruby syntax, as in a tokenizer.json. NULL with err filled on
 * failure: WEFT_EFORMAT for an invalid pattern, WEFT_EUNSUPPORTED for one that Oniguruma takes but
 * weft does not. `m` must outlive the regex. */
regex *regex_new(const char *pattern, size_t length, mem *m, weft_error *err);
void regex_free(regex *re);

/* Budget of steps for all searches in one text. A step is an item of the pattern, or a byte on the
 * way from one item to the next. */
#define REGEX_STEPS          1000000
#define REGEX_STEPS_PER_BYTE 100

regex_scratch *regex_scratch_new(mem *m, weft_error *err);

/* Starts a text of n bytes: sets the budget of the searches that follow. */
void regex_begin(regex_scratch *s, size_t n);

/* Adds n more bytes to that text. */
void regex_add(regex_scratch *s, size_t n);

void regex_scratch_free(regex_scratch *s);

/* The leftmost match in text[0..n) that starts at or after `from`. Look-behind may see the text
 * before `from`. Returns 1 and the match as [*start, *end), or 0 if there is none. Returns a
 * negative number with err filled if the search gave up (WEFT_EUNSUPPORTED) or ran out of memory.
 *
 * `text` is valid UTF-8 and `from` the first byte of a code point or n: the caller checks this
 * once, so that finding all matches of a long text takes linear time. */
int regex_find(const regex *re, regex_scratch *s, const char *text, size_t n, size_t from,
               size_t *start, size_t *end, weft_error *err);

/* All matches in order, as the onig crate walks them: an empty match that touches the previous
 * match is skipped, and the search continues one code point later. Begin with a zeroed walk. */
typedef struct regex_walk {
    size_t at;       /* where the next search starts */
    size_t last_end; /* end of the last match */
    bool matched;    /* there was a match */
} regex_walk;

/* Same contract as regex_find. */
int regex_next(const regex *re, regex_scratch *s, regex_walk *w, const char *text, size_t n,
               size_t *start, size_t *end, weft_error *err);

#endif
