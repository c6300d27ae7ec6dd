/* translate.c - the grammar around the classes: groups, options, repeats, anchors.
 *
 * Same syntax, different meaning:
 *
 *     x{2,3}+     not possessive: one or more of x{2,3}              (?:x{2,3})+
 *     x{2}?       not reluctant: x{2} or nothing                     (?:x{2})?
 *     x{,3}       none to three                                      x{0,3}
 *     x**         a repeat of a repeat                               (?:x*)*
 *     a(?i)b|c    the option holds for b|c together                  a(?i:b|c)
 *     (?m)        '.' matches a line feed                            (?s)
 *     ( )         no caller reads captures                           (?: )
 *     \b          by Oniguruma's \w                                  look-around
 *     \v          the character 11                                   \x{B}
 *
 * One rewrite is for speed. If \s+$ fails at the first of many spaces it fails at all of them, but
 * both engines try each, to the end of the spaces. A pattern that begins with a repeated class and
 * has no alternatives gets an extra one, which skips the run and fails:
 *
 *     \s+$                                                           (?:\s+$|\s+(*SKIP)(*FAIL))
 *
 * Case-insensitive letters: Oniguruma also lets "ss" match a sharp s, so the translation accepts
 * only ASCII, and no pair of letters that has a ligature. */
#include "text/regex/translate.h"

#include "base/utf8.h"

#include <stdio.h>
#include <string.h>

#define PATTERN_BYTES 65536 /* maximum bytes of a pattern; the longest known has some 2000 */
#define GROUP_DEPTH   64
#define REPEAT_MOST   65535 /* PCRE2's limit */

/* ---- the translation ------------------------------------------------------------------------- */

typedef struct options {
    bool any_case, dot_all;
} options;

typedef struct group {
    size_t begins;   /* position in the translation */
    options outside; /* options in force before it */
    int closes;      /* the last item may be repeated */
    bool repeatable;
} group;

typedef struct translation {
    regex_source in;
    regex_text *out;
    options now;
    group open[GROUP_DEPTH];
    int depth;
    bool repeatable; /* start of that item in the translation */
    size_t atom;     /* and begins here in the translation */
    uint32_t letter; /* the previous literal, if case-insensitive; 0 if none */
    bool single;     /* the last item matches one code point */
    size_t lead;     /* end of the first item, if it is a single one and repeated; 0 if not */
    size_t rest;     /* start of the rest */
    bool parted;     /* has alternatives, or options that hold to the end */
} translation;

#define BEGIN 3 /* start of the translation, after "(?:" */

static weft_status untranslatable(translation *t, size_t from, const char *what)
{
    return regex_refuse(&t->in, from, WEFT_EUNSUPPORTED, what);
}

static void begin_atom(translation *t, bool repeatable)
{
    t->atom = t->out->n;
    t->repeatable = repeatable;
    t->single = repeatable;
    t->letter = 0;
}

/* Ligatures and the sharp s: one code point that equals two letters when case does not matter. */
static bool is_ligature(uint32_t a, uint32_t b)
{
    a |= 0x20;
    b |= 0x20;
    return (a == 'f' && (b == 'f' || b == 'i' || b == 'l')) || (a == 's' && (b == 's' || b == 't'));
}

static weft_status literal(translation *t, size_t from, uint32_t c)
{
    const uint32_t before = t->letter;
    begin_atom(t, true);
    if (t->now.any_case) {
        if (c >= 0x80)
            return untranslatable(t, from, "case-insensitive non-ASCII letters");
        if (is_ligature(before, c))
            return untranslatable(t, from, "case-insensitive letters of a ligature");
        t->letter = c;
    }
    if (c >= 0x80) {
        char bytes[4];
        regex_put(t->out, bytes, utf8_encode(c, bytes));
    } else {
        regex_put_range(t->out, c, c);
    }
    return WEFT_OK;
}

/* Outside of brackets Oniguruma looks up the first 256 code points in a table of ISO 8859-1, where
 * superscripts and fractions are word characters too. */
static void put_property(translation *t, const regex_property *p, bool negated)
{
    regex_puts(t->out, negated ? "[^" : "[");
    regex_put_property(t->out, p);
    if (strcmp(p->name, "word") == 0)
        regex_puts(t->out, "\\x{B2}\\x{B3}\\x{B9}\\x{BC}-\\x{BE}");
    regex_puts(t->out, "]");
}

/* \b and \B: whether this is the edge of a word. */
static void boundary(translation *t, bool at_edge)
{
    static const char *const edge[] = { "(?:(?<=", ")(?!", ")|(?<!", ")(?=", "))" };
    static const char *const inner[] = { "(?:(?<=", ")(?=", ")|(?<!", ")(?!", "))" };
    begin_atom(t, false);
    for (int i = 0; i < 5; i++) {
        regex_puts(t->out, at_edge ? edge[i] : inner[i]);
        if (i < 4)
            put_property(t, regex_find_property("word", 4), false);
    }
}

/* After a '\'. */
static weft_status escape(translation *t)
{
    const size_t from = t->in.at - 1;
    const char kind = regex_peek(&t->in, 0);
    if (kind == 'b' || kind == 'B') {
        t->in.at++;
        boundary(t, kind == 'b');
        return WEFT_OK;
    }
    if (kind && strchr("AzZG", kind)) {
        t->in.at++;
        begin_atom(t, false);
        regex_put(t->out, (char[]){ '\\', kind }, 2);
        return WEFT_OK;
    }
    if (kind == 'R') {
        t->in.at++;
        begin_atom(t, true);
        t->single = false;
        regex_puts(t->out, "(?>\\r\\n|[\\n-\\r\\x{85}\\x{2028}\\x{2029}])");
        return WEFT_OK;
    }
    regex_escape e;
    weft_status status;
    if (!regex_read_escape(&t->in, &e, &status))
        return untranslatable(t, from, "unknown escape");
    if (status != WEFT_OK)
        return status;
    if (!e.property)
        return literal(t, from, e.point);
    if (t->now.any_case && !strchr("dshDSH", kind))
        return untranslatable(t, from, "a case-insensitive set");
    begin_atom(t, true);
    put_property(t, e.property, e.negated);
    return WEFT_OK;
}

/* ---- groups ---------------------------------------------------------------------------------- */

static weft_status begin_group(translation *t, size_t from, const char *opening, bool repeatable)
{
    if (t->depth == GROUP_DEPTH)
        return untranslatable(t, from, "groups nested too deep");
    t->open[t->depth++] = (group){ t->out->n, t->now, 1, repeatable };
    regex_puts(t->out, opening);
    t->repeatable = false;
    return WEFT_OK;
}

/* "i-m:" or "i-m)" after "(?": ':' opens a group, ')' holds to the end of the enclosing group. */
static weft_status change_options(translation *t, size_t from)
{
    static const char *const openings[2][2] = { { "(?-is:", "(?s-i:" }, { "(?i-s:", "(?is:" } };
    options to = t->now;
    bool on = true;
    for (;; t->in.at++) {
        const char c = regex_peek(&t->in, 0);
        if (c == '-' && on)
            on = false;
        else if (c == 'i')
            to.any_case = on;
        else if (c == 'm')
            to.dot_all = on;
        else if (c == ':' || c == ')')
            break;
        else
            return untranslatable(t, from, "unknown group");
    }
    const bool scoped = regex_peek(&t->in, 0) == ':';
    const char *opening = openings[to.any_case][to.dot_all];
    t->in.at++;
    if (scoped) {
        const weft_status status = begin_group(t, from, opening, true);
        t->now = to;
        return status;
    }
    t->open[t->depth - 1].closes++; /* the pattern itself is a group */
    t->parted = true;
    regex_puts(t->out, opening);
    t->now = to;
    t->repeatable = false;
    t->letter = 0;
    return WEFT_OK;
}

/* "(?<name>" is a group like any other, since nothing refers to it. */
static weft_status named_group(translation *t, size_t from)
{
    const char *close = memchr(t->in.pattern + t->in.at, '>', t->in.n - t->in.at);
    const char first = regex_peek(&t->in, 0);
    if (!close || !((first | 0x20) >= 'a' && (first | 0x20) <= 'z'))
        return untranslatable(t, from, "unknown group");
    t->in.at = (size_t)(close - t->in.pattern) + 1;
    return begin_group(t, from, "(?:", true);
}

/* After a '('. */
static weft_status open_group(translation *t)
{
    static const struct {
        const char *opening;
        bool repeatable;
    } kinds[] = { { "?:", true },  { "?>", true },   { "?=", false },
                  { "?!", false }, { "?<=", false }, { "?<!", false } };
    const size_t from = t->in.at - 1;
    if (regex_peek(&t->in, 0) == '*')
        return untranslatable(t, from, "a verb or callout");
    if (regex_peek(&t->in, 0) != '?')
        return begin_group(t, from, "(?:", true);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        const size_t n = strlen(kinds[i].opening);
        if (t->in.n - t->in.at < n || memcmp(t->in.pattern + t->in.at, kinds[i].opening, n) != 0)
            continue;
        char opening[8] = "(";
        memcpy(opening + 1, kinds[i].opening, n);
        t->in.at += n;
        return begin_group(t, from, opening, kinds[i].repeatable);
    }
    t->in.at++;
    if (regex_peek(&t->in, 0) == '#') {
        const char *close = memchr(t->in.pattern + t->in.at, ')', t->in.n - t->in.at);
        if (!close)
            return regex_refuse(&t->in, from, WEFT_EFORMAT, "a comment without its ')'");
        t->in.at = (size_t)(close - t->in.pattern) + 1;
        return WEFT_OK;
    }
    if (regex_peek(&t->in, 0) == '<') {
        t->in.at++;
        return named_group(t, from);
    }
    return change_options(t, from);
}

static weft_status close_group(translation *t)
{
    if (t->depth == 1) /* the pattern itself */
        return regex_refuse(&t->in, t->in.at - 1, WEFT_EFORMAT, "a ')' without its '('");
    const group *g = &t->open[--t->depth];
    for (int i = 0; i < g->closes; i++)
        regex_puts(t->out, ")");
    t->now = g->outside;
    t->atom = g->begins;
    t->repeatable = g->repeatable;
    t->single = false;
    t->letter = 0;
    return WEFT_OK;
}

/* ---- repeats --------------------------------------------------------------------------------- */

typedef struct interval {
    long min, max; /* most = -1: no limit */
    size_t bytes;  /* length in the pattern; 0: not an interval, the brace is literal */
    bool fixed;    /* {n} */
} interval;

static long read_number(const regex_source *s, size_t *at)
{
    long n = -1;
    for (char c; (c = regex_peek(s, *at)) >= '0' && c <= '9'; ++*at) {
        n = (n < 0 ? 0 : n) * 10 + (c - '0');
        n = n > REPEAT_MOST + 1 ? REPEAT_MOST + 1 : n;
    }
    return n;
}

/* At a '{'. */
static interval read_interval(const regex_source *s)
{
    interval r = { 0, 0, 0, false };
    size_t at = 1;
    const long min = read_number(s, &at);
    long max = min;
    if (regex_peek(s, at) == ',') {
        at++;
        max = read_number(s, &at);
        if (min < 0 && max < 0)
            return r;
    } else {
        r.fixed = true;
        if (min < 0)
            return r;
    }
    if (regex_peek(s, at) != '}')
        return r;
    r.min = min < 0 ? 0 : min;
    r.max = max;
    r.bytes = at + 1;
    return r;
}

static bool at_repeat(const regex_source *s)
{
    const char c = regex_peek(s, 0);
    return c == '*' || c == '+' || c == '?' || (c == '{' && read_interval(s).bytes > 0);
}

static weft_status put_interval(translation *t, const interval *r)
{
    char text[48];
    if (r->min > REPEAT_MOST || r->max > REPEAT_MOST || (r->max >= 0 && r->max < r->min))
        return untranslatable(t, t->in.at, "a repeat out of range");
    if (r->max < 0)
        snprintf(text, sizeof text, "{%ld,}", r->min);
    else
        snprintf(text, sizeof text, "{%ld,%ld}", r->min, r->max);
    regex_puts(t->out, text);
    t->in.at += r->bytes;
    return WEFT_OK;
}

/* A quantifier, with the '?' or '+' after it if they belong to it. */
static weft_status repeat(translation *t, bool again)
{
    regex_source *in = &t->in;
    const char sign = regex_peek(in, 0);
    const interval r = sign == '{' ? read_interval(in) : (interval){ 0 };
    if (again)
        regex_wrap(t->out, t->atom);
    if (sign == '{') {
        const weft_status status = put_interval(t, &r);
        if (status != WEFT_OK)
            return status;
    } else {
        regex_put(t->out, &sign, 1);
        in->at++;
    }
    const char next = regex_peek(in, 0);
    if ((next == '?' && !r.fixed) || (next == '+' && sign != '{')) {
        regex_put(t->out, &next, 1);
        in->at++;
    }
    return WEFT_OK;
}

/* Remembers an unbounded repeat of the item that begins the pattern. */
static void note_lead(translation *t, size_t end)
{
    const char *sign = t->out->text + end;
    const size_t n = t->out->n - end;
    const bool endless = n == 1 ? *sign != '?' : sign[n - 1] == '}' && sign[n - 2] == ',';
    if (!t->out->failed && t->depth == 1 && t->atom == BEGIN && t->single && endless) {
        t->lead = end;
        t->rest = t->out->n;
    }
}

static weft_status repeats(translation *t)
{
    weft_status status = WEFT_OK;
    const size_t end = t->out->n;
    for (bool again = false; status == WEFT_OK && at_repeat(&t->in); again = true) {
        if (!t->repeatable)
            return regex_refuse(&t->in, t->in.at, WEFT_EUNSUPPORTED, "nothing to repeat");
        t->letter = 0;
        t->lead = 0;
        status = repeat(t, again);
        if (status == WEFT_OK && !again)
            note_lead(t, end);
    }
    return status;
}

/* ---- items ----------------------------------------------------------------------------------- */

static weft_status item(translation *t)
{
    const size_t from = t->in.at;
    uint32_t c;
    if (!regex_read(&t->in, &c))
        return regex_refuse(&t->in, from, WEFT_EFORMAT, "not UTF-8");
    switch (c) {
    case '(':
        return open_group(t);
    case ')':
        return close_group(t);
    case '[':
        begin_atom(t, true);
        return regex_read_class(&t->in, t->now.any_case, t->out);
    case '\\':
        return escape(t);
    case '|':
        begin_atom(t, false);
        t->parted = t->parted || t->depth == 1;
        regex_puts(t->out, "|");
        return WEFT_OK;
    case '^':
    case '$':
    case '.':
        begin_atom(t, c == '.');
        regex_put(t->out, &(char){ (char)c }, 1);
        return WEFT_OK;
    default:
        return literal(t, from, c);
    }
}

/* "|C+(*SKIP)(*FAIL)" for a pattern that begins with C+. */
static void put_jump(translation *t)
{
    regex_text *out = t->out;
    const size_t n = t->lead - BEGIN;
    regex_puts(out, "|");
    if (!regex_grow(out, n))
        return;
    memcpy(out->text + out->n, out->text + BEGIN, n);
    out->n += n;
    regex_puts(out, "+(*SKIP)(*FAIL)");
}

weft_status regex_translate(const char *pattern, size_t n, regex_text *out, mem *m, weft_error *err)
{
    if (n > PATTERN_BYTES)
        return weft_fail(err, WEFT_EUNSUPPORTED, "pattern of %zu bytes, more than the %d allowed",
                         n, PATTERN_BYTES);
    translation t = { .in = { n ? pattern : "", n, 0, m, err }, .out = out };
    weft_status status = begin_group(&t, 0, "(?:", true);
    while (status == WEFT_OK && t.in.at < n && !out->failed) {
        status = repeats(&t);
        if (status == WEFT_OK && t.in.at < n)
            status = item(&t);
    }
    if (out->failed)
        return WEFT_ENOMEM;
    if (status == WEFT_OK && t.depth > 1)
        status = regex_refuse(&t.in, n, WEFT_EFORMAT, "a '(' without its ')'");
    if (status == WEFT_OK && t.lead > 0 && !t.parted && out->n > t.rest)
        put_jump(&t);
    for (int i = 0; status == WEFT_OK && i < t.open[0].closes; i++)
        regex_puts(out, ")");
    return out->failed ? WEFT_ENOMEM : status;
}
