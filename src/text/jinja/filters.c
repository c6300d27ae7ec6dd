/* filters.c - filters of one value: text, numbers, JSON. And the table of all filters. */
#include "text/jinja/filters.h"

#include "text/jinja/chars.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const jval failed = { .kind = V_FAIL };

/* A str stays as it is, markup too; all else becomes one. */
static jval soft_str(jrender *r, jval v)
{
    return v.kind == V_STR ? v : jstr_value(jto_str(r, v));
}

static bool no_arguments(jrender *r, const char *name, const jargs *a)
{
    return jbind(r, name, "", a, NULL);
}

/* ---- text ------------------------------------------------------------------------------------ */

static jval cased(jrender *r, const char *name, jval v, const jargs *a, jcasing how)
{
    const jval s = soft_str(r, v);
    if (jbad(s) || !no_arguments(r, name, a))
        return failed;
    return jsafe(jstr_value(jstr_case(r, s.s, how)), s.safe);
}
static jval f_upper(jrender *r, jval v, const jargs *a)
{
    return cased(r, "upper", v, a, CASE_UPPER);
}
static jval f_lower(jrender *r, jval v, const jargs *a)
{
    return cased(r, "lower", v, a, CASE_LOWER);
}
static jval f_capitalize(jrender *r, jval v, const jargs *a)
{
    return cased(r, "capitalize", v, a, CASE_CAPITAL);
}

static bool between_words(uint32_t c)
{
    return jchar_is_space(c) || (c < 0x80 && c && strchr("-({[<", (int)c));
}

/* Upper case at the start of each run of word or non-word characters, lower case after it. */
static jval f_title(jrender *r, jval v, const jargs *a)
{
    const jval s = soft_str(r, v);
    jbuild b;
    if (jbad(s) || !no_arguments(r, "title", a))
        return failed;
    jbuild_begin(&b, r);
    for (uint32_t at = 0, end, c, n; at < s.s->n && !b.failed; at = end) {
        n = jstr_point(s.s, at, &c);
        const bool gap = between_words(c);
        for (end = at + n; end < s.s->n; end += n) {
            n = jstr_point(s.s, end, &c);
            if (between_words(c) != gap)
                break;
        }
        const uint32_t first = jstr_point(s.s, at, &c);
        const jstr *head = jstr_slice(r, s.s, at, at + first);
        const jstr *tail = head ? jstr_slice(r, s.s, at + first, end) : NULL;
        head = tail ? jstr_case(r, head, CASE_UPPER) : NULL;
        tail = head ? jstr_case(r, tail, CASE_LOWER) : NULL;
        if (!tail)
            return failed;
        jbuild_str(&b, head);
        jbuild_str(&b, tail);
    }
    return jbuild_value(&b);
}

static jval f_trim(jrender *r, jval v, const jargs *a)
{
    jval arg[1];
    const jval s = soft_str(r, v);
    if (jbad(s) || !jbind(r, "trim", "chars?", a, arg))
        return failed;
    const bool all = arg[0].kind == V_MISSING || arg[0].kind == V_NONE;
    if (!all && arg[0].kind != V_STR)
        return jfail(r, WEFT_EINVAL, "trim: %s; expected a str", jkind_name(arg[0]));
    return jsafe(jstr_value(jstr_strip(r, s.s, all ? NULL : arg[0].s, true, true)), s.safe);
}

static jval f_replace(jrender *r, jval v, const jargs *a)
{
    jval arg[3];
    int64_t most = -1;
    if (!jbind(r, "replace", "old new count?", a, arg))
        return failed;
    if (arg[2].kind != V_MISSING && arg[2].kind != V_NONE && !jinteger(arg[2], &most))
        return jfail(r, WEFT_EINVAL, "replace: %s; expected a count", jkind_name(arg[2]));
    const jstr *s = jto_str(r, v), *old = s ? jto_str(r, arg[0]) : NULL;
    const jstr *with = old ? jto_str(r, arg[1]) : NULL;
    return with ? jstr_value(jstr_replace(r, s, old, with, most)) : failed;
}

static jval f_string(jrender *r, jval v, const jargs *a)
{
    return no_arguments(r, "string", a) ? soft_str(r, v) : failed;
}

static jval f_safe(jrender *r, jval v, const jargs *a)
{
    const jval s = no_arguments(r, "safe", a) ? soft_str(r, v) : failed;
    return jbad(s) ? s : jsafe(s, true);
}

static jval f_escape(jrender *r, jval v, const jargs *a)
{
    const jval s = no_arguments(r, "escape", a) ? jstr_value(jescape(r, v)) : failed;
    return jbad(s) ? s : jsafe(s, true);
}

static jval f_forceescape(jrender *r, jval v, const jargs *a)
{
    const jval s = no_arguments(r, "forceescape", a) ? soft_str(r, v) : failed;
    return jbad(s) ? s : f_escape(r, jsafe(s, false), a);
}

static jval f_center(jrender *r, jval v, const jargs *a)
{
    jval arg[1];
    if (!jbind(r, "center", "width?", a, arg))
        return failed;
    const jmethod m = { soft_str(r, v), "center" };
    const jargs width = { .n = 1, .arg = arg };
    if (arg[0].kind == V_MISSING)
        arg[0] = jint(80);
    return jbad(m.self) ? failed : jcall_method(r, &m, &width);
}

static jval f_format(jrender *r, jval v, const jargs *a)
{
    const jval s = soft_str(r, v);
    if (jbad(s))
        return s;
    if (a->n && a->n_key)
        return jfail(r, WEFT_EINVAL, "format: arguments with and without names; use one kind");
    if (!a->n_key) {
        jlist *l = jlist_new(r, a->n);
        if (l && a->n)
            memcpy(l->item, a->arg, a->n * sizeof(jval));
        const jval list = jlist_value(r, l, V_TUPLE);
        return jbad(list) ? list : jformat_percent(r, s, list);
    }
    jdict *d = jdict_new(r, a->n_key);
    for (uint32_t i = 0; d && i < a->n_key; i++)
        if (!jdict_put(r, d, jstr_value(a->key[i]), a->named[i]))
            return failed;
    return d ? jformat_percent(r, s, (jval){ .kind = V_DICT, .dict = d }) : failed;
}

static jval f_wordcount(jrender *r, jval v, const jargs *a)
{
    const jval s = soft_str(r, v);
    int64_t n = 0;
    bool inside = false;
    if (jbad(s) || !no_arguments(r, "wordcount", a) || !jcost_bytes(r, 8u * (uint64_t)s.s->n))
        return failed;
    for (uint32_t at = 0, c, step; at < s.s->n; at += step) {
        step = jstr_point(s.s, at, &c);
        const bool word = c == '_' ||
                          jchar_bits(c) & (CHAR_ALPHA | CHAR_DECIMAL | CHAR_DIGIT | CHAR_NUMERIC);
        n += word && !inside;
        inside = word;
    }
    return jint(n);
}

/* ---- indent ---------------------------------------------------------------------------------- */

/* The lines of s and the newline that jinja2 adds to it. */
static jval lines_of(jrender *r, jval s)
{
    const jval newline = jtext(r, "\n");
    const jval more = jbad(newline) ? newline : jadd_str(r, s, jsafe(newline, s.safe));
    if (jbad(more))
        return failed;
    const jmethod split = { more, "splitlines" };
    return jcall_method(r, &split, &(jargs){ 0 });
}

static jval f_indent(jrender *r, jval v, const jargs *a)
{
    jval arg[3];
    int64_t width = 4;
    if (!jbind(r, "indent", "width? first? blank?", a, arg))
        return failed;
    if (v.kind != V_STR)
        return jfail(r, WEFT_EINVAL, "indent of %s; expected a str", jkind_name(v));
    jval by = arg[0];
    if (by.kind != V_STR) {
        if (by.kind != V_MISSING && !jinteger(by, &width))
            return jfail(r, WEFT_EINVAL, "indent by %s; expected a width", jkind_name(by));
        const jval blank = jtext(r, " ");
        by = jbad(blank) ? blank : jmath(r, '*', blank, jint(width));
    }
    const jval lines = jbad(by) ? by : lines_of(r, v);
    if (jbad(lines))
        return failed;
    jbuild b;
    jbuild_begin(&b, r);
    for (uint32_t i = 0; i < lines.list->n && !b.failed; i++) {
        const jstr *line = lines.list->item[i].s;
        const bool first = arg[1].kind != V_MISSING && jtruth(arg[1]);
        const bool blank = arg[2].kind != V_MISSING && jtruth(arg[2]);
        if (i) /* stands for the end of the line before, which is in the text */
            jbuild_as(&b, "\n", 1,
                      jstr_run_at(lines.list->item[i - 1].s, lines.list->item[i - 1].s->n));
        if (i ? blank || line->n : first)
            jbuild_str(&b, by.s);
        jbuild_str(&b, line);
    }
    return jsafe(jbuild_value(&b), v.safe);
}

/* ---- numbers --------------------------------------------------------------------------------- */

static jval f_abs(jrender *r, jval v, const jargs *a)
{
    int64_t i;
    if (!no_arguments(r, "abs", a))
        return failed;
    if (v.kind == V_FLOAT)
        return jfloat(fabs(v.f));
    if (!jinteger(v, &i))
        return jfail(r, WEFT_EINVAL, "abs of %s; expected a number", jkind_name(v));
    return i < 0 ? jint_math(r, '-', 0, i) : jint(i);
}

/* Digits with single underscores between them? */
static bool has_digits(const char *s, size_t n, int base)
{
    bool digit = false;
    for (size_t i = 0; i < n; i++) {
        const char c = s[i];
        const int d = c >= '0' && c <= '9'                 ? c - '0'
                      : (c | 32) >= 'a' && (c | 32) <= 'z' ? (c | 32) - 'a' + 10
                                                           : 99;
        if (c == '_' ? !digit || i + 1 == n : d >= base)
            return false;
        digit = c != '_';
    }
    return n > 0;
}

/* Without white space at its ends. What that is depends on the text, as in Python: all of it, but only
 * ASCII's own in a text of ASCII. */
static const jstr *number_part(jrender *r, const jstr *s)
{
    static const char blank[] = " \t\n\v\f\r";
    const jstr ascii = { .at = blank, .n = sizeof blank - 1, .points = sizeof blank - 1 };
    return jstr_strip(r, s, s->points == s->n ? &ascii : NULL, true, true);
}

/* 1 if it is an integer, 0 if not, -1 if it has more than 64 bits. */
static int int_of(const jstr *s, int base, int64_t *i)
{
    const char *at = s->at;
    size_t n = s->n;
    const bool minus = n && *at == '-';
    if (n && (*at == '-' || *at == '+'))
        at++, n--;
    const char prefix = n > 2 && *at == '0' ? at[1] | 32 : '\0';
    if ((prefix == 'x' && base == 16) || (prefix == 'o' && base == 8) ||
        (prefix == 'b' && base == 2)) {
        at += 2, n -= 2;
        if (n > 1 && *at == '_')
            at++, n--;
    }
    if (!has_digits(at, n, base))
        return 0;
    if (!jint_parse(at, n, base, i))
        return -1;
    *i = minus ? -*i : *i;
    return 1;
}

static bool float_of(const jstr *s, double *f)
{
    static const char *const word[] = { "inf", "infinity", "nan" };
    const char *at = s->at;
    size_t n = s->n;
    const bool minus = n && *at == '-';
    if (n && (*at == '-' || *at == '+'))
        at++, n--;
    for (int i = 0; i < 3; i++)
        if (n == strlen(word[i]) && strncasecmp(at, word[i], n) == 0) {
            *f = i < 2 ? (minus ? -INFINITY : INFINITY) : NAN;
            return true;
        }
    size_t whole = 0, part, e = n;
    while (whole < n && at[whole] != '.' && (at[whole] | 32) != 'e')
        whole++;
    part = whole + (whole < n && at[whole] == '.');
    for (size_t i = whole; i < n; i++)
        if ((at[i] | 32) == 'e') {
            e = i;
            break;
        }
    size_t digits = e + 1;
    digits += digits < n && (at[digits] == '-' || at[digits] == '+');
    if ((whole > 0 && !has_digits(at, whole, 10)) ||
        (e > part && !has_digits(at + part, e - part, 10)) || (whole == 0 && e <= part) ||
        (e < n && (digits >= n || !has_digits(at + digits, n - digits, 10))))
        return false;
    if (!jfloat_parse(at, n, f))
        return false;
    *f = minus ? -*f : *f;
    return true;
}

static jval f_int(jrender *r, jval v, const jargs *a)
{
    jval arg[2];
    int64_t i, base = 10;
    double f;
    if (!jbind(r, "int", "default? base?", a, arg))
        return failed;
    if (arg[1].kind != V_MISSING && (!jinteger(arg[1], &base) || base < 2 || base > 36))
        return jfail(r, WEFT_EUNSUPPORTED, "int: a base that weft does not have; use 2 to 36");
    if (v.kind == V_UNDEFINED)
        return jfail_undefined(r, v);
    if (jinteger(v, &i))
        return jint(i);
    const jval otherwise = arg[0].kind == V_MISSING ? jint(0) : arg[0];
    if (v.kind == V_FLOAT) {
        if (isinf(v.f))
            return jfail(r, WEFT_EINVAL, "int of infinity; expected a number");
        f = v.f;
    } else {
        const jstr *s = v.kind == V_STR ? number_part(r, v.s) : NULL;
        if (v.kind != V_STR || !s)
            return v.kind == V_STR ? failed : otherwise;
        const int is = int_of(s, (int)base, &i);
        if (is > 0)
            return jint(i);
        if (is < 0)
            f = INFINITY;
        else if (!float_of(s, &f) || isinf(f))
            return otherwise;
    }
    if (isnan(f))
        return otherwise;
    return fabs(f) < 0x1p63
               ? jint((int64_t)f)
               : jfail(r, WEFT_EUNSUPPORTED, "an integer beyond 64 bits; weft computes with 64");
}

static jval f_float(jrender *r, jval v, const jargs *a)
{
    jval arg[1];
    double f;
    if (!jbind(r, "float", "default?", a, arg))
        return failed;
    if (v.kind == V_UNDEFINED)
        return jfail_undefined(r, v);
    if (jnumber(v, &f))
        return jfloat(f);
    if (v.kind == V_STR) {
        const jstr *s = number_part(r, v.s);
        if (!s)
            return failed;
        if (float_of(s, &f))
            return jfloat(f);
    }
    return arg[0].kind == V_MISSING ? jfloat(0) : arg[0];
}

static jval round_up_or_down(jrender *r, jval v, int64_t precision, bool up)
{
    const jval scale = jint_math(r, '^', 10, precision);
    const jval scaled = jbad(scale) ? scale : jmath(r, '*', v, scale);
    double f;
    if (jbad(scaled))
        return failed;
    jval whole = scaled;
    if (scaled.kind == V_FLOAT) {
        f = up ? ceil(scaled.f) : floor(scaled.f);
        if (!(fabs(f) < 0x1p63))
            return jfail(r, WEFT_EUNSUPPORTED, "an integer beyond 64 bits; weft computes with 64");
        whole = jint((int64_t)f);
    }
    return jmath(r, '/', whole, scale);
}

static jval f_round(jrender *r, jval v, const jargs *a)
{
    jval arg[2];
    int64_t precision = 0, i;
    double f;
    if (!jbind(r, "round", "precision? method?", a, arg))
        return failed;
    const bool whole = arg[0].kind == V_NONE; /* then the result is an integer */
    if (arg[0].kind != V_MISSING && !whole && !jinteger(arg[0], &precision))
        return jfail(r, WEFT_EINVAL, "round: %s; expected a precision", jkind_name(arg[0]));
    const bool common = arg[1].kind == V_MISSING ||
                        (arg[1].kind == V_STR && jstr_is(arg[1].s, "common"));
    const bool up = !common && arg[1].kind == V_STR && jstr_is(arg[1].s, "ceil");
    if (!common && !up && !(arg[1].kind == V_STR && jstr_is(arg[1].s, "floor")))
        return jfail(r, WEFT_EINVAL, "round: an unknown method; expected common, ceil or floor");
    if (!jnumber(v, &f))
        return jfail(r, WEFT_EINVAL, "round of %s; expected a number", jkind_name(v));
    if (precision < 0)
        return jfail(r, WEFT_EUNSUPPORTED, "round with a negative precision; weft has none");
    if (!common && whole)
        return jfail(r, WEFT_EINVAL, "round: a precision of None; expected an integer");
    if (!common)
        return round_up_or_down(r, v, precision, up);
    if (jinteger(v, &i))
        return jint(i);
    if (whole)
        return fabs(f) < 0x1p63 ? jint((int64_t)rint(f))
                                : jfail(r, WEFT_EUNSUPPORTED,
                                        "an integer beyond 64 bits; weft computes with 64");
    if (precision > 22 || !isfinite(f) || fabs(f) > 1e22)
        return v;
    char text[64];
    snprintf(text, sizeof text, "%.*f", (int)precision, f);
    return jfloat(strtod(text, NULL));
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static bool json_indent(jrender *r, jval v, jjson_style *style)
{
    int64_t width = 0;
    if (v.kind == V_MISSING || v.kind == V_NONE)
        return true;
    style->has_indent = true;
    style->comma = jtext(r, ",").s;
    if (v.kind == V_STR) {
        style->indent = v.s;
        return true;
    }
    if (!jinteger(v, &width) || width > 1000) {
        jfail(r, WEFT_EINVAL, "tojson: indent of %s; expected a width below 1000", jkind_name(v));
        return false;
    }
    const jval blank = jtext(r, " ");
    const jval text = jbad(blank) ? blank : jmath(r, '*', blank, jint(width));
    style->indent = text.s;
    return !jbad(text);
}

static jval f_tojson(jrender *r, jval v, const jargs *a)
{
    jval arg[4];
    jjson_style style = { .comma = jtext(r, ", ").s, .colon = jtext(r, ": ").s };
    if (!style.comma || !style.colon ||
        !jbind(r, "tojson", "ensure_ascii? indent? separators? sort_keys?", a, arg) ||
        !json_indent(r, arg[1], &style))
        return failed;
    style.ascii = arg[0].kind != V_MISSING && jtruth(arg[0]);
    style.sort = arg[3].kind != V_MISSING && jtruth(arg[3]);
    if (arg[2].kind != V_MISSING && arg[2].kind != V_NONE) {
        const jval two = jto_list(r, arg[2], V_LIST);
        if (jbad(two))
            return failed;
        if (two.list->n != 2 || two.list->item[0].kind != V_STR || two.list->item[1].kind != V_STR)
            return jfail(r, WEFT_EINVAL, "tojson: separators are no pair of str");
        style.comma = two.list->item[0].s;
        style.colon = two.list->item[1].s;
    }
    if (!style.comma || !style.colon)
        return failed;
    return jto_json(r, v, &style);
}

/* ---- values ---------------------------------------------------------------------------------- */

static jval f_default(jrender *r, jval v, const jargs *a)
{
    jval arg[2];
    if (!jbind(r, "default", "default_value? boolean?", a, arg))
        return failed;
    const bool falsy = arg[1].kind != V_MISSING && jtruth(arg[1]) && !jtruth(v);
    if (v.kind != V_UNDEFINED && !falsy)
        return v;
    return arg[0].kind == V_MISSING ? jtext(r, "") : arg[0];
}

static jval f_length(jrender *r, jval v, const jargs *a)
{
    const jval n = jlength(v);
    if (!no_arguments(r, "length", a))
        return failed;
    return n.kind == V_MISSING ? jfail(r, WEFT_EINVAL, "length of %s; it has none", jkind_name(v))
                               : n;
}

static jval f_attr(jrender *r, jval v, const jargs *a)
{
    jval arg[1];
    if (!jbind(r, "attr", "name", a, arg))
        return failed;
    if (arg[0].kind != V_STR)
        return jfail(r, WEFT_EINVAL, "attr: %s; expected a name", jkind_name(arg[0]));
    if (v.kind == V_UNDEFINED)
        return jfail_undefined(r, v);
    if (v.kind == V_DICT) { /* a key is no attribute */
        static jdict none;
        const jval found = jattribute(r, (jval){ .kind = V_DICT, .dict = &none }, arg[0].s);
        return found.kind == V_METHOD ? jattribute(r, v, arg[0].s) : found;
    }
    return jattribute(r, v, arg[0].s);
}

/* ---- the table ------------------------------------------------------------------------------- */

static const jfilter table[] = {
    { "abs", f_abs },
    { "attr", f_attr },
    { "batch", NULL },
    { "capitalize", f_capitalize },
    { "center", f_center },
    { "count", f_length },
    { "d", f_default },
    { "default", f_default },
    { "dictsort", jfilter_dictsort },
    { "e", f_escape },
    { "escape", f_escape },
    { "filesizeformat", NULL },
    { "first", jfilter_first },
    { "float", f_float },
    { "forceescape", f_forceescape },
    { "format", f_format },
    { "groupby", NULL },
    { "indent", f_indent },
    { "int", f_int },
    { "items", jfilter_items },
    { "join", jfilter_join },
    { "last", jfilter_last },
    { "length", f_length },
    { "list", jfilter_list },
    { "lower", f_lower },
    { "map", jfilter_map },
    { "max", jfilter_max },
    { "min", jfilter_min },
    { "pprint", NULL },
    { "random", NULL },
    { "reject", jfilter_reject },
    { "rejectattr", jfilter_rejectattr },
    { "replace", f_replace },
    { "reverse", jfilter_reverse },
    { "round", f_round },
    { "safe", f_safe },
    { "select", jfilter_select },
    { "selectattr", jfilter_selectattr },
    { "slice", NULL },
    { "sort", jfilter_sort },
    { "string", f_string },
    { "striptags", NULL },
    { "sum", jfilter_sum },
    { "title", f_title },
    { "tojson", f_tojson },
    { "trim", f_trim },
    { "truncate", NULL },
    { "unique", jfilter_unique },
    { "upper", f_upper },
    { "urlencode", NULL },
    { "urlize", NULL },
    { "wordcount", f_wordcount },
    { "wordwrap", NULL },
    { "xmlattr", NULL },
};

const jfilter *jfilter_find(const char *name, size_t n)
{
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (strlen(table[i].name) == n && memcmp(table[i].name, name, n) == 0)
            return &table[i];
    return NULL;
}
