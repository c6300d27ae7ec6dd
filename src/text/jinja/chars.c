/* chars.c - looks up the tables of Python's character classes and case mappings. */
#include "text/jinja/chars.h"

int jchar_bits(uint32_t c)
{
    int low = 0, high = n_jinja_edges; /* the last edge at or before c is in [low, high) */
    if (c > 0x10ffff || c < jinja_edges[0] >> 11)
        return 0;
    while (high - low > 1) {
        const int middle = (low + high) / 2;
        if (jinja_edges[middle] >> 11 <= c)
            low = middle;
        else
            high = middle;
    }
    return (int)(jinja_edges[low] & 0x7ff);
}

bool jchar_is_space(uint32_t c)
{
    if (c < 0x80)
        return (c >= 9 && c <= 13) || (c >= 28 && c <= 32);
    return c == 0x85 || c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 ||
           c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

static const jinja_special *find_special(const jinja_special *table, int n, uint32_t c)
{
    for (int low = 0, high = n; low < high;) {
        const int middle = (low + high) / 2;
        if (table[middle].from == c)
            return &table[middle];
        if (table[middle].from < c)
            low = middle + 1;
        else
            high = middle;
    }
    return 0;
}

static int copy_special(const jinja_special *s, uint32_t to[3])
{
    int n = 0;
    while (n < 3 && s->to[n]) {
        to[n] = s->to[n];
        n++;
    }
    return n;
}

int jchar_upper(uint32_t c, uint32_t to[3])
{
    const jinja_special *s = find_special(jinja_long_uppers, n_jinja_long_uppers, c);
    if (s)
        return copy_special(s, to);
    to[0] = c;
    int low = 0, high = n_jinja_uppers; /* the last range that begins at or before c */
    while (high - low > 1) {
        const int middle = (low + high) / 2;
        if (jinja_uppers[middle].first <= c)
            low = middle;
        else
            high = middle;
    }
    const jinja_case *r = &jinja_uppers[low];
    if (c >= r->first && c <= r->last && (c - r->first) % (uint32_t)r->step == 0)
        to[0] = (uint32_t)((int32_t)c + r->difference);
    return 1;
}

int jchar_title(uint32_t c, uint32_t to[3])
{
    const jinja_special *s = find_special(jinja_titles, n_jinja_titles, c);
    return s ? copy_special(s, to) : jchar_upper(c, to);
}
