/* format.c - Python's two ways to fill in a string: '%s' % x and '{}'.format(x). Of format
 * specifications: fill, alignment, sign, width, comma, precision and the types s d f e g x X o b %. */
#include "text/jinja/value.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WIDEST 10000

static const jval failed = { .kind = V_FAIL };

typedef struct spec {
    char fill[5];
    char align; /* < > ^ = or 0 */
    char sign;  /* + - blank or 0 */
    bool zero, comma, has_precision;
    int64_t width, precision;
    char type; /* 0: none */
} spec;

/* ---- numbers --------------------------------------------------------------------------------- */

/* Whatever the locale puts between the digits becomes a point. */
static void use_point(char *text)
{
    char *to = text;
    bool point = false;
    for (const char *at = text; *at; at++) {
        if (strchr("0123456789eE+-infa", *at) || (*at >= 'A' && *at <= 'Z'))
            *to++ = *at;
        else if (!point) {
            *to++ = '.';
            point = true;
        }
    }
    *to = '\0';
}

static void digits_of(uint64_t x, unsigned base, bool large, char to[72])
{
    char back[72];
    int n = 0;
    do
        back[n++] = (large ? "0123456789ABCDEF" : "0123456789abcdef")[x % base];
    while (x /= base);
    for (int i = 0; i < n; i++)
        to[i] = back[n - 1 - i];
    to[n] = '\0';
}

/* A comma after every third digit from the point. */
static void add_commas(char *text, size_t room)
{
    const size_t whole = strspn(text, "0123456789");
    size_t n = strlen(text), commas = whole ? (whole - 1) / 3 : 0;
    if (n + commas + 1 > room)
        return;
    memmove(text + whole + commas, text + whole, n - whole + 1);
    for (size_t i = whole, k = 0; commas > 0; k++) {
        if (k == 3) {
            text[i + --commas] = ',';
            k = 0;
        }
        if (commas == 0)
            break;
        i--;
        text[i + commas] = text[i];
    }
}

/* The text of a number without its sign; false if the type does not fit. */
static bool number_text(jval v, const spec *s, char *to, size_t room, bool *minus)
{
    int64_t i;
    double f;
    char type = s->type;
    const bool is_int = jinteger(v, &i);
    if (is_int && s->has_precision && (type == 0 || strchr("dxXob", type)))
        return false;
    if (is_int && (type == 0 || strchr("dxXob", type))) {
        const unsigned base = type == 'x' || type == 'X' ? 16
                              : type == 'o'              ? 8
                              : type == 'b'              ? 2
                                                         : 10;
        *minus = i < 0;
        digits_of(i < 0 ? -(uint64_t)i : (uint64_t)i, base, type == 'X', to);
    } else if (jnumber(v, &f) && (type == 0 || strchr("feg%FEG", type))) {
        *minus = signbit(f) && !isnan(f);
        f = fabs(f);
        if (type == 0 && !s->has_precision)
            to[jfloat_text(f, to)] = '\0';
        else if (type == 0)
            return false;
        else {
            const char form[] = { '%', '.', '*', type == '%' ? 'f' : type, 0 };
            const int precision = s->has_precision ? (int)s->precision : 6;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
            snprintf(to, room - 1, form, precision, type == '%' ? f * 100 : f);
#pragma GCC diagnostic pop
            use_point(to);
            if (type == '%')
                strcat(to, "%");
        }
    } else
        return false;
    if (s->comma)
        add_commas(to, room);
    return true;
}

/* ---- padding --------------------------------------------------------------------------------- */

static void put_fill(jbuild *b, const spec *s, int64_t n)
{
    for (; n > 0 && !b->failed; n--)
        jbuild_text(b, s->fill);
}

static void put_padded(jbuild *b, const spec *s, char align, const char *sign, const jstr *text)
{
    const int64_t gap = s->width - (int64_t)strlen(sign) - text->points;
    const int64_t left = align == '>' ? gap : align == '^' ? gap / 2 : 0;
    put_fill(b, s, left);
    jbuild_text(b, sign);
    put_fill(b, s, align == '=' ? gap : 0);
    jbuild_str(b, text);
    put_fill(b, s, align == '=' ? 0 : gap - (left > 0 ? left : 0));
}

static bool put_number(jbuild *b, const spec *s, jval v)
{
    char text[512];
    bool minus = false;
    if (s->has_precision && s->precision > 100)
        return false;
    if (!number_text(v, s, text, sizeof text, &minus))
        return false;
    const char sign[2] = { minus ? '-' : s->sign == '-' ? 0 : s->sign, 0 };
    const size_t n = strlen(text);
    char *kept = jalloc(b->r, n + 1, 1);
    const jstr *t = kept ? jstr_new(b->r, memcpy(kept, text, n + 1), n, 0) : NULL;
    b->failed = b->failed || !t;
    if (t)
        put_padded(b, s, s->align ? s->align : s->zero ? '=' : '>', sign, t);
    return true;
}

static void put_text(jbuild *b, const spec *s, const jstr *text)
{
    if (s->has_precision && s->precision < text->points)
        text = jstr_slice(b->r, text, 0, jstr_offset(text, (uint32_t)s->precision));
    b->failed = b->failed || !text;
    if (text)
        put_padded(b, s, s->align ? s->align : '<', "", text);
}

/* ---- percent --------------------------------------------------------------------------------- */

typedef struct percent {
    jrender *r;
    const jstr *s;
    uint32_t at, used; /* arguments */
    jval args;
    bool mapped; /* %(name)s was there */
    bool safe;
} percent;

static char peek(const percent *p)
{
    return p->at < p->s->n ? p->s->at[p->at] : '\0';
}

static jval next_argument(percent *p)
{
    const bool many = p->args.kind == V_TUPLE;
    const uint32_t n = many ? p->args.list->n : 1;
    if (p->used >= n)
        return jfail(p->r, WEFT_EINVAL, "%%: not enough arguments for the format");
    const jval v = many ? p->args.list->item[p->used] : p->args;
    p->used++;
    return v;
}

static jval named_argument(percent *p)
{
    const uint32_t begin = ++p->at;
    while (p->at < p->s->n && p->s->at[p->at] != ')')
        p->at++;
    if (p->at >= p->s->n || p->args.kind != V_DICT)
        return jfail(p->r, WEFT_EINVAL, "%%(name): expected a dict of arguments");
    const jval v = jdict_get_text(p->args.dict, p->s->at + begin, p->at - begin);
    p->at++;
    p->mapped = true;
    return v.kind == V_MISSING ? jfail(p->r, WEFT_EINVAL, "%%(name): the dict has no such key") : v;
}

static int64_t read_number(const jstr *s, uint32_t *at)
{
    int64_t n = 0;
    while (*at < s->n && s->at[*at] >= '0' && s->at[*at] <= '9')
        n = n < 1000000 ? n * 10 + (s->at[(*at)++] - '0') : ((*at)++, n);
    return n;
}

static bool put_percent(percent *p, jbuild *b, const spec *s, jval v, char type)
{
    spec as = *s;
    double f;
    if (type == 's' || type == 'r') {
        jbuild t;
        jbuild_begin(&t, p->r);
        if (type == 's')
            jput_str(&t, v);
        else
            jput_repr(&t, v);
        jval text = jbuild_value(&t);
        if (!jbad(text) && p->safe)
            text = jstr_value(jescape(p->r, type == 's' && v.kind == V_STR ? v : text));
        if (jbad(text))
            return false;
        as.align = s->align == '<' ? '<' : '>';
        strcpy(as.fill, " ");
        put_text(b, &as, text.s);
        return !b->failed;
    }
    as.type = type == 'i' || type == 'u' ? 'd' : type;
    as.sign = s->sign;
    if (strchr("di", as.type) && v.kind == V_FLOAT && jnumber(v, &f) && fabs(f) < 0x1p63)
        v = jint((int64_t)f);
    as.align = s->align == '<' ? '<' : s->zero ? '=' : '>';
    strcpy(as.fill, as.align == '=' ? "0" : " ");
    if (strchr("dxXofeEgGF", as.type) && !(as.has_precision && strchr("dxXo", as.type)) &&
        put_number(b, &as, v))
        return !b->failed;
    jfail(p->r, WEFT_EINVAL, "%%%c of %s; it cannot be written so", type, jkind_name(v));
    return false;
}

/* One conversion, from after the percent sign. */
static bool convert_percent(percent *p, jbuild *b)
{
    spec s = { .fill = " " };
    jval v = jmissing();
    if (peek(p) == '(' && jbad(v = named_argument(p)))
        return false;
    for (; peek(p) && strchr("-+ 0#", peek(p)); p->at++) {
        if (peek(p) == '-')
            s.align = '<';
        else if (peek(p) == '0')
            s.zero = true;
        else if (s.sign != '+')
            s.sign = peek(p);
    }
    s.width = read_number(p->s, &p->at);
    if (peek(p) == '.') {
        p->at++;
        s.has_precision = true;
        s.precision = read_number(p->s, &p->at);
    }
    const char type = peek(p);
    p->at++;
    if (type == '%') {
        jbuild_text(b, "%");
        return true;
    }
    if (!type || !strchr("srdiufFeEgGxXo", type) || s.width > WIDEST || s.sign == '#') {
        jfail(p->r, WEFT_EUNSUPPORTED, "%%: a format that weft does not have; use %%s or %%d");
        return false;
    }
    if (v.kind == V_MISSING && jbad(v = next_argument(p)))
        return false;
    return put_percent(p, b, &s, v, type);
}

jval jformat_percent(jrender *r, jval format, jval args)
{
    percent p = { .r = r, .s = format.s, .args = args, .safe = format.safe };
    jbuild b;
    jbuild_begin(&b, r);
    while (p.at < p.s->n && !b.failed && jcost(r, 1)) {
        const char *hit = memchr(p.s->at + p.at, '%', p.s->n - p.at);
        const uint32_t end = hit ? (uint32_t)(hit - p.s->at) : p.s->n;
        jbuild_part(&b, p.s, p.at, end);
        p.at = end + 1;
        if (hit && !convert_percent(&p, &b))
            return failed;
    }
    const bool many = args.kind == V_TUPLE;
    if (r->steps > 0 && (many ? p.used < args.list->n
                              : p.used == 0 && args.kind != V_DICT && args.kind != V_LIST &&
                                    args.kind != V_UNDEFINED && args.kind != V_RANGE))
        return jfail(r, WEFT_EINVAL, "%%: not all arguments are used by the format");
    return r->steps > 0 ? jsafe(jbuild_value(&b), format.safe) : failed;
}

/* ---- braces ---------------------------------------------------------------------------------- */

typedef struct braces {
    jrender *r;
    const jstr *s;
    const jargs *a;
    uint32_t automatic;
    bool manual, safe;
} braces;

static bool is_align(char c)
{
    return c && strchr("<>^=", c);
}

static bool read_spec(braces *f, uint32_t at, uint32_t end, spec *s)
{
    const jstr text = { .at = f->s->at, .n = end };
    uint32_t c;
    const uint32_t n = at < end ? jstr_point(f->s, at, &c) : 0;
    *s = (spec){ .fill = " " };
    if (n && at + n < end && is_align(f->s->at[at + n])) {
        memcpy(s->fill, f->s->at + at, n);
        s->fill[n] = '\0';
        s->align = f->s->at[at + n];
        at += n + 1;
    } else if (at < end && is_align(f->s->at[at]))
        s->align = f->s->at[at++];
    if (at < end && strchr("+- ", f->s->at[at]))
        s->sign = f->s->at[at++];
    if (at < end && f->s->at[at] == '0') {
        s->zero = true;
        at++;
        if (!s->align)
            strcpy(s->fill, "0");
    }
    s->width = read_number(&text, &at);
    if (at < end && f->s->at[at] == ',')
        s->comma = ++at;
    if (at + 1 < end && f->s->at[at] == '.' && f->s->at[at + 1] >= '0' && f->s->at[at + 1] <= '9') {
        at++;
        s->has_precision = true;
        s->precision = read_number(&text, &at);
    }
    if (at < end)
        s->type = f->s->at[at++];
    return at == end && s->width <= WIDEST && (!s->type || strchr("sdfegxXob%FEG", s->type));
}

static jval first_field(braces *f, uint32_t begin, uint32_t end)
{
    uint32_t at = begin;
    const int64_t number = read_number(f->s, &at);
    if (begin == end || at == end) {
        const bool automatic = begin == end;
        if (automatic ? f->manual : f->automatic > 0)
            return jfail(f->r, WEFT_EINVAL, "format: both {} and {0}; use one of them");
        f->manual = !automatic;
        const int64_t i = automatic ? f->automatic++ : number;
        return i < f->a->n
                   ? f->a->arg[i]
                   : jfail(f->r, WEFT_EINVAL, "format: argument %lld is missing", (long long)i);
    }
    for (uint32_t i = 0; i < f->a->n_key; i++)
        if (f->a->key[i]->n == end - begin &&
            memcmp(f->a->key[i]->at, f->s->at + begin, end - begin) == 0)
            return f->a->named[i];
    return jfail(f->r, WEFT_EINVAL, "format: argument %.*s is missing", (int)(end - begin),
                 f->s->at + begin);
}

/* name.attribute[key], in [begin, end). */
static jval field_value(braces *f, uint32_t begin, uint32_t end)
{
    const char *s = f->s->at;
    uint32_t at = begin;
    while (at < end && s[at] != '.' && s[at] != '[')
        at++;
    jval v = first_field(f, begin, at);
    while (at < end && !jbad(v)) {
        const bool item = s[at] == '[';
        uint32_t stop = at + 1;
        while (stop < end && (item ? s[stop] != ']' : s[stop] != '.' && s[stop] != '['))
            stop++;
        if (stop == at + 1 || (item && stop == end))
            return jfail(f->r, WEFT_EINVAL, "format: an empty or unfinished attribute");
        const jstr *name = jstr_slice(f->r, f->s, at + 1, stop);
        uint32_t digits = at + 1;
        const int64_t number = read_number(f->s, &digits);
        if (!name)
            return failed;
        v = !item            ? jattribute(f->r, v, name)
            : digits == stop ? jitem(f->r, v, jint(number))
                             : jitem(f->r, v, jstr_value(name));
        at = stop + item;
        if (item && at < end && s[at] != '.' && s[at] != '[')
            return jfail(f->r, WEFT_EINVAL, "format: text after ]");
    }
    return v;
}

/* One field without its braces. */
static bool put_field(braces *f, jbuild *b, uint32_t begin, uint32_t end)
{
    const char *s = f->s->at;
    uint32_t name = begin, colon;
    while (name < end && s[name] != ':' && s[name] != '!')
        name++;
    jval v = field_value(f, begin, name);
    if (jbad(v))
        return false;
    colon = name;
    if (name < end && s[name] == '!') {
        if (name + 1 >= end || !strchr("sr", s[name + 1]) ||
            (name + 2 < end && s[name + 2] != ':')) {
            jfail(f->r, WEFT_EINVAL, "format: a conversion other than !r and !s");
            return false;
        }
        jbuild t;
        jbuild_begin(&t, f->r);
        if (s[name + 1] == 'r')
            jput_repr(&t, v);
        else
            jput_str(&t, v);
        v = jbuild_value(&t);
        colon = name + 2;
    }
    spec how;
    if (jbad(v))
        return false;
    if (!read_spec(f, colon < end ? colon + 1 : end, end, &how)) {
        jfail(f->r, WEFT_EUNSUPPORTED, "format: a specification that weft does not have");
        return false;
    }
    const bool plain = colon + 1 >= end;
    const bool number = v.kind == V_INT || v.kind == V_FLOAT || (v.kind == V_BOOL && !plain);
    if (!plain && number && put_number(b, &how, v))
        return !b->failed;
    if (!plain && (number || v.kind != V_STR || how.sign || how.comma || how.align == '=' ||
                   (how.type && how.type != 's'))) {
        jfail(f->r, WEFT_EINVAL, "format: %s cannot be written so", jkind_name(v));
        return false;
    }
    const jstr *text = f->safe ? jescape(f->r, v) : jto_str(f->r, v);
    if (text)
        put_text(b, &how, text);
    return text && !b->failed;
}

/* Bytes before the next brace. */
static size_t before_brace(const char *s, size_t n)
{
    size_t i = 0;
    while (i < n && s[i] != '{' && s[i] != '}')
        i++;
    return i;
}

jval jformat_braces(jrender *r, jval format, const jargs *a)
{
    braces f = { .r = r, .s = format.s, .a = a, .safe = format.safe };
    const char *s = format.s->at;
    const uint32_t n = format.s->n;
    jbuild b;
    jbuild_begin(&b, r);
    for (uint32_t at = 0; at < n && !b.failed;) {
        const size_t plain = before_brace(s + at, n - at);
        jbuild_part(&b, format.s, at, at + (uint32_t)plain);
        at += (uint32_t)plain;
        if (at >= n || !jcost(r, 1))
            break;
        if (at + 1 < n && s[at + 1] == s[at]) {
            jbuild_part(&b, format.s, at, at + 1);
            at += 2;
            continue;
        }
        const char *close = s[at] == '{' ? memchr(s + at, '}', n - at) : NULL;
        if (!close)
            return jfail(r, WEFT_EINVAL, "format: a brace without its other half; write it twice");
        const uint32_t end = (uint32_t)(close - s);
        if (memchr(s + at + 1, '{', end - at - 1))
            return jfail(r, WEFT_EUNSUPPORTED, "format: a field inside a field; weft has none");
        if (!put_field(&f, &b, at + 1, end))
            return failed;
        at = end + 1;
    }
    return r->steps > 0 ? jsafe(jbuild_value(&b), format.safe) : failed;
}
