/* repr.c - values as text: Python's str and repr, and json.dumps. Quotes, commas and brackets are the
 * template's; an escape belongs to the byte that it stands for. */
#include "text/jinja/value.h"

#include "text/jinja/chars.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void fail(jbuild *b)
{
    b->failed = true;
}

/* One level deeper; false when that is too deep. Each enter has a leave. */
static bool enter(jbuild *b)
{
    if (++b->r->depth <= JINJA_RECURSION)
        return true;
    jfail(b->r, WEFT_ELIMIT, "nested too deeply; use flatter values");
    fail(b);
    return false;
}

static void leave(jbuild *b)
{
    b->r->depth--;
}

/* ---- repr ------------------------------------------------------------------------------------ */

static void repr_escape(jbuild *b, uint32_t c, char quote, jrun like)
{
    char text[16];
    if (c == '\\' || c == (uint32_t)quote)
        snprintf(text, sizeof text, "\\%c", (char)c);
    else if (c == '\n' || c == '\r' || c == '\t')
        snprintf(text, sizeof text, "\\%c", c == '\n' ? 'n' : c == '\r' ? 'r' : 't');
    else if (jchar_bits(c) & CHAR_PRINTABLE) {
        jbuild_point(b, c, like);
        return;
    } else
        snprintf(text, sizeof text,
                 c < 0x100     ? "\\x%02x"
                 : c < 0x10000 ? "\\u%04x"
                               : "\\U%08x",
                 (unsigned)c);
    jbuild_as(b, text, strlen(text), like);
}

/* Bytes from `at` on that stand for themselves between quotes. */
static uint32_t plain_run(const jstr *s, uint32_t at, char quote)
{
    uint32_t n = 0;
    while (at + n < s->n && s->at[at + n] >= ' ' && s->at[at + n] < 0x7f &&
           s->at[at + n] != quote && s->at[at + n] != '\\')
        n++;
    return n;
}

static void put_quoted(jbuild *b, jval v)
{
    const bool single = memchr(v.s->at, '\'', v.s->n) && !memchr(v.s->at, '"', v.s->n);
    const char quote = single ? '"' : '\'';
    jbuild_text(b, v.safe ? "Markup(" : "");
    jbuild_put(b, &quote, 1, 0, 0);
    for (uint32_t at = 0, n; at < v.s->n && !b->failed; at += n ? n : 1) {
        uint32_t c;
        n = plain_run(v.s, at, quote);
        jbuild_part(b, v.s, at, at + n);
        at += n;
        n = at < v.s->n ? jstr_point(v.s, at, &c) : 0;
        if (n)
            repr_escape(b, c, quote, jstr_run_at(v.s, at));
    }
    jbuild_put(b, &quote, 1, 0, 0);
    jbuild_text(b, v.safe ? ")" : "");
}

static void put_items(jbuild *b, const jval *item, uint32_t n, size_t stride)
{
    for (uint32_t i = 0; i < n && !b->failed; i++) {
        jbuild_text(b, i ? ", " : "");
        jput_repr(b, *(const jval *)((const char *)item + i * stride));
    }
}

static void put_pairs(jbuild *b, const jdict *d, const char *colon)
{
    for (uint32_t i = 0; i < d->n && !b->failed; i++) {
        jbuild_text(b, i ? ", " : "");
        jbuild_text(b, *colon == ',' ? "(" : "");
        jput_repr(b, d->pair[i].key);
        jbuild_text(b, colon);
        jput_repr(b, d->pair[i].value);
        jbuild_text(b, *colon == ',' ? ")" : "");
    }
}

static void put_view(jbuild *b, jval v)
{
    jbuild_text(b, v.view == 'i'   ? "dict_items(["
                   : v.view == 'k' ? "dict_keys(["
                                   : "dict_values([");
    const jdict *d = v.dict;
    if (v.view == 'i')
        put_pairs(b, d, ", ");
    else if (d->n)
        put_items(b, v.view == 'k' ? &d->pair->key : &d->pair->value, d->n, sizeof *d->pair);
    jbuild_text(b, "])");
}

static void put_number(jbuild *b, jval v)
{
    char text[40];
    if (v.kind == V_INT)
        snprintf(text, sizeof text, "%" PRId64, v.i);
    else
        text[jfloat_text(v.f, text)] = '\0';
    jbuild_text(b, text);
}

static void put_range(jbuild *b, const jrange *g)
{
    char text[80];
    const int n = snprintf(text, sizeof text, "range(%" PRId64 ", %" PRId64, g->start, g->stop);
    if (g->step != 1)
        snprintf(text + n, sizeof text - (size_t)n, ", %" PRId64, g->step);
    jbuild_text(b, text);
    jbuild_text(b, ")");
}

static void put_container(jbuild *b, jval v)
{
    if (enter(b))
        switch (v.kind) {
        case V_LIST:
            jbuild_text(b, "[");
            put_items(b, v.list->item, v.list->n, sizeof(jval));
            jbuild_text(b, "]");
            break;
        case V_TUPLE:
            jbuild_text(b, "(");
            put_items(b, v.list->item, v.list->n, sizeof(jval));
            jbuild_text(b, v.list->n == 1 ? ",)" : ")");
            break;
        case V_VIEW:
            put_view(b, v);
            break;
        default:
            jbuild_text(b, v.kind == V_NAMESPACE ? "<Namespace {" : "{");
            put_pairs(b, v.dict, ": ");
            jbuild_text(b, v.kind == V_NAMESPACE ? "}>" : "}");
        }
    leave(b);
}

static void put_other(jbuild *b, jval v)
{
    if (v.kind == V_MACRO) {
        jbuild_text(b, "<Macro ");
        put_quoted(b, jstr_value(v.macro->name));
        jbuild_text(b, ">");
    } else if (v.kind == V_LOOP) {
        const jval text = v.loop->text(b->r, v.loop);
        if (jbad(text))
            fail(b);
        else
            jbuild_str(b, text.s);
    } else {
        jfail(b->r, WEFT_EUNSUPPORTED,
              "printing %s, which shows an address in memory; print a value", jkind_name(v));
        fail(b);
    }
}

void jput_repr(jbuild *b, jval v)
{
    if (b->failed || !jcost(b->r, 1)) {
        fail(b);
        return;
    }
    switch (v.kind) {
    case V_UNDEFINED:
        jbuild_text(b, "Undefined");
        break;
    case V_NONE:
        jbuild_text(b, "None");
        break;
    case V_BOOL:
        jbuild_text(b, v.b ? "True" : "False");
        break;
    case V_INT:
    case V_FLOAT:
        put_number(b, v);
        break;
    case V_STR:
        put_quoted(b, v);
        break;
    case V_LIST:
    case V_TUPLE:
    case V_DICT:
    case V_NAMESPACE:
    case V_VIEW:
        put_container(b, v);
        break;
    case V_RANGE:
        put_range(b, v.range);
        break;
    default:
        put_other(b, v);
    }
}

void jput_str(jbuild *b, jval v)
{
    if (v.kind == V_STR)
        jbuild_str(b, v.s);
    else if (v.kind != V_UNDEFINED)
        jput_repr(b, v);
}

const jstr *jto_str(jrender *r, jval v)
{
    if (v.kind == V_STR)
        return v.s;
    jbuild b;
    jbuild_begin(&b, r);
    jput_str(&b, v);
    return jbuild_end(&b);
}

const jstr *jescape(jrender *r, jval v)
{
    static const char *const entity[] = { "&amp;", "&lt;", "&gt;", "&#39;", "&#34;" };
    const jstr *s = jto_str(r, v);
    if (!s || (v.kind == V_STR && v.safe))
        return s;
    jbuild b;
    jbuild_begin(&b, r);
    uint32_t from = 0;
    for (uint32_t i = 0; i < s->n; i++) {
        const char *hit = s->at[i] ? strchr("&<>'\"", s->at[i]) : NULL;
        if (!hit)
            continue;
        const char *text = entity[hit - "&<>'\""];
        jbuild_part(&b, s, from, i);
        jbuild_as(&b, text, strlen(text), jstr_run_at(s, i));
        from = i + 1;
    }
    if (from == 0)
        return s;
    jbuild_part(&b, s, from, s->n);
    return jbuild_end(&b);
}

/* ---- json.dumps ------------------------------------------------------------------------------ */

static void put_unit(jbuild *b, uint32_t unit, jrun like)
{
    char text[12];
    snprintf(text, sizeof text, "\\u%04x", (unsigned)unit);
    jbuild_as(b, text, 6, like);
}

static void put_json_point(jbuild *b, uint32_t c, bool ascii, jrun like)
{
    static const char from[] = "\"\\\n\r\t\f\b", to[] = "\"\\nrtfb";
    const char *hit = c && c < 0x80 ? strchr(from, (int)c) : NULL;
    if (hit)
        jbuild_as(b, (char[]){ '\\', to[hit - from] }, 2, like);
    else if (c < 0x20 || (ascii && c > 0x7e && c < 0x10000))
        put_unit(b, c, like);
    else if (ascii && c >= 0x10000) {
        put_unit(b, 0xd800 + ((c - 0x10000) >> 10), like);
        put_unit(b, 0xdc00 + ((c - 0x10000) & 0x3ff), like);
    } else
        jbuild_point(b, c, like);
}

/* Bytes that stand for themselves from `at` on. */
static uint32_t plain_bytes(const jstr *s, uint32_t at, bool ascii)
{
    uint32_t n = 0;
    for (; at + n < s->n; n++) {
        const unsigned char c = (unsigned char)s->at[at + n];
        if (c < 0x20 || c == '"' || c == '\\' || (ascii && c > 0x7e))
            break;
    }
    return n;
}

static void put_json_string(jbuild *b, const jstr *s, bool ascii)
{
    jbuild_text(b, "\"");
    for (uint32_t at = 0; at < s->n && !b->failed;) {
        const uint32_t n = plain_bytes(s, at, ascii);
        jbuild_part(b, s, at, at + n);
        at += n;
        if (at < s->n) {
            uint32_t c = 0;
            const uint32_t step = jstr_point(s, at, &c);
            put_json_point(b, c, ascii, jstr_run_at(s, at));
            at += step ? step : 1;
        }
    }
    jbuild_text(b, "\"");
}

static void put_json_number(jbuild *b, jval v)
{
    if (v.kind == V_FLOAT && !isfinite(v.f))
        jbuild_text(b, isnan(v.f) ? "NaN" : v.f < 0 ? "-Infinity" : "Infinity");
    else
        put_number(b, v);
}

static void put_json_key(jbuild *b, jval key, bool ascii)
{
    if (key.kind == V_STR)
        put_json_string(b, key.s, ascii);
    else if (key.kind == V_NONE || key.kind == V_BOOL)
        jbuild_text(b, key.kind == V_NONE ? "\"null\"" : key.b ? "\"true\"" : "\"false\"");
    else if (key.kind == V_INT || key.kind == V_FLOAT) {
        jbuild_text(b, "\"");
        put_json_number(b, key);
        jbuild_text(b, "\"");
    } else {
        jfail(b->r, WEFT_EINVAL, "tojson: %s as a key; expected a str or a number",
              jkind_name(key));
        fail(b);
    }
}

static void put_line(jbuild *b, const jjson_style *style, int level)
{
    if (!style->has_indent)
        return;
    jbuild_text(b, "\n");
    for (int i = 0; i < level; i++)
        jbuild_str(b, style->indent);
}

/* The pairs of a dict by their keys, by insertion: keys are few. */
static const jdict *sorted(jbuild *b, const jdict *d)
{
    jdict *to = jdict_new(b->r, d->n);
    if (!to || !jcost(b->r, (uint64_t)d->n * d->n / 16)) {
        fail(b);
        return NULL;
    }
    for (uint32_t i = 0; i < d->n; i++) {
        uint32_t k = to->n;
        for (; k > 0; k--) {
            const int order = jcompare(b->r, d->pair[i].key, to->pair[k - 1].key);
            if (order == 2)
                jfail(b->r, WEFT_EINVAL,
                      "tojson: keys %s and %s have no order; leave sort_keys out",
                      jkind_name(d->pair[i].key), jkind_name(to->pair[k - 1].key));
            if (order == 2 || order == 3) {
                fail(b);
                return NULL;
            }
            if (order >= 0)
                break;
            to->pair[k] = to->pair[k - 1];
        }
        to->pair[k] = d->pair[i];
        to->n++;
    }
    return to;
}

static void put_json(jbuild *b, jval v, const jjson_style *style, int level);

static void put_json_list(jbuild *b, const jlist *l, const jjson_style *style, int level)
{
    jbuild_text(b, "[");
    for (uint32_t i = 0; i < l->n && !b->failed; i++) {
        if (i)
            jbuild_str(b, style->comma);
        put_line(b, style, level + 1);
        put_json(b, l->item[i], style, level + 1);
    }
    if (l->n)
        put_line(b, style, level);
    jbuild_text(b, "]");
}

static void put_json_dict(jbuild *b, const jdict *d, const jjson_style *style, int level)
{
    d = style->sort ? sorted(b, d) : d;
    jbuild_text(b, "{");
    for (uint32_t i = 0; !b->failed && i < d->n; i++) {
        if (i)
            jbuild_str(b, style->comma);
        put_line(b, style, level + 1);
        put_json_key(b, d->pair[i].key, style->ascii);
        jbuild_str(b, style->colon);
        put_json(b, d->pair[i].value, style, level + 1);
    }
    if (!b->failed && d->n)
        put_line(b, style, level);
    jbuild_text(b, "}");
}

static void put_json(jbuild *b, jval v, const jjson_style *style, int level)
{
    if (b->failed || !jcost(b->r, 1) || !enter(b))
        fail(b);
    else
        switch (v.kind) {
        case V_NONE:
            jbuild_text(b, "null");
            break;
        case V_BOOL:
            jbuild_text(b, v.b ? "true" : "false");
            break;
        case V_INT:
        case V_FLOAT:
            put_json_number(b, v);
            break;
        case V_STR:
            put_json_string(b, v.s, style->ascii);
            break;
        case V_LIST:
        case V_TUPLE:
            put_json_list(b, v.list, style, level);
            break;
        case V_DICT:
            put_json_dict(b, v.dict, style, level);
            break;
        default:
            jfail(b->r, WEFT_EINVAL, "tojson of %s; expected what JSON has", jkind_name(v));
            fail(b);
        }
    leave(b);
}

jval jto_json(jrender *r, jval v, const jjson_style *style)
{
    jbuild b;
    jbuild_begin(&b, r);
    put_json(&b, v, style, 0);
    return jbuild_value(&b);
}
