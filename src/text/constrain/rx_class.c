/* rx_class.c - characters, escapes and classes of an ECMA-262 pattern, as sets of code points. */
#include "text/constrain/rx_class.h"

#include "base/utf8.h"
#include "text/regex/translate.h"

#include <string.h>

#define LAST_POINT 0x10FFFFu
#define RANGES     50000u /* of all sets of a pattern; \p{L} has 650 */
#define SET_COST   10u    /* ranges that a set of its own counts for */

char rx_peek(const rx_source *s, size_t ahead)
{
    return s->n - s->at > ahead ? s->text[s->at + ahead] : 0;
}

bool rx_refuse(rx_source *s, size_t from, weft_status code, const char *what)
{
    size_t shown = s->n - from < 24 ? s->n - from : 24;
    while (shown > 0 && shown < s->n - from && (s->text[from + shown] & 0xC0) == 0x80)
        shown--;
    shown = utf8_find_wrong(s->text + from, shown);
    if (!s->refused)
        weft_fail(s->err, code, "pattern: byte %zu, \"%.*s\": %s", from, (int)shown, s->text + from,
                  what);
    s->refused = true;
    return false;
}

static const rx_small_set *find_set(const rx_source *s)
{
    const size_t n = s->range.n;
    for (size_t i = 0; i < sizeof s->recent / sizeof *s->recent; i++)
        if (n > 0 && s->recent[i].n == n &&
            memcmp(s->recent[i].range, s->range.at, n * sizeof *s->range.at) == 0)
            return &s->recent[i];
    return NULL;
}

/* Small sets that were made last, such as that of a dot, are not made again. */
rx rx_of_source(rx_source *s)
{
    const rx_small_set *known = find_set(s);
    char bytes[4];
    if (known)
        return known->made;
    const uint32_t last = s->range.n ? (uint32_t)s->range.at[s->range.n - 1] : 0;
    if (last >= 0x80 && s->range.at[0] == ((uint64_t)last << 32 | last))
        return rx_literal(s->pool, bytes, utf8_encode(last, bytes));
    s->n_range += s->range.n + (last < 0x80 ? 0 : SET_COST);
    if (s->n_range > RANGES) {
        rx_refuse(s, s->at, WEFT_ELIMIT, "too many classes before this place");
        return RX_NOTHING;
    }
    const rx made = s->flags & RX_JSON ? rx_json_of_ranges(s->pool, &s->range)
                                       : rx_of_ranges(s->pool, &s->range);
    if (s->range.n > 0 && s->range.n <= RX_SMALL_SET && rx_ok(s->pool)) {
        rx_small_set *to = &s->recent[s->n_recent++ % (sizeof s->recent / sizeof *s->recent)];
        *to = (rx_small_set){ .n = s->range.n, .made = made };
        memcpy(to->range, s->range.at, s->range.n * sizeof *s->range.at);
    }
    return made;
}

/* ---- escapes --------------------------------------------------------------------------------- */

static bool read_hex(rx_source *s, int n, uint32_t *c)
{
    *c = 0;
    for (int i = 0; i < n; i++) {
        if (text_hex(rx_peek(s, (size_t)i)) < 0)
            return false;
        *c = *c << 4 | (uint32_t)text_hex(rx_peek(s, (size_t)i));
    }
    s->at += (size_t)n;
    return true;
}

/* {1F600}, after \u. */
static bool read_braces(rx_source *s, uint32_t *c)
{
    const size_t first = ++s->at;
    *c = 0;
    for (; text_hex(rx_peek(s, 0)) >= 0 && *c <= LAST_POINT; s->at++)
        *c = *c << 4 | (uint32_t)text_hex(rx_peek(s, 0));
    if (rx_peek(s, 0) != '}' || s->at == first || *c > LAST_POINT)
        return false;
    s->at++;
    return true;
}

/* After \u: four digits, two surrogates, or braces. */
static bool read_unicode(rx_source *s, size_t from, uint32_t *c)
{
    uint32_t low;
    const bool braces = rx_peek(s, 0) == '{';
    if (!(braces ? read_braces(s, c) : read_hex(s, 4, c)))
        return rx_refuse(s, from, WEFT_EFORMAT, "expected \\uHHHH or \\u{...}");
    if (!braces && *c >= 0xD800 && *c < 0xDC00 && rx_peek(s, 0) == '\\' && rx_peek(s, 1) == 'u') {
        s->at += 2;
        if (read_hex(s, 4, &low) && low >= 0xDC00 && low < 0xE000)
            *c = 0x10000 + ((*c - 0xD800) << 10) + (low - 0xDC00);
    }
    if (*c >= 0xD800 && *c < 0xE000)
        return rx_refuse(s, from, WEFT_EUNSUPPORTED, "half of a surrogate pair is no character");
    return true;
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* The code point of an escape, after its backslash; `from` is the backslash. */
static bool read_character_escape(rx_source *s, size_t from, uint32_t *c)
{
    static const char controls[] = "tnvfr"; /* U+0009 and following */
    const char kind = rx_peek(s, 0);
    const char *control = kind ? strchr(controls, kind) : NULL;
    s->at += s->at < s->n && (uint8_t)kind < 0x80;
    *c = (uint8_t)kind;
    if (control)
        *c = (uint32_t)(control - controls) + 9;
    else if (kind == '0' && !is_digit(rx_peek(s, 0)))
        *c = 0;
    else if (kind == 'x')
        return read_hex(s, 2, c) || rx_refuse(s, from, WEFT_EFORMAT, "expected \\xHH");
    else if (kind == 'u')
        return read_unicode(s, from, c);
    else if (kind == 'c' && is_letter(rx_peek(s, 0)))
        *c = (uint32_t)s->text[s->at++] & 31;
    else if (is_digit(kind) || kind == 'k')
        return rx_refuse(s, from, WEFT_EUNSUPPORTED, "a back-reference; not supported");
    else if (kind == 'b' || kind == 'B')
        return rx_refuse(s, from, WEFT_EUNSUPPORTED, "a word boundary; not supported");
    else if (kind == 0 || is_letter(kind) || (uint8_t)kind >= 0x80)
        return rx_refuse(s, from, WEFT_EFORMAT, "not an escape of ECMA-262");
    return true;
}

/* ---- sets ------------------------------------------------------------------------------------ */

static void add_edges(rx_source *s, rx_ranges *to, const uint32_t *edges, int n, uint64_t wanted)
{
    for (int i = 0; i < n; i++)
        if ((edges[i] & 0xFF) < 64 && wanted >> (edges[i] & 0xFF) & 1)
            ranges_add(s->pool, to, edges[i] >> 8,
                       i + 1 < n ? (edges[i + 1] >> 8) - 1 : LAST_POINT);
}

static void add_property(rx_source *s, rx_ranges *to, const regex_property *p)
{
    if (p->categories)
        add_edges(s, to, regex_categories, n_regex_categories, p->categories);
    for (int i = 0; p->script && i < n_regex_scripts; i++)
        if ((regex_scripts[i] & 0xFF) == p->script)
            ranges_add(s->pool, to, regex_scripts[i] >> 8,
                       i + 1 < n_regex_scripts ? (regex_scripts[i + 1] >> 8) - 1 : LAST_POINT);
    for (int i = p->rest; i < p->rest + p->n_rest; i++)
        ranges_add(s->pool, to, regex_extra[i][0], regex_extra[i][1]);
}

/* {L}, {Script=Greek}, after \p. */
static bool read_property(rx_source *s, size_t from, rx_ranges *to)
{
    static const char *const kinds[] = { "Script=", "sc=", "General_Category=", "gc=" };
    const char *name = s->text + s->at + 1;
    const char *close = rx_peek(s, 0) == '{' ? memchr(name, '}', s->n - s->at - 1) : NULL;
    if (!close)
        return rx_refuse(s, from, WEFT_EFORMAT, "expected \\p{...}");
    s->at += (size_t)(close - name) + 2;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        const size_t n = strlen(kinds[i]);
        if ((size_t)(close - name) > n && memcmp(name, kinds[i], n) == 0)
            name += n;
    }
    const regex_property *p = regex_find_property(name, (size_t)(close - name));
    if (!p)
        return rx_refuse(s, from, WEFT_EUNSUPPORTED, "an unknown property");
    add_property(s, to, p);
    return true;
}

static void add_shorthand(rx_source *s, rx_ranges *to, char kind)
{
    static const uint32_t space[][2] = {
        { 9, 13 },          { ' ', ' ' },       { 0xA0, 0xA0 },     { 0x1680, 0x1680 },
        { 0x2000, 0x200A }, { 0x2028, 0x2029 }, { 0x202F, 0x202F }, { 0x205F, 0x205F },
        { 0x3000, 0x3000 }, { 0xFEFF, 0xFEFF },
    };
    static const uint32_t word[][2] = { { '0', '9' }, { 'A', 'Z' }, { '_', '_' }, { 'a', 'z' } };
    const uint32_t(*const set)[2] = kind == 's' ? space : word;
    const size_t n = kind == 's' ? sizeof space / sizeof *space : kind == 'd' ? 1 : 4;
    for (size_t i = 0; i < n; i++)
        ranges_add(s->pool, to, set[i][0], set[i][1]);
}

/* \d \w \s \p and their negations, at the backslash; *is tells whether it is one. */
static bool read_set_escape(rx_source *s, rx_ranges *to, bool *is)
{
    const size_t from = s->at;
    const char kind = rx_peek(s, 1), small = (char)(kind | 0x20);
    rx_ranges set = { 0 };
    *is = rx_peek(s, 0) == '\\' && kind && strchr("dDwWsSpP", kind);
    if (!*is)
        return true;
    s->at += 2;
    bool good = true;
    if (small == 'p')
        good = read_property(s, from, &set);
    else
        add_shorthand(s, &set, small);
    ranges_tidy(&set);
    if (kind != small)
        ranges_add_others(s->pool, to, &set);
    for (size_t i = 0; kind == small && i < set.n; i++)
        ranges_add(s->pool, to, (uint32_t)(set.at[i] >> 32), (uint32_t)set.at[i]);
    ranges_free(s->pool, &set);
    return good;
}

/* ---- classes --------------------------------------------------------------------------------- */

static bool read_character(rx_source *s, bool in_class, uint32_t *c)
{
    const size_t from = s->at;
    if (rx_peek(s, 0) == '\\') {
        s->at++;
        if (in_class && rx_peek(s, 0) == 'b') {
            s->at++;
            *c = 8;
            return true;
        }
        return read_character_escape(s, from, c);
    }
    const size_t n = utf8_decode(s->text + s->at, s->n - s->at, c);
    s->at += n;
    return n > 0 || rx_refuse(s, from, WEFT_EFORMAT, "not UTF-8");
}

/* One item of a class, perhaps a range. A hyphen beside \w and the like is itself. */
static bool read_item(rx_source *s, rx_ranges *to)
{
    const size_t from = s->at;
    uint32_t first, last;
    bool is_set;
    if (!read_set_escape(s, to, &is_set))
        return false;
    if (is_set)
        return true;
    if (!read_character(s, true, &first))
        return false;
    last = first;
    const char next = rx_peek(s, 1), after = rx_peek(s, 2);
    const bool set_follows = next == '\\' && after && strchr("dDwWsSpP", after);
    if (rx_peek(s, 0) == '-' && s->n - s->at > 1 && next != ']' && !set_follows) {
        s->at++;
        if (!read_character(s, true, &last))
            return false;
    }
    if (last < first)
        return rx_refuse(s, from, WEFT_EFORMAT, "a range that ends before it begins");
    ranges_add(s->pool, to, first, last);
    return true;
}

/* After the [. */
static bool read_class(rx_source *s)
{
    const size_t from = s->at - 1;
    const bool negated = rx_peek(s, 0) == '^';
    rx_ranges set = { 0 };
    bool good = true;
    s->at += negated;
    while (good && s->at < s->n && s->text[s->at] != ']')
        good = read_item(s, &set);
    if (good && s->at >= s->n)
        good = rx_refuse(s, from, WEFT_EFORMAT, "a class without its ]");
    s->at += good;
    ranges_tidy(&set);
    if (negated) {
        ranges_add_others(s->pool, &s->range, &set);
        ranges_free(s->pool, &set);
    } else {
        ranges_free(s->pool, &s->range);
        s->range = set;
    }
    return good;
}

static void read_dot(rx_source *s)
{
    rx_ranges ends = { 0 };
    ranges_add(s->pool, &ends, '\n', '\n');
    ranges_add(s->pool, &ends, '\r', '\r');
    ranges_add(s->pool, &ends, 0x2028, 0x2029);
    ranges_add_others(s->pool, &s->range, &ends);
    ranges_free(s->pool, &ends);
}

bool rx_read_point(rx_source *s)
{
    uint32_t c;
    bool is_set;
    s->range.n = 0;
    const char next = rx_peek(s, 0);
    if (next == '[' || next == '.') {
        s->at++;
        if (next == '[')
            return read_class(s);
        read_dot(s);
        return true;
    }
    if (!read_set_escape(s, &s->range, &is_set))
        return false;
    if (!is_set) {
        if (!read_character(s, false, &c))
            return false;
        ranges_add(s->pool, &s->range, c, c);
    }
    ranges_tidy(&s->range);
    return true;
}
