/* wire.c - JSON into memory; see wire.h. */
#include "wire.h"

#include <assert.h>
#include <math.h>
#include <string.h>

/* ---- text ------------------------------------------------------------------------------------ */

static bool follows(unsigned char c)
{
    return (c & 0xC0) == 0x80;
}

/* The second byte excludes what is too long, surrogates, and code points beyond U+10FFFF. */
size_t wire_utf8(const char *text, size_t n)
{
    const unsigned char *s = (const unsigned char *)text;
    if (n == 0)
        return 0;
    if (s[0] < 0x80)
        return 1;
    if (s[0] < 0xC2 || s[0] > 0xF4)
        return 0;
    const size_t length = s[0] < 0xE0 ? 2 : s[0] < 0xF0 ? 3 : 4;
    const unsigned char low = s[0] == 0xE0 ? 0xA0 : s[0] == 0xF0 ? 0x90 : 0x80;
    const unsigned char high = s[0] == 0xED ? 0x9F : s[0] == 0xF4 ? 0x8F : 0xBF;
    if (n < length || s[1] < low || s[1] > high)
        return 0;
    for (size_t i = 2; i < length; i++)
        if (!follows(s[i]))
            return 0;
    return length;
}

bool wire_is_utf8(const char *text, size_t n)
{
    for (size_t i = 0; i < n;) {
        const size_t length = wire_utf8(text + i, n - i);
        if (length == 0)
            return false;
        i += length;
    }
    return true;
}

static void escape(bytes *to, unsigned char c)
{
    switch (c) {
    case '"':
    case '\\':
        bytes_format(to, "\\%c", c);
        break;
    case '\n':
        bytes_text(to, "\\n");
        break;
    case '\t':
        bytes_text(to, "\\t");
        break;
    case '\r':
        bytes_text(to, "\\r");
        break;
    default:
        bytes_format(to, "\\u%04x", c);
        break;
    }
}

void wire_quote(bytes *to, const char *text, size_t n)
{
    size_t plain = 0; /* where bytes begin that go as they are */
    bytes_text(to, "\"");
    for (size_t i = 0; i < n;) {
        const size_t length = wire_utf8(text + i, n - i);
        const unsigned char c = (unsigned char)text[i];
        if (length == 0 || c < 0x20 || c == '"' || c == '\\' || c == 0x7F) {
            bytes_add(to, text + plain, i - plain);
            plain = i + 1;
            if (length == 0)
                bytes_text(to, "\\ufffd");
            else
                escape(to, c);
        }
        i += length ? length : 1;
    }
    if (n > plain)
        bytes_add(to, text + plain, n - plain);
    bytes_text(to, "\"");
}

/* ---- nesting --------------------------------------------------------------------------------- */

wire wire_to(bytes *to)
{
    return (wire){ .to = to };
}

static void begin_value(wire *w, const char *key)
{
    assert(w->depth == 0 || (key != NULL) == (w->end[w->depth - 1] == '}'));
    if (w->depth > 0 && w->more[w->depth - 1])
        bytes_text(w->to, ",");
    if (w->depth > 0)
        w->more[w->depth - 1] = true;
    if (key) {
        wire_quote(w->to, key, strlen(key));
        bytes_text(w->to, ":");
    }
}

static void begin_level(wire *w, const char *key, const char *begin, char end)
{
    begin_value(w, key);
    assert(w->depth < WIRE_DEPTH);
    w->end[w->depth] = end;
    w->more[w->depth] = false;
    w->depth++;
    bytes_text(w->to, begin);
}

void wire_object(wire *w, const char *key)
{
    begin_level(w, key, "{", '}');
}

void wire_list(wire *w, const char *key)
{
    begin_level(w, key, "[", ']');
}

void wire_end(wire *w)
{
    assert(w->depth > 0);
    bytes_add(w->to, &w->end[--w->depth], 1);
}

/* ---- values ---------------------------------------------------------------------------------- */

void wire_text(wire *w, const char *key, const char *text, size_t n)
{
    begin_value(w, key);
    wire_quote(w->to, text, n);
}

void wire_string(wire *w, const char *key, const char *text)
{
    if (text)
        wire_text(w, key, text, strlen(text));
    else
        wire_null(w, key);
}

void wire_bytes(wire *w, const char *key, const bytes *text)
{
    wire_text(w, key, text->at ? text->at : "", text->n);
    w->to->failed |= text->failed;
}

void wire_int(wire *w, const char *key, int64_t x)
{
    begin_value(w, key);
    bytes_format(w->to, "%lld", (long long)x);
}

void wire_real(wire *w, const char *key, double x)
{
    begin_value(w, key);
    bytes_format(w->to, "%.9g", isfinite(x) ? x : -9999.0);
}

void wire_bool(wire *w, const char *key, bool x)
{
    begin_value(w, key);
    bytes_text(w->to, x ? "true" : "false");
}

void wire_null(wire *w, const char *key)
{
    begin_value(w, key);
    bytes_text(w->to, "null");
}

void wire_raw(wire *w, const char *key, const char *json, size_t n)
{
    begin_value(w, key);
    bytes_add(w->to, json, n);
}
