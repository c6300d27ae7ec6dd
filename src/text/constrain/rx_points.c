/* rx_points.c - sets of code points as expressions over the bytes of UTF-8, or over those of a JSON
 * string.
 *
 * A set becomes a tree of its lead and continuation bytes, in which branches with the same rest are
 * one set of bytes: U+0080 to U+07FF is [C2-DF][80-BF]. Surrogates and overlong forms have no bytes
 * at all. */
#include "text/constrain/rx_points.h"

#include <string.h>

#define LAST_POINT 0x10FFFFu

/* ---- ranges ---------------------------------------------------------------------------------- */

void ranges_add(rx_pool *p, rx_ranges *r, uint32_t first, uint32_t last)
{
    if (first > last || !rx_room(p, (void **)&r->at, &r->room, r->n + 1, sizeof *r->at))
        return;
    r->at[r->n++] = (uint64_t)first << 32 | last;
}

static uint32_t first_of(const rx_ranges *r, size_t i)
{
    return (uint32_t)(r->at[i] >> 32);
}

static uint32_t last_of(const rx_ranges *r, size_t i)
{
    return (uint32_t)r->at[i];
}

static void sift(uint64_t *x, size_t at, size_t n)
{
    for (size_t child; (child = 2 * at + 1) < n; at = child) {
        if (child + 1 < n && x[child + 1] > x[child])
            child++;
        if (x[at] >= x[child])
            return;
        const uint64_t y = x[at];
        x[at] = x[child];
        x[child] = y;
    }
}

static void sort(rx_ranges *r)
{
    size_t i = 1;
    while (i < r->n && r->at[i - 1] <= r->at[i])
        i++;
    if (i >= r->n)
        return;
    for (i = r->n / 2; i-- > 0;)
        sift(r->at, i, r->n);
    for (i = r->n; i-- > 1;) {
        const uint64_t y = r->at[0];
        r->at[0] = r->at[i];
        r->at[i] = y;
        sift(r->at, 0, i);
    }
}

void ranges_tidy(rx_ranges *r)
{
    size_t n = 0;
    sort(r);
    for (size_t i = 0; i < r->n; i++) {
        const uint32_t first = first_of(r, i), last = last_of(r, i);
        if (n > 0 && (uint64_t)first <= (uint64_t)last_of(r, n - 1) + 1) {
            if (last > last_of(r, n - 1))
                r->at[n - 1] = (uint64_t)first_of(r, n - 1) << 32 | last;
        } else {
            r->at[n++] = r->at[i];
        }
    }
    r->n = n;
}

void ranges_add_others(rx_pool *p, rx_ranges *to, const rx_ranges *tidy)
{
    uint32_t next = 0;
    for (size_t i = 0; i < tidy->n; i++) {
        if (first_of(tidy, i) > next)
            ranges_add(p, to, next, first_of(tidy, i) - 1);
        next = last_of(tidy, i) + 1;
    }
    ranges_add(p, to, next, LAST_POINT);
}

void ranges_free(rx_pool *p, rx_ranges *r)
{
    mem_free(p->mem, r->at);
    *r = (rx_ranges){ 0 };
}

/* The first range that ends at or after c. */
static size_t find(const rx_ranges *r, uint32_t c)
{
    size_t low = 0, high = r->n;
    while (low < high) {
        const size_t middle = (low + high) / 2;
        if (last_of(r, middle) < c)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* ---- UTF-8 ----------------------------------------------------------------------------------- */

/* The code points that lead bytes of one length may begin. */
typedef struct window {
    uint32_t first, last;
} window;

static bool in_window(const rx_ranges *r, size_t i, const window *w, window *part)
{
    part->first = first_of(r, i) > w->first ? first_of(r, i) : w->first;
    part->last = last_of(r, i) < w->last ? last_of(r, i) : w->last;
    return part->first <= part->last;
}

/* The last continuation byte of the code points base to base + 63. */
static rx last_bytes(rx_pool *p, const rx_ranges *r, const window *w, uint32_t base)
{
    uint64_t set[4] = { 0 };
    const window block = { base > w->first ? base : w->first,
                           base + 63 < w->last ? base + 63 : w->last };
    window part;
    for (size_t i = find(r, base); i < r->n && first_of(r, i) <= base + 63; i++)
        if (in_window(r, i, &block, &part))
            set[2] |= UINT64_MAX >> (63 - (part.last - part.first)) << (part.first - base);
    return rx_bytes(p, set);
}

/* Any `depth` continuation bytes. */
static rx trail(rx_pool *p, int depth)
{
    if (depth == 0)
        return RX_EMPTY;
    if (p->trail[depth] == RX_NOTHING)
        p->trail[depth] = rx_seq(p, rx_byte_range(p, 0x80, 0xBF), trail(p, depth - 1));
    return p->trail[depth];
}

/* Joins branches with the same rest. */
static rx branches(rx_pool *p, const rx *rest, int n, uint8_t first_byte)
{
    rx any[64];
    size_t n_any = 0;
    uint64_t done = 0;
    for (int i = 0; i < n; i++) {
        if (rest[i] == RX_NOTHING || done >> i & 1)
            continue;
        uint64_t set[4] = { 0 };
        for (int k = i; k < n; k++)
            if (rest[k] == rest[i]) {
                const int b = first_byte + k;
                set[b / 64] |= 1ull << b % 64;
                done |= 1ull << k;
            }
        any[n_any++] = rx_seq(p, rx_bytes(p, set), rest[i]);
    }
    return rx_any(p, any, n_any);
}

/* `depth` continuation bytes of the code points from base on; depth is at most 3. */
static rx continuation(rx_pool *p, const rx_ranges *r, const window *w, uint32_t base, int depth)
{
    const uint32_t step = 1u << 6 * (depth - 1), end = base + 64 * step - 1;
    rx rest[64];
    window part;
    size_t i = find(r, base > w->first ? base : w->first);
    if (i >= r->n || first_of(r, i) > end || w->first > end || w->last < base)
        return RX_NOTHING;
    if (in_window(r, i, w, &part) && part.first <= base && part.last >= end)
        return trail(p, depth); /* the block is all inside */
    if (depth == 1)
        return last_bytes(p, r, w, base);
    for (uint32_t k = 0; k < 64; k++)
        rest[k] = continuation(p, r, w, base + k * step, depth - 1);
    return branches(p, rest, 64, 0x80);
}

static rx lead(rx_pool *p, const rx_ranges *r, window w, uint8_t first, uint8_t last, int depth)
{
    rx rest[64];
    for (int b = first; b <= last; b++)
        rest[b - first] = continuation(p, r, &w, (uint32_t)(b & (0x3F >> depth)) << 6 * depth,
                                       depth);
    return branches(p, rest, last - first + 1, first);
}

rx rx_of_ranges(rx_pool *p, const rx_ranges *r)
{
    uint64_t set[4] = { 0 };
    for (size_t i = 0; i < r->n && first_of(r, i) < 0x80; i++)
        for (uint32_t c = first_of(r, i); c <= last_of(r, i) && c < 0x80; c++)
            set[c / 64] |= 1ull << c % 64;
    rx any[5] = { rx_bytes(p, set) };
    if (r->n > 0 && last_of(r, r->n - 1) >= 0x80) {
        any[1] = lead(p, r, (window){ 0x80, 0x7FF }, 0xC2, 0xDF, 1);
        any[2] = lead(p, r, (window){ 0x800, 0xD7FF }, 0xE0, 0xED, 2);
        any[3] = lead(p, r, (window){ 0xE000, 0xFFFF }, 0xEE, 0xEF, 2);
        any[4] = lead(p, r, (window){ 0x10000, LAST_POINT }, 0xF0, 0xF4, 3);
    }
    return rx_any(p, any, 5);
}

static rx of_points(rx_pool *p, const uint32_t (*range)[2], size_t n, bool negated)
{
    rx_ranges in = { 0 }, out = { 0 };
    for (size_t i = 0; i < n; i++)
        ranges_add(p, &in, range[i][0], range[i][1]);
    ranges_tidy(&in);
    if (negated)
        ranges_add_others(p, &out, &in);
    const rx result = rx_of_ranges(p, negated ? &out : &in);
    ranges_free(p, &in);
    ranges_free(p, &out);
    return rx_ok(p) ? result : RX_NOTHING;
}

rx rx_points(rx_pool *p, const uint32_t (*range)[2], size_t n)
{
    return of_points(p, range, n, false);
}

rx rx_not_points(rx_pool *p, const uint32_t (*range)[2], size_t n)
{
    return of_points(p, range, n, true);
}

/* ---- JSON strings ---------------------------------------------------------------------------- */

static bool contains(const rx_ranges *r, uint32_t c)
{
    const size_t i = find(r, c);
    return i < r->n && first_of(r, i) <= c;
}

static void add_byte(uint64_t set[4], char c)
{
    set[(uint8_t)c / 64] |= 1ull << (uint8_t)c % 64;
}

/* A backslash and what follows it, for the code points that need one. */
static rx escapes(rx_pool *p, const rx_ranges *r)
{
    static const char letters[] = "btnvfr"; /* U+0008 and following; \v is not JSON's */
    uint64_t after[4] = { 0 }, digit[2][4] = { { 0 } };
    for (uint32_t c = 0; c < 0x20; c++) {
        if (!contains(r, c))
            continue;
        if (c >= 8 && c <= 13 && c != 11)
            add_byte(after, letters[c - 8]);
        add_byte(digit[c / 16], "0123456789abcdef"[c % 16]);
        add_byte(digit[c / 16], "0123456789ABCDEF"[c % 16]);
    }
    if (contains(r, '"'))
        add_byte(after, '"');
    if (contains(r, '\\'))
        add_byte(after, '\\');
    const rx low = rx_seq(p, rx_literal(p, "u000", 4), rx_bytes(p, digit[0]));
    const rx high = rx_seq(p, rx_literal(p, "u001", 4), rx_bytes(p, digit[1]));
    return rx_seq(p, rx_literal(p, "\\", 1),
                  rx_any(p, (const rx[]){ rx_bytes(p, after), low, high }, 3));
}

rx rx_json_of_ranges(rx_pool *p, const rx_ranges *r)
{
    static const uint32_t plain[][2] = { { ' ', '!' }, { '#', '[' }, { ']', LAST_POINT } };
    rx_ranges raw = { 0 };
    for (size_t i = 0; i < r->n; i++)
        for (size_t k = 0; k < sizeof plain / sizeof *plain; k++) {
            const window w = { plain[k][0], plain[k][1] };
            window part;
            if (in_window(r, i, &w, &part))
                ranges_add(p, &raw, part.first, part.last);
        }
    const rx result = rx_or(p, rx_of_ranges(p, &raw), escapes(p, r));
    ranges_free(p, &raw);
    return rx_ok(p) ? result : RX_NOTHING;
}

rx rx_any_point(rx_pool *p, bool json)
{
    uint64_t all = LAST_POINT;
    const rx_ranges range = { .at = &all, .n = 1 };
    if (p->any_point[json] == RX_NOTHING)
        p->any_point[json] = json ? rx_json_of_ranges(p, &range) : rx_of_ranges(p, &range);
    return p->any_point[json];
}
