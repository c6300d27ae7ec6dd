/* calls_read.c - finds calls of tools in generated text; see calls.h. */
#include "text/calls.h"

#include "formats/json.h"

#include <ctype.h>
#include <string.h>

static bool in_hole(char hole, char c)
{
    const bool digit = isdigit((unsigned char)c);
    return hole == CALL_NUMBER ? digit : digit || isalpha((unsigned char)c) || c == '_' || c == '-';
}

size_t call_match(const call_literal *l, const char *text, size_t n)
{
    size_t at = 0;
    for (size_t i = 0; i < l->n; i++) {
        const bool hole = l->at[i] == CALL_ID || l->at[i] == CALL_NUMBER;
        const size_t from = at;
        while (hole && at < n && in_hole(l->at[i], text[at]))
            at++;
        if (at == n)
            return CALL_MORE;
        if (hole ? at == from : text[at] != l->at[i])
            return CALL_NO_MATCH;
        at += !hole;
    }
    return at;
}

/* ---- what is held ---------------------------------------------------------------------------- */

static const char *held(const call_reader *r)
{
    return (const char *)r->held.at;
}

static void drop(call_reader *r, size_t n)
{
    memmove(r->held.at, r->held.at + n, r->held.n - n);
    r->held.n -= n;
}

static void tell(call_reader *r, call_event e, const char *text, size_t n)
{
    if (n > 0 || e == CALL_ENDS)
        r->event(r->ud, e, text, n);
}

static void tell_text(call_reader *r, const char *text)
{
    tell(r, CALL_ARGUMENTS, text, strlen(text));
}

/* It is no call after all. */
static bool give_up(call_reader *r)
{
    if (r->place == PLACE_JSON || r->place == PLACE_KEY || r->place == PLACE_VALUE)
        tell(r, CALL_ENDS, "", 0);
    tell(r, CALL_TEXT, held(r), r->held.n);
    r->held.n = 0;
    r->place = PLACE_TEXT;
    return true;
}

/* A name or a key, without its end; false if it is too long for one. */
static bool take(const call_reader *r, size_t n, char *to, size_t size)
{
    if (n == 0 || n >= size || memchr(held(r), 0, n))
        return false;
    memcpy(to, held(r), n);
    to[n] = '\0';
    return true;
}

/* The first place at or before which the literal matches: its index and length. CALL_MORE in
 * *length: it may match from there on. */
static size_t seek(const call_reader *r, const call_literal *l, size_t *length)
{
    for (size_t i = 0; i < r->held.n; i++) {
        *length = call_match(l, held(r) + i, r->held.n - i);
        if (*length != CALL_NO_MATCH)
            return i;
    }
    *length = CALL_MORE;
    return r->held.n;
}

/* ---- places ----------------------------------------------------------------------------------
 *
 * Each returns true if it got further, and false if it needs more text. */

static size_t without_space(const char *text, size_t n)
{
    while (n > 0 && isspace((unsigned char)text[n - 1]))
        n--;
    return n;
}

/* White space before a call is not text of the message, so it waits. */
static bool read_text(call_reader *r)
{
    size_t length;
    const size_t at = seek(r, &r->syntax->start, &length);
    const size_t told = without_space(held(r), at);
    tell(r, CALL_TEXT, held(r), told);
    if (length == CALL_MORE) {
        drop(r, told);
        return false;
    }
    drop(r, at);
    r->place = PLACE_BEGIN;
    return true;
}

static bool read_begin(call_reader *r)
{
    const size_t n = call_match(&r->syntax->begin, held(r), r->held.n);
    if (n == CALL_MORE)
        return false;
    if (n == CALL_NO_MATCH)
        return give_up(r);
    drop(r, n);
    r->place = PLACE_NAME;
    return true;
}

/* A call without arguments, between tags. */
static bool read_no_pairs(call_reader *r, size_t at, size_t length, call_place next)
{
    if (!take(r, at, r->name, sizeof r->name))
        return give_up(r);
    tell(r, CALL_BEGINS, r->name, at);
    tell_text(r, "{}");
    tell(r, CALL_ENDS, "", 0);
    drop(r, at + length);
    r->place = next;
    return true;
}

static bool read_name(call_reader *r)
{
    const call_syntax *s = r->syntax;
    const bool pairs = s->form == CALLS_PAIRS;
    size_t length, none = CALL_MORE, end = CALL_MORE;
    const size_t at = seek(r, &s->middle, &length);
    const size_t at_none = pairs ? seek(r, &s->none_between, &none) : SIZE_MAX;
    const size_t at_end = pairs ? seek(r, &s->none_end, &end) : SIZE_MAX;
    if (none != CALL_MORE && at_none < at)
        return read_no_pairs(r, at_none, none, PLACE_NAME);
    if (end != CALL_MORE && at_end < at && at_end <= at_none)
        return read_no_pairs(r, at_end, end, PLACE_TEXT);
    if (length == CALL_MORE || (pairs && (at_none < at || at_end < at)))
        return r->held.n >= sizeof r->name + 200 ? give_up(r) : false;
    if (!take(r, at, r->name, sizeof r->name))
        return give_up(r);
    tell(r, CALL_BEGINS, r->name, at);
    drop(r, at + length);
    r->depth = 0;
    r->any = r->quoted = r->escaped = false;
    r->place = pairs ? PLACE_KEY : PLACE_JSON;
    return true;
}

/* One character of an object; true if it was its last. */
static bool over_json(call_reader *r, char c)
{
    if (r->quoted) {
        r->quoted = r->escaped || c != '"';
        r->escaped = !r->escaped && c == '\\';
        return false;
    }
    r->quoted = c == '"';
    r->depth += (c == '{' || c == '[') - (c == '}' || c == ']');
    return r->depth == 0;
}

static bool read_json(call_reader *r)
{
    if (r->held.n > 0 && r->depth == 0 && held(r)[0] != '{')
        return give_up(r);
    for (size_t i = 0; i < r->held.n; i++)
        if (over_json(r, held(r)[i])) {
            tell(r, CALL_ARGUMENTS, held(r), i + 1);
            tell(r, CALL_ENDS, "", 0);
            drop(r, i + 1);
            r->place = PLACE_AFTER;
            return true;
        }
    tell(r, CALL_ARGUMENTS, held(r), r->held.n);
    r->held.n = 0;
    return false;
}

static bool read_key(call_reader *r)
{
    size_t length[2], at[2];
    for (int i = 0; i < 2; i++)
        at[i] = seek(r, &r->syntax->value[i], &length[i]);
    const int which = at[1] < at[0];
    if (length[which] == CALL_MORE)
        return r->held.n >= sizeof r->key + 200 ? give_up(r) : false;
    if (!take(r, at[which], r->key, sizeof r->key))
        return give_up(r);
    const bool told = r->syntax->value[0].n != r->syntax->value[1].n;
    r->bare = told ? which == 0 : r->is_string && r->is_string(r->ud, r->name, r->key);
    drop(r, at[which] + length[which]);
    r->place = PLACE_VALUE;
    return true;
}

static bool is_json(const call_reader *r, const char *text, size_t n)
{
    json_section_begin(r->held.mem);
    const bool good = json_loadb(text, n, JSON_DECODE_ANY, NULL) != NULL;
    json_section_end();
    return good;
}

/* "key": value, in JSON. */
static bool tell_pair(call_reader *r, size_t n)
{
    buffer b;
    buffer_begin(&b, r->held.mem, r->held.err);
    buffer_text(&b, r->any ? ", " : "{");
    buffer_quote_any(&b, r->key, strlen(r->key));
    buffer_text(&b, ": ");
    if (r->bare || !is_json(r, held(r), n))
        buffer_quote_any(&b, held(r), n);
    else
        buffer_put(&b, held(r), n);
    r->any = true;
    tell(r, CALL_ARGUMENTS, (const char *)b.at, b.n);
    r->held.failed |= b.failed;
    buffer_end(&b);
    return !r->held.failed;
}

static bool read_value(call_reader *r)
{
    const call_syntax *s = r->syntax;
    size_t length;
    const size_t at = seek(r, &s->close, &length);
    if (length == CALL_MORE)
        return false;
    const char *rest = held(r) + at;
    const size_t n = r->held.n - at;
    const size_t next = call_match(&s->next, rest, n), between = call_match(&s->between, rest, n);
    const size_t end = call_match(&s->end, rest, n);
    if (next == CALL_MORE || between == CALL_MORE || end == CALL_MORE) {
        if (next > n && between > n && end > n)
            return false;
    }
    if (next == CALL_NO_MATCH && between == CALL_NO_MATCH && end == CALL_NO_MATCH)
        return give_up(r);
    if (!tell_pair(r, at))
        return false;
    if (next <= n) {
        drop(r, at + next);
        r->place = PLACE_KEY;
        return true;
    }
    tell_text(r, "}");
    tell(r, CALL_ENDS, "", 0);
    drop(r, at + (between <= n ? between : end));
    r->place = between <= n ? PLACE_NAME : PLACE_TEXT;
    return true;
}

static bool read_after(call_reader *r)
{
    const call_syntax *s = r->syntax;
    const size_t between = s->several ? call_match(&s->between, held(r), r->held.n) : CALL_NO_MATCH;
    const size_t end = call_match(&s->end, held(r), r->held.n);
    if (between <= r->held.n) {
        drop(r, between);
        r->place = PLACE_NAME;
        return true;
    }
    if (between == CALL_MORE || end == CALL_MORE)
        return false;
    if (end == CALL_NO_MATCH)
        return give_up(r);
    drop(r, end);
    r->place = PLACE_TEXT;
    return true;
}

/* ---- pieces ---------------------------------------------------------------------------------- */

void calls_read_begin(call_reader *r, const call_syntax *s, call_event_fn *event,
                      call_string_fn *is_string, void *ud, mem *m, weft_error *err)
{
    *r = (call_reader){ .syntax = s, .event = event, .is_string = is_string, .ud = ud };
    buffer_begin(&r->held, m, err);
}

bool calls_read(call_reader *r, const char *text, size_t n)
{
    static bool (*const read[])(call_reader *) = {
        [PLACE_TEXT] = read_text,   [PLACE_BEGIN] = read_begin, [PLACE_NAME] = read_name,
        [PLACE_JSON] = read_json,   [PLACE_KEY] = read_key,     [PLACE_VALUE] = read_value,
        [PLACE_AFTER] = read_after,
    };
    buffer_put(&r->held, text, n);
    while (r->held.n > 0 && !r->held.failed && read[r->place](r))
        continue;
    return !r->held.failed;
}

bool calls_read_end(call_reader *r)
{
    if (r->place != PLACE_AFTER)
        give_up(r);
    return !r->held.failed;
}

void calls_read_free(call_reader *r)
{
    buffer_end(&r->held);
}
