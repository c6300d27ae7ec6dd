/* json.c - JSON as it is written: commas, nesting and escapes, in one place. See json.h. */
#include "json.h"
#include "cli.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#define MAX_DEPTH 8 /* the deepest is 6: the function of a call in a saved conversation */

static struct {
    char end;  /* '}' or ']' */
    bool more; /* it has an element, so that a comma goes before the next */
} level[MAX_DEPTH];
static int depth;
static FILE *to; /* NULL: standard output */

static FILE *out(void)
{
    return to ? to : stdout;
}

void cli_json_to(FILE *f)
{
    assert(depth == 0);
    to = f;
}

/* ---- the escaper ----------------------------------------------------------------------------- */

static void put_quoted(const char *text, size_t length)
{
    putc('"', out());
    for (size_t i = 0; i < length;) {
        const size_t n = cli_utf8(text + i, length - i);
        const unsigned char c = (unsigned char)text[i];
        if (n == 0)
            fputs("\\ufffd", out());
        else if (c == '"' || c == '\\')
            fprintf(out(), "\\%c", c);
        else if (c < 0x20 || c == 0x7F)
            fprintf(out(), "\\u%04x", c);
        else
            fwrite(text + i, 1, n, out());
        i += n ? n : 1;
    }
    putc('"', out());
}

/* ---- nesting --------------------------------------------------------------------------------- */

/* What goes before a value: a comma after another one, and its key. */
static void begin_value(const char *key)
{
    assert((key != NULL) == (depth > 0 && level[depth - 1].end == '}'));
    if (depth > 0 && level[depth - 1].more)
        putc(',', out());
    if (depth > 0)
        level[depth - 1].more = true;
    if (key) {
        put_quoted(key, strlen(key));
        putc(':', out());
    }
}

static void begin_level(const char *key, char begin, char end)
{
    begin_value(key);
    assert(depth < MAX_DEPTH);
    level[depth].end = end;
    level[depth].more = false;
    depth++;
    putc(begin, out());
}

void cli_json_object(const char *key)
{
    begin_level(key, '{', '}');
}

void cli_json_list(const char *key)
{
    begin_level(key, '[', ']');
}

void cli_json_end(void)
{
    assert(depth > 0);
    putc(level[--depth].end, out());
    if (depth == 0)
        putc('\n', out());
}

/* ---- values ---------------------------------------------------------------------------------- */

void cli_json_text(const char *key, const char *text, size_t n)
{
    begin_value(key);
    put_quoted(text, n);
}

void cli_json_string(const char *key, const char *text)
{
    cli_json_text(key, text, strlen(text));
}

void cli_json_hex(const char *key, const char *bytes, size_t n)
{
    begin_value(key);
    putc('"', out());
    for (size_t i = 0; i < n; i++)
        fprintf(out(), "%02x", (unsigned char)bytes[i]);
    putc('"', out());
}

void cli_json_int(const char *key, int64_t x)
{
    begin_value(key);
    fprintf(out(), "%lld", (long long)x);
}

void cli_json_ids(const char *key, const int32_t *ids, int64_t n)
{
    cli_json_list(key);
    for (int64_t i = 0; i < n; i++)
        cli_json_int(NULL, ids[i]);
    cli_json_end();
}

void cli_json_spans(const char *key, const weft_span *spans, int64_t n)
{
    cli_json_list(key);
    for (int64_t i = 0; i < n; i++) {
        cli_json_list(NULL);
        cli_json_int(NULL, spans[i].from);
        cli_json_int(NULL, spans[i].to);
        cli_json_end();
    }
    cli_json_end();
}

void cli_json_real(const char *key, double x, int n_digit)
{
    begin_value(key);
    if (isfinite(x))
        fprintf(out(), "%.*g", n_digit, x);
    else
        fputs("null", out());
}

void cli_json_fixed(const char *key, double x, int n_decimal)
{
    begin_value(key);
    if (isfinite(x))
        fprintf(out(), "%.*f", n_decimal, x);
    else
        fputs("null", out());
}

void cli_json_bool(const char *key, bool x)
{
    begin_value(key);
    fputs(x ? "true" : "false", out());
}

void cli_json_null(const char *key)
{
    begin_value(key);
    fputs("null", out());
}
