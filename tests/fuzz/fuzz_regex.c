/* fuzz_regex.c - a pattern, a zero byte, and a text to search. Also normalises the text. */
#include "hostile.h"

#include "base/utf8.h"
#include "text/regex/regex.h"
#include "text/unicode/unicode.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_BYTES 256

static void wrong(const char *what)
{
    fprintf(stderr, "%s\n", what);
    abort();
}

/* The bytes as UTF-8, with a question mark for each invalid one. */
static size_t as_text(const uint8_t *data, size_t size, char *to)
{
    size_t n = 0;
    for (size_t at = 0; at < size && n + 4 <= TEXT_BYTES;) {
        uint32_t c;
        size_t length = utf8_decode((const char *)data + at, size - at, &c);
        if (length == 0) {
            to[n++] = '?';
            at++;
            continue;
        }
        memcpy(to + n, data + at, length);
        n += length;
        at += length;
    }
    return n;
}

static bool between_points(const char *text, size_t n, size_t at)
{
    return at == n || (at < n && ((uint8_t)text[at] & 0xC0) != 0x80);
}

static void search_all(const regex *re, mem *m, const char *text, size_t n)
{
    weft_error err = { 0 };
    regex_scratch *s = regex_scratch_new(m, &err);
    regex_walk w = { 0 };
    size_t start, end, last = 0;
    int rc = s ? 1 : 0;
    while (rc == 1 && (rc = regex_next(re, s, &w, text, n, &start, &end, &err)) == 1) {
        if (start < last || end < start || end > n)
            wrong("a match lies before the last one or outside of the text");
        if (!between_points(text, n, start) || !between_points(text, n, end))
            wrong("a match cuts a code point");
        last = end;
    }
    if (rc < 0 && !err.message[0])
        wrong("a search failed without a sentence");
    regex_scratch_free(s);
}

static void normalize_all(mem *m, const char *text, size_t n)
{
    weft_error err = { 0 };
    unicode_text once = { .mem = m }, twice = { .mem = m };
    for (unicode_form form = UNICODE_NFC; form <= UNICODE_NFKD; form++) {
        if (unicode_normalize(form, text, n, &once, &err) != WEFT_OK ||
            unicode_normalize(form, once.text, once.n, &twice, &err) != WEFT_OK)
            continue;
        if (once.n != twice.n || (once.n > 0 && memcmp(once.text, twice.text, once.n) != 0))
            wrong("a normal form is not its own normal form");
        for (size_t i = 0; i < once.n; i++)
            if (once.from[i] >= n || !between_points(text, n, once.from[i]))
                wrong("a byte came from nowhere");
    }
    unicode_text_free(&once);
    unicode_text_free(&twice);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *zero = size > 0 ? memchr(data, 0, size) : NULL;
    const size_t length = zero ? (size_t)(zero - data) : size;
    char text[TEXT_BYTES];
    const size_t n = zero ? as_text(zero + 1, size - length - 1, text) : 0;
    mem m;
    mem_init(&m, (size_t)64 << 20, NULL);
    weft_error err = { 0 };
    regex *re = regex_new((const char *)data, length, &m, &err);
    if (re)
        search_all(re, &m, text, n);
    else if (!err.message[0])
        wrong("a pattern was refused without a sentence");
    regex_free(re);
    normalize_all(&m, text, n);
    if (m.used != 0)
        wrong("memory was not given back");
    return 0;
}
