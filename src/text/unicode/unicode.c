/* unicode.c - classes, scripts, lower case. */
#include "text/unicode/unicode.h"

#include "base/utf8.h"
#include "text/unicode/tables.h"

#include <utf8proc.h>

/* The value at c: of the last of edges[low..high) that is not after c. Edges are code point << 8 |
 * value. */
static unsigned value_at(const uint32_t *edges, int low, int high, uint32_t c)
{
    const uint32_t key = c << 8 | 0xFF;
    while (high - low > 1) {
        const int middle = (low + high) / 2;
        if (edges[middle] <= key)
            low = middle;
        else
            high = middle;
    }
    return edges[low] & 0xFF;
}

static unsigned bits_of(uint32_t c)
{
    const uint32_t block = c >> 8;
    if (block < 511)
        return value_at(unicode_edges, unicode_index[block], unicode_index[block + 1] + 1, c);
    if (c > 0x10FFFF)
        return 0;
    return value_at(unicode_edges, unicode_index[511], n_unicode_edges, c);
}

bool unicode_is_space(uint32_t c)
{
    if (c < 0x80)
        return c == ' ' || (c >= 9 && c <= 13);
    return c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 ||
           c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

bool unicode_is_numeric(uint32_t c)
{
    return bits_of(c) & IS_NUMERIC;
}

bool unicode_is_word(uint32_t c)
{
    return bits_of(c) & IS_WORD;
}

bool unicode_is_control(uint32_t c)
{
    return bits_of(c) & IS_CONTROL;
}

bool unicode_is_punctuation(uint32_t c)
{
    return bits_of(c) & IS_PUNCTUATION;
}

bool unicode_is_accent(uint32_t c)
{
    return bits_of(c) & IS_ACCENT;
}

bool unicode_is_mark(uint32_t c)
{
    return bits_of(c) & IS_MARK;
}

bool unicode_is_inert(uint32_t c)
{
    return bits_of(c) & IS_INERT;
}

/* The Han blocks that BERT knew; kana and Hangul are words. */
bool unicode_is_han(uint32_t c)
{
    return (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0x3400 && c <= 0x4DBF) ||
           (c >= 0x20000 && c <= 0x2A6DF) || (c >= 0x2A700 && c <= 0x2B73F) ||
           (c >= 0x2B740 && c <= 0x2B81F) || (c >= 0x2B920 && c <= 0x2CEAF) ||
           (c >= 0xF900 && c <= 0xFAFF) || (c >= 0x2F800 && c <= 0x2FA1F);
}

int unicode_script(uint32_t c)
{
    return c > 0x10FFFF ? 0 : (int)value_at(unicode_scripts, 0, n_unicode_scripts, c);
}

int unicode_lower(uint32_t c, uint32_t to[3])
{
    to[0] = c;
    if (c < 0x80) {
        to[0] |= (c >= 'A' && c <= 'Z') ? 0x20 : 0;
        return 1;
    }
    if (c == 0x130) { /* capital I with a dot: i and the dot, the only one that becomes two */
        to[0] = 'i';
        to[1] = 0x307;
        return 2;
    }
    int low = 0, high = n_unicode_lowers;
    while (high - low > 1) {
        const int middle = (low + high) / 2;
        if (unicode_lowers[middle].first <= c)
            low = middle;
        else
            high = middle;
    }
    const unicode_case *row = &unicode_lowers[low];
    if (c >= row->first && c <= row->last && (c - row->first) % (uint32_t)row->step == 0)
        to[0] = (uint32_t)((int32_t)c + row->difference);
    return 1;
}

size_t unicode_grapheme(const char *text, size_t n)
{
    uint32_t before, c;
    size_t at = utf8_decode(text, n, &before), length;
    for (utf8proc_int32_t state = 0; at < n && (length = utf8_decode(text + at, n - at, &c)) > 0;
         at += length, before = c)
        if (utf8proc_grapheme_break_stateful((utf8proc_int32_t)before, (utf8proc_int32_t)c, &state))
            break;
    return at;
}
