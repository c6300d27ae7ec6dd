/* utf8.c - strict UTF-8, by the table of well-formed sequences in the Unicode Standard (3-7). */
#include "base/utf8.h"

#include <string.h>

/* The length a lead byte announces, and the smallest code point that needs that length. */
static size_t announced(uint8_t lead, uint32_t *min)
{
    if (lead < 0x80)
        return *min = 0, 1;
    if (lead >= 0xC2 && lead < 0xE0)
        return *min = 0x80, 2;
    if (lead >= 0xE0 && lead < 0xF0)
        return *min = 0x800, 3;
    if (lead >= 0xF0 && lead < 0xF5)
        return *min = 0x10000, 4;
    return 0;
}

size_t utf8_decode(const char *text, size_t length, uint32_t *point)
{
    if (length == 0)
        return 0;
    const uint8_t *s = (const uint8_t *)text;
    uint32_t min;
    const size_t n = announced(s[0], &min);
    if (n == 0 || n > length)
        return 0;
    uint32_t c = n == 1 ? s[0] : s[0] & (0x7Fu >> n);
    for (size_t i = 1; i < n; i++) {
        if ((s[i] & 0xC0) != 0x80)
            return 0;
        c = c << 6 | (s[i] & 0x3F);
    }
    if (c < min || c > 0x10FFFF || (c >= 0xD800 && c < 0xE000))
        return 0;
    *point = c;
    return n;
}

size_t utf8_encode(uint32_t point, char *to)
{
    if (point > 0x10FFFF || (point >= 0xD800 && point < 0xE000))
        return 0;
    if (point < 0x80)
        return to[0] = (char)point, 1;

    const size_t n = point < 0x800 ? 2 : point < 0x10000 ? 3 : 4;
    for (size_t i = n - 1; i > 0; i--, point >>= 6)
        to[i] = (char)(0x80 | (point & 0x3F));
    to[0] = (char)((0xF00u >> n & 0xFF) | point);
    return n;
}

size_t utf8_unfinished(const char *text, size_t length)
{
    const uint8_t *s = (const uint8_t *)text;
    for (size_t back = 1; back <= 3 && back <= length; back++) {
        const uint8_t b = s[length - back];
        if ((b & 0xC0) == 0x80)
            continue;
        uint32_t min;
        return announced(b, &min) > back ? back : 0;
    }
    return 0;
}

size_t utf8_find_wrong(const char *text, size_t length)
{
    for (size_t at = 0, n; at < length; at += n) {
        uint32_t c;
        n = (uint8_t)text[at] < 0x80 ? 1 : utf8_decode(text + at, length - at, &c);
        if (n == 0)
            return at;
    }
    return length;
}

bool text_ends_with(const char *s, const char *tail)
{
    const size_t n = strlen(s), k = strlen(tail);
    return n >= k && memcmp(s + n - k, tail, k) == 0;
}
