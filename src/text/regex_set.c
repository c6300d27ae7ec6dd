/* regex_set.c - sets of code points, one bit each: what classes that PCRE2 cannot spell are worked
 * out with. */
#include "text/regex_set.h"

#include <string.h>

#define WORDS (0x110000 / 64)

uint64_t *points_new(mem *m, weft_error *err)
{
    return mem_zalloc(m, WORDS, sizeof(uint64_t), "a class of a pattern", err);
}

void points_add(uint64_t *set, uint32_t first, uint32_t last)
{
    const uint32_t a = first / 64, b = last / 64;
    const uint64_t from = ~0ull << first % 64, to = ~0ull >> (63 - last % 64);
    if (a == b) {
        set[a] |= from & to;
        return;
    }
    set[a] |= from;
    for (uint32_t i = a + 1; i < b; i++)
        set[i] = ~0ull;
    set[b] |= to;
}

/* Adds what has, between one edge and the next, a number that is wanted. */
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
    for (int i = 0; i < WORDS; i++)
        set[i] |= negated ? ~other[i] : other[i];
}

void points_keep(uint64_t *set, const uint64_t *other)
{
    for (int i = 0; i < WORDS; i++)
        set[i] &= other[i];
}

static bool has(const uint64_t *set, uint32_t c)
{
    return c < 0x110000 && (c < 0xD800 || c > 0xDFFF) && (set[c / 64] >> c % 64 & 1);
}

void points_put(const uint64_t *set, regex_text *items)
{
    for (uint32_t c = 0; c < 0x110000; c++) {
        if (c % 64 == 0 && set[c / 64] == 0) {
            c += 63;
            continue;
        }
        if (!has(set, c))
            continue;
        const uint32_t first = c;
        while (has(set, c + 1))
            c++;
        regex_put_range(items, first, c);
    }
}
