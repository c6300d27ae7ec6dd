/* scan.c - hand-written scanners for the patterns that most tokenizers share, for ASCII text.
 *
 * A regular expression engine spends its time on questions whose answer is known for ASCII. Each
 * function here returns exactly what its pattern would match, or 0, and then the caller runs the
 * pattern. A byte above 0x7F anywhere in the text that decides the match gives 0. Tests compare
 * both on random text. */
#include "text/split.h"

#include <string.h>

enum { LETTER = 1, DIGIT = 2, SPACE = 4, LINE = 8, OTHER = 16, FOREIGN = 32 };

/* The kind of a byte in these patterns: \p{L}, \p{N}, \s, [\r\n], anything else, or not ASCII. */
static const uint8_t kind[256] = {
    [0 ... 8] = OTHER,      [9] = SPACE,           [10] = SPACE | LINE,     [11 ... 12] = SPACE,
    [13] = SPACE | LINE,    [14 ... 31] = OTHER,   [' '] = SPACE,           ['!' ... '/'] = OTHER,
    ['0' ... '9'] = DIGIT,  [':' ... '@'] = OTHER, ['A' ... 'Z'] = LETTER,  ['[' ... '`'] = OTHER,
    ['a' ... 'z'] = LETTER, ['{' ... 127] = OTHER, [128 ... 255] = FOREIGN,
};

static inline unsigned at_byte(const char *s, size_t n, size_t i)
{
    return i < n ? kind[(uint8_t)s[i]] : 0;
}

/* The end of a run of bytes that are all of these kinds. */
static inline size_t run_of(const char *s, size_t n, size_t i, unsigned kinds)
{
    while (i < n && kind[(uint8_t)s[i]] & kinds)
        i++;
    return i;
}

/* 's 't 're 've 'm 'll 'd: its length after the apostrophe, or 0. */
static size_t contraction(const char *s, size_t n, size_t i, bool any_case)
{
    const char fold = any_case ? 0x20 : 0;
    const char a = i < n ? (char)(s[i] | fold) : 0, b = i + 1 < n ? (char)(s[i + 1] | fold) : 0;
    if (a == 's' || a == 't' || a == 'm' || a == 'd')
        return 1;
    return (a == 'r' && b == 'e') || (a == 'v' && b == 'e') || (a == 'l' && b == 'l') ? 2 : 0;
}

/* \s+(?!\S)|\s+ : white space without its last character, if another character follows and there
 * are at least two spaces. */
static size_t spaces(const char *s, size_t n, size_t at)
{
    const size_t end = run_of(s, n, at, SPACE);
    if (at_byte(s, n, end) == FOREIGN)
        return 0;
    return end < n && end - at > 1 ? end - 1 : end;
}

const char pattern_gpt2[] =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

static size_t scan_gpt2(const char *s, size_t n, size_t at)
{
    if (s[at] == '\'') {
        const size_t length = contraction(s, n, at + 1, false);
        if (length)
            return at + 1 + length;
    }
    const size_t begin = at + (s[at] == ' ');
    const unsigned first = at_byte(s, n, begin);
    if (first == FOREIGN)
        return 0;
    if (first & (LETTER | DIGIT | OTHER)) {
        const size_t end = run_of(s, n, begin, first);
        return at_byte(s, n, end) == FOREIGN ? 0 : end;
    }
    return spaces(s, n, at);
}

/* cl100k, Llama 3 and Qwen 2, which differ in how many digits stay together.
 *
 * (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*
 * |\s*[\r\n]+|\s+(?!\S)|\s+ */
static size_t scan_cl100k(const char *s, size_t n, size_t at, size_t digits)
{
    const unsigned first = at_byte(s, n, at), second = at_byte(s, n, at + 1);
    if (first == FOREIGN)
        return 0;
    if (s[at] == '\'') {
        const size_t length = contraction(s, n, at + 1, true);
        if (second == FOREIGN || at_byte(s, n, at + 2) == FOREIGN)
            return 0; /* (?i) matches U+017F as s and U+212A as k */
        if (length)
            return at + 1 + length;
    }
    if (first == LETTER || (!(first & (LINE | DIGIT)) && second == LETTER)) {
        const size_t end = run_of(s, n, at + 1, LETTER);
        return at_byte(s, n, end) == FOREIGN ? 0 : end;
    }
    if (!(first & (LINE | DIGIT)) && second == FOREIGN)
        return 0;
    if (first == DIGIT) {
        const size_t most = n - at > digits ? at + digits : n;
        const size_t end = run_of(s, most, at, DIGIT);
        return end < most && at_byte(s, n, end) == FOREIGN ? 0 : end;
    }
    const size_t begin = at + (s[at] == ' ');
    if (at_byte(s, n, begin) == OTHER) {
        size_t end = run_of(s, n, begin, OTHER);
        if (at_byte(s, n, end) == FOREIGN)
            return 0;
        return run_of(s, n, end, LINE);
    }
    const size_t end = run_of(s, n, at, SPACE);
    if (at_byte(s, n, end) == FOREIGN)
        return 0;
    for (size_t i = end; i > at; i--)
        if (at_byte(s, n, i - 1) & LINE)
            return i; /* up to the last line end */
    return spaces(s, n, at);
}

static size_t scan_llama3(const char *s, size_t n, size_t at)
{
    return scan_cl100k(s, n, at, 3);
}

static size_t scan_qwen2(const char *s, size_t n, size_t at)
{
    return scan_cl100k(s, n, at, 1);
}

scan_fn *scan_of_pattern(const char *pattern, size_t n)
{
#define BEGIN "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|"
#define END   "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
    static const struct {
        const char *pattern;
        scan_fn *scan;
    } known[] = {
        { pattern_gpt2, scan_gpt2 },
        { BEGIN "\\p{N}{1,3}" END, scan_llama3 },
        { BEGIN "\\p{N}" END, scan_qwen2 },
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strlen(known[i].pattern) == n && memcmp(known[i].pattern, pattern, n) == 0)
            return known[i].scan;
    return NULL;
}
