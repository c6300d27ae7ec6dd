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

/* The next call begins here, without a literal of its own: the one between calls was its. */
static void expect_name(call_reader *r)
{
    static const call_literal nothing = { "", 0 };
    r->opens = r->begins = &nothing;
    r->place = PLACE_BEGIN;
}

/* It is no call after all. What was held is read as text, after the part that looked like a call. */
static bool give_up(call_reader *r)
{
    const size_t looked = r->place == PLACE_BEGIN ? r->lead + r->opens->n : 0;
    if (r->place == PLACE_JSON || r->place == PLACE_KEY || r->place == PLACE_VALUE)
        tell(r, CALL_ENDS, "", 0);
    tell(r, CALL_TEXT, held(r), looked);
    drop(r, looked);
    r->lead = 0;
    r->place = PLACE_TEXT;
    return true;
}

/* A name or a key, without its end; false if it cannot be one, or is too long. */
static bool take(const call_reader *r, size_t from, size_t n, char *to, size_t size)
{
    if (n == 0 || n >= size || memchr(held(r) + from, 0, n))
        return false;
    memcpy(to, held(r) + from, n);
    to[n] = '\0';
    return true;
}

/* Bytes at which a literal matches what is held from `at` on. At the end of the text, no more comes. */
static size_t match(const call_reader *r, const call_literal *l, size_t at)
{
    const size_t n = call_match(l, held(r) + at, r->held.n - at);
    return n == CALL_MORE && r->last ? CALL_NO_MATCH : n;
}

/* The first place from `from` on at which the literal matches: its index and length. CALL_MORE in
 * *length: it may match there, if more text comes; CALL_NO_MATCH: it does not. */
static size_t seek(const call_reader *r, const call_literal *l, size_t from, size_t *length)
{
    for (size_t i = from; i < r->held.n; i++) {
        *length = match(r, l, i);
        if (*length != CALL_NO_MATCH)
            return i;
    }
    *length = r->last ? CALL_NO_MATCH : CALL_MORE;
    return r->held.n;
}

/* ---- places ----------------------------------------------------------------------------------
 *
 * Each returns true if it got further, and false if it needs more text. What it decides does not
 * depend on how much is held, so pieces of any length tell the same. */

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
    const size_t at = seek(r, &r->syntax->start, 0, &length);
    const size_t told = length == CALL_NO_MATCH ? at : without_space(held(r), at);
    tell(r, CALL_TEXT, held(r), told);
    drop(r, told);
    if (length == CALL_MORE || length == CALL_NO_MATCH)
        return false;
    r->lead = at - told;
    r->opens = &r->syntax->start;
    r->begins = &r->syntax->begin;
    r->place = PLACE_BEGIN;
    return true;
}

/* What follows a name. */
typedef enum name_end { NAME_ARGUMENTS, NAME_BETWEEN, NAME_END } name_end;

/* Where the name ends that begins at `from`, and how; CALL_MORE in *length: that is open. Of ends at
 * the same place none may be open, as one may begin another. */
static size_t find_name_end(const call_reader *r, size_t from, size_t *length, name_end *how)
{
    const call_syntax *s = r->syntax;
    const call_literal *const ends[] = { &s->middle, &s->none_between, &s->none_end };
    const int n = s->form == CALLS_PAIRS ? 3 : 1;
    size_t first = SIZE_MAX;
    for (int i = 0; i < n; i++) {
        size_t l;
        const size_t at = seek(r, ends[i], from, &l);
        if (at < first || (at == first && l == CALL_MORE)) {
            *length = l;
            *how = (name_end)i;
        }
        first = at < first ? at : first;
    }
    return first;
}

/* The literal before a name, the name, and what follows it. */
static bool read_begin(call_reader *r)
{
    const size_t n = match(r, r->begins, r->lead);
    size_t length = CALL_MORE;
    name_end how = NAME_ARGUMENTS;
    if (n == CALL_NO_MATCH)
        return give_up(r);
    if (n == CALL_MORE)
        return false;
    const size_t from = r->lead + n, at = find_name_end(r, from, &length, &how);
    if (at - from >= sizeof r->name || length == CALL_NO_MATCH)
        return give_up(r);
    if (length == CALL_MORE)
        return false;
    if (!take(r, from, at - from, r->name, sizeof r->name))
        return give_up(r);
    tell(r, CALL_BEGINS, r->name, at - from);
    drop(r, at + length);
    r->lead = 0;
    r->depth = 0;
    r->any = r->quoted = r->escaped = false;
    if (how == NAME_ARGUMENTS) {
        r->place = r->syntax->form == CALLS_PAIRS ? PLACE_KEY : PLACE_JSON;
        return true;
    }
    tell_text(r, "{}");
    tell(r, CALL_ENDS, "", 0);
    r->place = PLACE_TEXT;
    if (how == NAME_BETWEEN)
        expect_name(r);
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
        at[i] = seek(r, &r->syntax->value[i], 0, &length[i]);
    const int which = at[1] < at[0];
    if (at[which] >= sizeof r->key || length[which] == CALL_NO_MATCH)
        return give_up(r);
    if (length[which] == CALL_MORE)
        return false;
    if (!take(r, 0, at[which], r->key, sizeof r->key))
        return give_up(r);
    const bool told = r->syntax->value[0].n != r->syntax->value[1].n;
    r->bare = told ? which == 0 : r->is_string && r->is_string(r->ud, r->name, r->key);
    drop(r, at[which] + length[which]);
    r->place = PLACE_VALUE;
    return true;
}

/* "key": value, in JSON. */
static bool tell_pair(call_reader *r, size_t n)
{
    buffer b;
    buffer_begin(&b, r->held.mem, r->held.err);
    buffer_text(&b, r->any ? ", " : "{");
    buffer_quote_any(&b, r->key, strlen(r->key));
    buffer_text(&b, ": ");
    if (r->bare || !json_is_value(held(r), n, r->held.mem, r->held.err))
        buffer_quote_any(&b, held(r), n);
    else
        buffer_put(&b, held(r), n);
    r->any = true;
    tell(r, CALL_ARGUMENTS, (const char *)b.at, b.n);
    r->held.failed |= b.failed || r->held.err->code != WEFT_OK;
    buffer_end(&b);
    return !r->held.failed;
}

static bool read_value(call_reader *r)
{
    const call_syntax *s = r->syntax;
    size_t length;
    const size_t at = seek(r, &s->close, 0, &length);
    if (length == CALL_MORE)
        return false;
    if (length == CALL_NO_MATCH)
        return give_up(r);
    const size_t n = r->held.n - at;
    const size_t next = match(r, &s->next, at), between = match(r, &s->between, at);
    const size_t end = match(r, &s->end, at);
    if (next == CALL_MORE || between == CALL_MORE || end == CALL_MORE)
        return false;
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
    r->place = PLACE_TEXT;
    if (between <= n)
        expect_name(r);
    return true;
}

static bool read_after(call_reader *r)
{
    const call_syntax *s = r->syntax;
    const size_t between = s->several ? match(r, &s->between, 0) : CALL_NO_MATCH;
    const size_t end = call_match(&s->end, held(r), r->held.n);
    if (r->last && end == CALL_MORE) { /* it was cut */
        r->held.n = 0;
        return false;
    }
    if (between == CALL_MORE || (between == CALL_NO_MATCH && end == CALL_MORE))
        return false;
    r->place = PLACE_TEXT;
    if (between != CALL_NO_MATCH) {
        drop(r, between);
        expect_name(r);
    } else if (end != CALL_NO_MATCH) {
        drop(r, end);
    }
    return true;
}

/* ---- pieces ---------------------------------------------------------------------------------- */

void calls_read_begin(call_reader *r, const call_syntax *s, call_event_fn *event,
                      call_string_fn *is_string, void *ud, mem *m, weft_error *err)
{
    *r = (call_reader){ .syntax = s, .event = event, .is_string = is_string, .ud = ud };
    buffer_begin(&r->held, m, err);
}

static void read_held(call_reader *r)
{
    static bool (*const read[])(call_reader *) = {
        [PLACE_TEXT] = read_text, [PLACE_BEGIN] = read_begin, [PLACE_JSON] = read_json,
        [PLACE_KEY] = read_key,   [PLACE_VALUE] = read_value, [PLACE_AFTER] = read_after,
    };
    while (r->held.n > 0 && !r->held.failed && read[r->place](r))
        continue;
}

bool calls_read(call_reader *r, const char *text, size_t n)
{
    buffer_put(&r->held, text, n);
    read_held(r);
    return !r->held.failed;
}

bool calls_read_end(call_reader *r)
{
    r->last = true;
    read_held(r);
    if (r->place == PLACE_JSON || r->place == PLACE_KEY || r->place == PLACE_VALUE)
        tell(r, CALL_ENDS, "", 0); /* it was cut */
    return !r->held.failed;
}

void calls_read_free(call_reader *r)
{
    buffer_end(&r->held);
}
