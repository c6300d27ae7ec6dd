/* text.c - the source a translation reads from and the text it writes to. */
#include "text/regex/translate.h"

#include "base/utf8.h"

#include <stdio.h>
#include <string.h>

#define OUT_BYTES (4u << 20) /* maximum size of a translation */

/* ---- text ------------------------------------------------------------------------------------ */

bool regex_grow(regex_text *t, size_t more)
{
    if (t->failed)
        return false;
    if (t->room - t->n >= more)
        return true;
    size_t room = t->room < 256 ? 256 : t->room * 2;
    while (room - t->n < more)
        room *= 2;
    char *text = NULL;
    if (room > OUT_BYTES)
        weft_fail(t->err, WEFT_EUNSUPPORTED, "pattern: its translation exceeds %u bytes",
                  OUT_BYTES);
    else
        text = mem_alloc(t->mem, room, "a pattern", t->err);
    if (!text) {
        t->failed = true;
        return false;
    }
    if (t->n > 0)
        memcpy(text, t->text, t->n);
    mem_free(t->mem, t->text);
    t->text = text;
    t->room = room;
    return true;
}

void regex_put(regex_text *t, const char *text, size_t n)
{
    if (n == 0 || !regex_grow(t, n))
        return;
    memcpy(t->text + t->n, text, n);
    t->n += n;
}

void regex_puts(regex_text *t, const char *text)
{
    regex_put(t, text, strlen(text));
}

void regex_put_range(regex_text *t, uint32_t first, uint32_t last)
{
    char cell[40];
    int n = snprintf(cell, sizeof cell, "\\x{%X}", first);
    if (last > first)
        n += snprintf(cell + n, sizeof cell - (size_t)n, "-\\x{%X}", last);
    regex_put(t, cell, (size_t)n);
}

void regex_text_free(regex_text *t)
{
    mem_free(t->mem, t->text);
    t->text = NULL;
    t->n = t->room = 0;
}

void regex_wrap(regex_text *t, size_t from)
{
    if (!regex_grow(t, 4))
        return;
    memmove(t->text + from + 3, t->text + from, t->n - from);
    memcpy(t->text + from, "(?:", 3);
    t->n += 3;
    regex_put(t, ")", 1);
}

/* ---- source ---------------------------------------------------------------------------------- */

/* The text read since `from`, or a little of the text that follows, cut between code points. */
static int shown(const regex_source *s, size_t from)
{
    const size_t rest = s->n - from;
    size_t n = s->at > from + 1 ? s->at - from : 12;
    n = n < 40 ? n : 40;
    n = n < rest ? n : rest;
    while (n > 0 && n < rest && ((uint8_t)s->pattern[from + n] & 0xC0) == 0x80)
        n--;
    return (int)n;
}

weft_status regex_refuse(const regex_source *s, size_t from, weft_status code, const char *what)
{
    return weft_fail(s->err, code, "pattern, byte %zu: %s: '%.*s'", from, what, shown(s, from),
                     s->pattern + from);
}

bool regex_read(regex_source *s, uint32_t *c)
{
    const size_t n = utf8_decode(s->pattern + s->at, s->n - s->at, c);
    s->at += n;
    return n > 0;
}

char regex_peek(const regex_source *s, size_t ahead)
{
    return ahead < s->n - s->at ? s->pattern[s->at + ahead] : 0;
}
