/* regex.h - the patterns tokenizers ship, which Hugging Face runs on Oniguruma, run here on PCRE2.
 *
 * A pattern is translated construct by construct: what both engines spell alike is copied, what
 * they spell alike but read differently is spelled out (\s \w \d \h, POSIX brackets, \p{...},
 * {n,m}+, ^ and $), and anything else is refused with its name and its byte in the pattern.
 * docs/TEXT.md has the table.
 *
 * A regex never changes after regex_new and may be shared between threads. What a search writes
 * lives in a scratch, one per thread, good for any regex. */
#ifndef WEFT_TEXT_REGEX_REGEX_H
#define WEFT_TEXT_REGEX_REGEX_H

#include "base/mem.h"

typedef struct regex regex;
typedef struct regex_scratch regex_scratch;

/* `pattern` is UTF-8 in Oniguruma's Ruby syntax, as in a tokenizer.json. NULL with err filled on
 * failure: WEFT_EFORMAT for what is not a pattern, WEFT_EUNSUPPORTED for what is one in Oniguruma
 * but not here. `m` must outlive the regex. */
regex *regex_new(const char *pattern, size_t length, mem *m, weft_error *err);
void regex_free(regex *re);

/* All searches in one text may take so many steps together. A step is an item of the pattern, or a
 * byte on the way from one item to the next. */
#define REGEX_STEPS          1000000
#define REGEX_STEPS_PER_BYTE 100

regex_scratch *regex_scratch_new(mem *m, weft_error *err);

/* The searches that follow are in a text of n bytes. */
void regex_begin(regex_scratch *s, size_t n);

/* And in n more bytes of it. */
void regex_add(regex_scratch *s, size_t n);

void regex_scratch_free(regex_scratch *s);

/* The leftmost match in text[0..n) that starts at or after `from`, where look-behind may see what
 * is before. Returns 1 and the match as [*start, *end), 0 if there is none, or a negative number
 * with err filled where the search gave up (WEFT_EUNSUPPORTED) or wants
 * more memory than there is.
 *
 * `text` is valid UTF-8 and `from` the first byte of a code point or n: the caller has checked,
 * once, so that finding all matches of a long text costs what its length costs. */
int regex_find(const regex *re, regex_scratch *s, const char *text, size_t n, size_t from,
               size_t *start, size_t *end, weft_error *err);

/* All matches in turn, as the onig crate walks them: an empty match that touches the match before
 * it is passed over, and the search goes on one code point further. Begin with a zeroed walk. */
typedef struct regex_walk {
    size_t at;       /* where the next search starts */
    size_t last_end; /* of the last match */
    bool matched;    /* there was one */
} regex_walk;

/* As regex_find. */
int regex_next(const regex *re, regex_scratch *s, regex_walk *w, const char *text, size_t n,
               size_t *start, size_t *end, weft_error *err);

#endif
