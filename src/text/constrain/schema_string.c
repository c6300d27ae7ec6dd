/* schema_string.c - strings: lengths in code points, patterns and formats, all of which hold.
 *
 * A code point has one spelling: itself, or a backslash before " and \. Controls have two, \n and
 * \u000a. So patterns can be intersected as they are spelled. */
#include "text/constrain/rx_points.h"
#include "text/constrain/schema.h"

#include "base/utf8.h"

#include <stdio.h>
#include <string.h>

/* ---- formats --------------------------------------------------------------------------------------- */

#define DATE                                                                                       \
    "(?:\\d{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\\d|3[01])|(?:0[469]|11)-(?:0[1-9]|[12]\\d|30)" \
    "|02-(?:0[1-9]|1\\d|2[0-8]))|(?:\\d\\d(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|"      \
    "[13579][26])00)-02-29)"
#define TIME                                                                                       \
    "(?:[01]\\d|2[0-3]):[0-5]\\d:[0-5]\\d(?:\\.\\d{1,9})?(?:Z|[+-](?:[01]\\d|2[0-3]):[0-5]\\d)"
#define BYTE  "(?:25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)"
#define IPV4  BYTE "(?:\\." BYTE "){3}"
#define HEX   "[0-9A-Fa-f]"
#define GROUP HEX "{1,4}"
#define LOW32 "(?:" GROUP ":" GROUP "|" IPV4 ")"
#define ALNUM "[A-Za-z0-9]"
#define INNER "[A-Za-z0-9-]"

/* Up to 63 characters; not -- in the third and fourth place, which says that a label is encoded. */
#define LABEL                                                                                      \
    ALNUM "(?:" ALNUM "|" INNER "(?:" ALNUM "(?:" INNER "{0,59}" ALNUM ")?|-" ALNUM "(?:" INNER    \
          "{0,58}" ALNUM ")?))?"

/* RFC 4291, by how many groups stand before the "::". */
#define IPV6                                                                                       \
    "(?:(?:" GROUP ":){6}" LOW32 "|::(?:" GROUP ":){5}" LOW32 "|(?:" GROUP ")?::(?:" GROUP         \
    ":){4}" LOW32 "|(?:(?:" GROUP ":){0,1}" GROUP ")?::(?:" GROUP ":){3}" LOW32 "|(?:(?:" GROUP    \
    ":){0,2}" GROUP ")?::(?:" GROUP ":){2}" LOW32 "|(?:(?:" GROUP ":){0,3}" GROUP ")?::" GROUP     \
    ":" LOW32 "|(?:(?:" GROUP ":){0,4}" GROUP ")?::" LOW32 "|(?:(?:" GROUP ":){0,5}" GROUP         \
    ")?::" GROUP "|(?:(?:" GROUP ":){0,6}" GROUP ")?::)"
#define HOSTNAME "(?:" LABEL "\\.)*" LABEL
#define ATOM     "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
#define PCHAR    "(?:[A-Za-z0-9._~!$&'()*+,;=:@-]|%" HEX HEX ")"
#define URI                                                                                        \
    "[A-Za-z][A-Za-z0-9+.-]*:(?://(?:(?:[A-Za-z0-9._~!$&'()*+,;=:-]|%" HEX HEX ")*@)?"             \
    "(?:\\[" IPV6 "\\]|(?:[A-Za-z0-9._~!$&'()*+,;=-]|%" HEX HEX ")*)(?::\\d*)?(?:/" PCHAR          \
    "*)*|/(?:" PCHAR "+(?:/" PCHAR "*)*)?|" PCHAR "+(?:/" PCHAR "*)*|)"                            \
    "(?:\\?(?:" PCHAR "|[/?])*)?(?:#(?:" PCHAR "|[/?])*)?"

/* Not 0000, which RFC 3339 has and many libraries do not. */
#define YEAR "(?:[1-9]|0[1-9]|00[1-9]|000[1-9]).*"

static const struct schema_format {
    const char *name, *pattern;
    uint32_t most;    /* characters; 0: any number */
    const char *also; /* another pattern, or NULL */
} formats[] = {
    { "date", DATE, 0, YEAR },
    { "time", TIME, 0, NULL },
    { "date-time", DATE "T" TIME, 0, YEAR },
    { "duration",
      "P(?:\\d+W|(?:\\d+Y(?:\\d+M(?:\\d+D)?)?|\\d+M(?:\\d+D)?|\\d+D)(?:T(?:\\d+H(?:\\d+M"
      "(?:\\d+S)?)?|\\d+M(?:\\d+S)?|\\d+S))?|T(?:\\d+H(?:\\d+M(?:\\d+S)?)?|\\d+M(?:\\d+"
      "S)?|\\d+S))",
      0, NULL },
    { "email", ATOM "(?:\\." ATOM ")*@" HOSTNAME, 254, "[^@]{1,64}@.*" },
    { "hostname", HOSTNAME, 253, NULL },
    { "ipv4", IPV4, 0, NULL },
    { "ipv6", IPV6, 0, NULL },
    { "uuid", HEX "{8}-" HEX "{4}-" HEX "{4}-" HEX "{4}-" HEX "{12}", 0, NULL },
    { "uri", URI, 0, NULL },
};

static const struct schema_format *find_format(const char *name)
{
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (strcmp(formats[i].name, name) == 0)
            return &formats[i];
    return NULL;
}

/* ---- texts and patterns ------------------------------------------------------------------------------ */

rx schema_text(schema *s, const char *text, size_t n)
{
    rx_pool *p = s->pool;
    rx r = RX_EMPTY;
    while (n > 0) {
        size_t back = 1;
        uint32_t c;
        while (back < n && (text[n - back] & 0xC0) == 0x80)
            back++;
        n -= back;
        const uint8_t byte = (uint8_t)text[n];
        if (byte >= 0x20 && byte != '"' && byte != '\\') {
            r = rx_seq(p, rx_literal(p, text + n, back), r);
            continue;
        }
        utf8_decode(text + n, back, &c);
        uint64_t one = (uint64_t)c << 32 | c;
        const rx_ranges range = { .at = &one, .n = 1 };
        r = rx_seq(p, rx_json_of_ranges(p, &range), r);
    }
    return r;
}

rx schema_pattern(schema *s, const json_t *at, const char *keyword, const char *pattern, size_t n)
{
    weft_error why = { 0 };
    if (s->failed)
        return RX_NOTHING;
    const rx r = rx_parse(s->pool, pattern, n, RX_SEARCH | RX_JSON, &why);
    if (why.code == WEFT_OK)
        return r;
    if (why.code == WEFT_EUNSUPPORTED && s->options->lenient) {
        schema_unsupported(s, at, keyword, why.message);
        return RX_ALL;
    }
    schema_refuse(s, why.code, at, keyword, "%s", why.message);
    return RX_NOTHING;
}

bool schema_finds(schema *s, const json_t *at, const char *keyword, const char *pattern,
                  const char *text, size_t n)
{
    const rx both = rx_and(s->pool, schema_text(s, text, n),
                           schema_pattern(s, at, keyword, pattern, strlen(pattern)));
    return schema_spend(s, n) && rx_alive(s->pool, both);
}

/* ---- strings ------------------------------------------------------------------------------------------- */

static rx format_of(schema *s, const json_t *one)
{
    const json_t *format = json_object_get(one, "format");
    char why[96];
    if (!format)
        return RX_ALL;
    if (!json_is_string(format)) {
        schema_refuse(s, WEFT_EFORMAT, one, "format", "expected a string");
        return RX_NOTHING;
    }
    const struct schema_format *f = find_format(json_string_value(format));
    if (f) {
        rx_pool *p = s->pool;
        rx form = rx_parse(p, f->pattern, strlen(f->pattern), RX_JSON, s->err);
        if (f->most)
            form = rx_and(p, form, rx_repeat(p, rx_any_point(p, true), 0, f->most));
        if (f->also)
            form = rx_and(p, form, rx_parse(p, f->also, strlen(f->also), RX_JSON, s->err));
        return form;
    }
    snprintf(why, sizeof why, "format \"%.40s\" is not supported", json_string_value(format));
    schema_unsupported(s, one, "format", why);
    return RX_ALL;
}

static rx pattern_of(schema *s, const json_t *one)
{
    const json_t *pattern = json_object_get(one, "pattern");
    if (!pattern)
        return RX_ALL;
    if (json_is_string(pattern))
        return schema_pattern(s, one, "pattern", json_string_value(pattern),
                              json_string_length(pattern));
    schema_refuse(s, WEFT_EFORMAT, one, "pattern", "expected a string");
    return RX_NOTHING;
}

rx schema_string(schema *s, const schema_set *set)
{
    rx_pool *p = s->pool;
    const rx quote = rx_literal(p, "\"", 1);
    schema_count length;
    const rx known = schema_recall(&s->string, set);
    if (known != RX_NOTHING)
        return known;
    if (!schema_counts(s, set, "minLength", "maxLength", &length) || length.min > length.max)
        return RX_NOTHING;
    const bool any_length = length.min == 0 && length.max == RX_MANY;
    rx r = any_length ? RX_ALL : rx_repeat(p, rx_any_point(p, true), length.min, length.max);
    for (size_t i = 0; i < set->n; i++) {
        r = rx_and(p, r, pattern_of(s, set->at[i]));
        r = rx_and(p, r, format_of(s, set->at[i]));
    }
    if (r == RX_ALL)
        r = rx_repeat(p, rx_any_point(p, true), 0, RX_MANY);
    return schema_remember(&s->string, set, rx_seq(p, quote, rx_seq(p, r, quote)));
}
