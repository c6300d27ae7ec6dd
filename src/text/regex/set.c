/* set.c - sets of code points, one bit each, for classes that PCRE2's syntax cannot express. */
#include "text/regex/set.h"

#include <string.h>

#define WORDS (0x110000 / 64)

uint64_t *points_new(mem *m, weft_error *err)
{
    return mem_zalloc(m, WORDS, sizeof(uint64_t), "a class of a pattern", err);
}

void points_add(uint64_t *set, uint32_t first, uint32_t last)
{
    const uint32_t a = first / 64, b = last / 64;
    const uint64_t from = UINT64_MAX - ((1ull << first % 64) - 1);
    const uint64_t to = UINT64_MAX >> (63 - last % 64);
    if (a == b) {
        set[a] |= from & to;
        return;
    }
    set[a] |= from;
    for (uint32_t i = a + 1; i < b; i++)
        set[i] = UINT64_MAX;
    set[b] |= to;
}

/* Adds the ranges between edges whose number is in `wanted`. */
static void add_edges(uint64_t *set, const uint32_t *edges, int n, uint64_t wanted)
{
    for (int i = 0; i < n; i++)
        if (wanted >> (edges[i] & 0xFF) & 1)
            points_add(set, edges[i] >> 8, i + 1 < n ? (edges[i + 1] >> 8) - 1 : 0x10FFFF);
}

static void add_script(uint64_t *set, uint8_t script)
{
    for (int i = 0; i < n_regex_scripts; i++)
        if ((regex_scripts[i] & 0xFF) == script)
            points_add(set, regex_scripts[i] >> 8,
                       i + 1 < n_regex_scripts ? (regex_scripts[i + 1] >> 8) - 1 : 0x10FFFF);
}

void points_add_property(uint64_t *set, const regex_property *p)
{
    if (p->categories)
        add_edges(set, regex_categories, n_regex_categories, p->categories);
    if (p->script)
        add_script(set, p->script);
    for (int i = p->rest; i < p->rest + p->n_rest; i++)
        points_add(set, regex_extra[i][0], regex_extra[i][1]);
}

void points_unite(uint64_t *set, const uint64_t *other, bool negated)
{
    const uint64_t flip = negated ? UINT64_MAX : 0;
    for (int i = 0; i < WORDS; i++)
        set[i] |= other[i] ^ flip;
}

void points_keep(uint64_t *set, const uint64_t *other)
{
    for (int i = 0; i < WORDS; i++)
        set[i] &= other[i];
}

/* The first code point from c on that is in the set or, with `in` false, is not. Skips whole words
 * that are all ones or all zeros. */
static uint32_t next_point(const uint64_t *set, uint32_t c, bool in)
{
    while (c < 0x110000) {
        const uint64_t word = in ? set[c / 64] : ~set[c / 64];
        const uint64_t rest = word >> c % 64;
        if (rest)
            return c + (uint32_t)__builtin_ctzll(rest);
        c += 64 - c % 64;
    }
    return 0x110000;
}

static void put_between(const uint64_t *set, uint32_t c, uint32_t end, regex_text *items)
{
    while ((c = next_point(set, c, true)) < end) {
        const uint32_t first = c, after = next_point(set, c, false);
        c = after < end ? after : end;
        regex_put_range(items, first, c - 1);
    }
}

void points_put(const uint64_t *set, regex_text *items)
{
    put_between(set, 0, 0xD800, items); /* no surrogates */
    put_between(set, 0xE000, 0x110000, items);
}
