/* rx_parse.c - ECMA-262 patterns, as JSON Schema's "pattern" has them.
 *
 * Open groups are on a stack of their own, and everything between two bars is a list that is joined
 * from its end. What browsers accept beyond the standard is accepted here: a { that begins no count
 * and a ] without its [ are themselves, and so is any punctuation after a backslash. */
#include "text/constrain/rx_anchor.h"
#include "text/constrain/rx_class.h"

#include <string.h>

#define GROUPS 64 /* inside each other */

typedef struct group {
    size_t at;           /* of its parenthesis */
    size_t items, other; /* where its items and its finished alternatives begin */
} group;

typedef struct parser {
    rx_source source;
    rx any;            /* every text */
    rx_list item;      /* of the alternatives that are open */
    rx_list other;     /* alternatives that are finished */
    rx_list simple;    /* those of the whole pattern, with ^ and $ at their ends taken off */
    size_t n_anchor;   /* in the pattern, */
    size_t n_at_ends;  /* and those of them that were taken off */
    bool quantifiable; /* a count may follow */
    group open[GROUPS + 1];
    int depth;
} parser;

static rx anchor(parser *r, int byte)
{
    return rx_byte_range(r->source.pool, (uint8_t)byte, (uint8_t)byte);
}

static void put(parser *r, rx a, bool quantifiable)
{
    rx_push(r->source.pool, &r->item, a);
    r->quantifiable = quantifiable;
}

/* ---- alternatives ---------------------------------------------------------------------------- */

static rx join(parser *r, size_t first, size_t end)
{
    rx a = RX_EMPTY;
    while (end > first)
        a = rx_seq(r->source.pool, r->item.at[--end], a);
    return a;
}

/* An alternative of the whole pattern, which may begin with ^ and end with $. */
static void put_simple(parser *r, size_t first, size_t end)
{
    rx_pool *p = r->source.pool;
    const bool search = r->source.flags & RX_SEARCH;
    const bool begins = first < end && r->item.at[first] == anchor(r, RX_BEGIN);
    const bool ends = first + begins < end && r->item.at[end - 1] == anchor(r, RX_END);
    rx a = join(r, first + begins, end - ends);
    r->n_at_ends += (size_t)begins + ends;
    if (search && !ends)
        a = rx_seq(p, a, r->any);
    if (search && !begins)
        a = rx_seq(p, r->any, a);
    rx_push(p, &r->simple, a);
}

static void end_alternative(parser *r)
{
    const group *g = &r->open[r->depth];
    if (r->depth == 0)
        put_simple(r, g->items, r->item.n);
    rx_push(r->source.pool, &r->other, join(r, g->items, r->item.n));
    r->item.n = g->items;
    r->quantifiable = false;
}

/* ---- groups ---------------------------------------------------------------------------------- */

/* After "(?": nothing to do for (?: and (?<name>, and everything else is refused. */
static bool read_group_kind(parser *r, size_t from)
{
    rx_source *s = &r->source;
    const char kind = rx_peek(s, 0), next = rx_peek(s, 1);
    if (kind == ':') {
        s->at++;
        return true;
    }
    if (kind == '=' || kind == '!')
        return rx_refuse(s, from, WEFT_EUNSUPPORTED, "a look-ahead; not supported");
    if (kind == '<' && (next == '=' || next == '!'))
        return rx_refuse(s, from, WEFT_EUNSUPPORTED, "a look-behind; not supported");
    if (kind == '<') {
        const char *close = memchr(s->text + s->at, '>', s->n - s->at);
        if (!close)
            return rx_refuse(s, from, WEFT_EFORMAT, "the name of a group without its >");
        s->at = (size_t)(close - s->text) + 1;
        return true;
    }
    return rx_refuse(s, from, WEFT_EUNSUPPORTED, "flags inside of a pattern; not supported");
}

static bool open_group(parser *r)
{
    rx_source *s = &r->source;
    const size_t from = s->at++;
    if (rx_peek(s, 0) == '?') {
        s->at++;
        if (!read_group_kind(r, from))
            return false;
    }
    if (r->depth == GROUPS)
        return rx_refuse(s, from, WEFT_ELIMIT, "groups nested deeper than 64");
    r->open[++r->depth] = (group){ from, r->item.n, r->other.n };
    r->quantifiable = false;
    return true;
}

static bool close_group(parser *r)
{
    rx_source *s = &r->source;
    if (r->depth == 0)
        return rx_refuse(s, s->at, WEFT_EFORMAT, "a ) without its (");
    s->at++;
    end_alternative(r);
    const group *g = &r->open[r->depth--];
    const rx a = rx_any(s->pool, r->other.at + g->other,
                        rx_ok(s->pool) ? r->other.n - g->other : 0);
    r->other.n = g->other;
    put(r, a, true);
    return true;
}

/* ---- counts ---------------------------------------------------------------------------------- */

/* A number, at most RX_MANY. */
static bool read_number(rx_source *s, size_t *at, uint32_t *n)
{
    uint64_t value = 0;
    const size_t from = *at;
    for (; *at < s->n && s->text[*at] >= '0' && s->text[*at] <= '9'; ++*at)
        if (value < RX_MANY)
            value = value * 10 + (uint64_t)(s->text[*at] - '0');
    *n = value < RX_MANY ? (uint32_t)value : RX_MANY;
    return *at > from;
}

/* {2}, {2,} or {2,3}; false if it is none of them. */
static bool read_braces(rx_source *s, uint32_t *min, uint32_t *max)
{
    size_t at = s->at + 1;
    if (!read_number(s, &at, min))
        return false;
    *max = *min;
    if (at < s->n && s->text[at] == ',') {
        at++;
        if (!read_number(s, &at, max))
            *max = RX_MANY;
    }
    if (at >= s->n || s->text[at] != '}')
        return false;
    s->at = at + 1;
    return true;
}

/* *, +, ?, {...}; *is tells whether it is one. */
static bool read_count(parser *r, bool *is)
{
    rx_source *s = &r->source;
    const size_t from = s->at;
    const char kind = rx_peek(s, 0);
    uint32_t min = kind == '+', max = kind == '?' ? 1 : RX_MANY;
    *is = kind == '*' || kind == '+' || kind == '?' || (kind == '{' && read_braces(s, &min, &max));
    if (!*is)
        return true;
    s->at += kind != '{';
    if (!r->quantifiable)
        return rx_refuse(s, from, WEFT_EFORMAT, "a count of nothing");
    if (min > max || min == RX_MANY)
        return rx_refuse(s, from, WEFT_EFORMAT, "not a count");
    s->at += rx_peek(s, 0) == '?'; /* lazy: the same texts match */
    if (rx_ok(s->pool)) {
        rx *last = &r->item.at[r->item.n - 1];
        *last = rx_repeat(s->pool, *last, min, max);
    }
    r->quantifiable = false;
    return true;
}

/* ---- the pattern ----------------------------------------------------------------------------- */

static bool read_one(parser *r)
{
    rx_source *s = &r->source;
    const char next = s->text[s->at];
    bool is_count;
    if (!read_count(r, &is_count) || is_count)
        return !s->refused;
    switch (next) {
    case '(':
        return open_group(r);
    case ')':
        return close_group(r);
    case '|':
        s->at++;
        end_alternative(r);
        return true;
    case '^':
    case '$':
        s->at++;
        r->n_anchor++;
        put(r, anchor(r, next == '^' ? RX_BEGIN : RX_END), false);
        return true;
    default:
        if (!rx_read_point(s))
            return false;
        put(r, rx_of_source(s), true);
        return !s->refused;
    }
}

static rx read_pattern(parser *r)
{
    rx_source *s = &r->source;
    rx_pool *p = s->pool;
    r->any = rx_repeat(p, rx_any_point(p, s->flags & RX_JSON), 0, RX_MANY);
    while (s->at < s->n && rx_ok(p) && read_one(r))
        ;
    if (r->depth > 0 && !s->refused && rx_ok(p))
        rx_refuse(s, r->open[r->depth].at, WEFT_EFORMAT, "a ( without its )");
    if (s->refused || !rx_ok(p))
        return RX_NOTHING;
    end_alternative(r);
    if (!rx_ok(p))
        return RX_NOTHING;
    if (r->n_anchor == r->n_at_ends)
        return rx_any(p, r->simple.at, r->simple.n);
    return rx_place_anchors(p, rx_any(p, r->other.at, r->other.n), s->flags & RX_SEARCH, r->any);
}

rx rx_parse(rx_pool *p, const char *pattern, size_t n, int flags, weft_error *err)
{
    parser r = { .source = { .pool = p, .text = pattern, .n = n, .flags = flags, .err = err } };
    const rx a = read_pattern(&r);
    ranges_free(p, &r.source.range);
    mem_free(p->mem, r.item.at);
    mem_free(p->mem, r.other.at);
    mem_free(p->mem, r.simple.at);
    if (!r.source.refused)
        rx_failed(p, err);
    return r.source.refused || !rx_ok(p) ? RX_NOTHING : a;
}
