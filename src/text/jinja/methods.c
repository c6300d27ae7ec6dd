/* methods.c - the methods of Python's str, dict, list and tuple that a template may call. Positions
 * count code points, as in Python. */
#include "text/jinja/methods.h"

#include "text/jinja/chars.h"

#include <string.h>

#define MOST_ARGS 8

static const jval failed = { .kind = V_FAIL };

/* ---- cases and classes ----------------------------------------------------------------------- */

static jval m_lower(jrender *r, jval self, jval *arg)
{
    (void)arg;
    return jm_same_kind(self, jstr_case(r, self.s, CASE_LOWER));
}
static jval m_upper(jrender *r, jval self, jval *arg)
{
    (void)arg;
    return jm_same_kind(self, jstr_case(r, self.s, CASE_UPPER));
}
static jval m_title(jrender *r, jval self, jval *arg)
{
    (void)arg;
    return jm_same_kind(self, jstr_case(r, self.s, CASE_TITLE));
}
static jval m_capitalize(jrender *r, jval self, jval *arg)
{
    (void)arg;
    return jm_same_kind(self, jstr_case(r, self.s, CASE_CAPITAL));
}
static jval m_swapcase(jrender *r, jval self, jval *arg)
{
    (void)arg;
    return jm_same_kind(self, jstr_case(r, self.s, CASE_SWAP));
}

#define CLASS(name, test)                                                                          \
    static jval name(jrender *r, jval self, jval *arg)                                             \
    {                                                                                              \
        (void)arg;                                                                                 \
        return jcost_bytes(r, 8u * (uint64_t)self.s->n) ? jbool(test) : failed;                    \
    }
CLASS(m_isalnum, jstr_all(self.s, CHAR_ALPHA | CHAR_DECIMAL | CHAR_DIGIT | CHAR_NUMERIC))
CLASS(m_isalpha, jstr_all(self.s, CHAR_ALPHA))
CLASS(m_isdecimal, jstr_all(self.s, CHAR_DECIMAL))
CLASS(m_isdigit, jstr_all(self.s, CHAR_DIGIT))
CLASS(m_isnumeric, jstr_all(self.s, CHAR_NUMERIC))
CLASS(m_isprintable, self.s->n == 0 || jstr_all(self.s, CHAR_PRINTABLE))
CLASS(m_islower, jstr_is_case(self.s, CHAR_LOWER, CHAR_UPPER | CHAR_TITLE))
CLASS(m_isupper, jstr_is_case(self.s, CHAR_UPPER, CHAR_LOWER | CHAR_TITLE))
CLASS(m_isascii, self.s->points == self.s->n)

static jval m_isspace(jrender *r, jval self, jval *arg)
{
    (void)arg;
    const jstr *left = jstr_strip(r, self.s, NULL, true, false);
    return left ? jbool(self.s->n > 0 && left->n == 0) : failed;
}

static jval m_istitle(jrender *r, jval self, jval *arg)
{
    bool inside = false, found = false;
    (void)arg;
    if (!jcost_bytes(r, 8u * (uint64_t)self.s->n))
        return failed;
    for (uint32_t at = 0, n; at < self.s->n; at += n ? n : 1) {
        uint32_t c;
        n = jstr_point(self.s, at, &c);
        const int bits = jchar_bits(c);
        const bool big = bits & (CHAR_UPPER | CHAR_TITLE);
        if ((big && inside) || (!big && bits & CHAR_LOWER && !inside))
            return jbool(false);
        inside = big || bits & CHAR_LOWER;
        found = found || inside;
    }
    return jbool(found);
}

/* ---- strip, replace, prefixes ---------------------------------------------------------------- */

static jval strip(jrender *r, jval self, jval chars, bool left, bool right)
{
    if (chars.kind == V_MISSING || chars.kind == V_NONE)
        return jm_same_kind(self, jstr_strip(r, self.s, NULL, left, right));
    if (!jm_want_str(r, "strip", chars))
        return failed;
    return jm_same_kind(self, jstr_strip(r, self.s, chars.s, left, right));
}
static jval m_strip(jrender *r, jval self, jval *arg)
{
    return strip(r, self, arg[0], true, true);
}
static jval m_lstrip(jrender *r, jval self, jval *arg)
{
    return strip(r, self, arg[0], true, false);
}
static jval m_rstrip(jrender *r, jval self, jval *arg)
{
    return strip(r, self, arg[0], false, true);
}

static jval m_replace(jrender *r, jval self, jval *arg)
{
    int64_t most = -1;
    if (!jm_want_str(r, "replace", arg[0]) || (!self.safe && !jm_want_str(r, "replace", arg[1])) ||
        (arg[2].kind != V_MISSING && !jm_want_int(r, "replace", arg[2], &most)))
        return failed;
    const jstr *with = self.safe ? jescape(r, arg[1]) : arg[1].s;
    return with ? jm_same_kind(self, jstr_replace(r, self.s, arg[0].s, with, most)) : failed;
}

static jval m_removeprefix(jrender *r, jval self, jval *arg)
{
    if (!jm_want_str(r, "removeprefix", arg[0]))
        return failed;
    const uint32_t n = arg[0].s->n;
    const bool has = n <= self.s->n && memcmp(self.s->at, arg[0].s->at, n) == 0;
    return jm_same_kind(self, jstr_slice(r, self.s, has ? n : 0, self.s->n));
}

static jval m_removesuffix(jrender *r, jval self, jval *arg)
{
    if (!jm_want_str(r, "removesuffix", arg[0]))
        return failed;
    const uint32_t n = arg[0].s->n, all = self.s->n;
    const bool has = n <= all && memcmp(self.s->at + all - n, arg[0].s->at, n) == 0;
    return jm_same_kind(self, jstr_slice(r, self.s, 0, has ? all - n : all));
}

/* The bytes [*begin, *end) that two optional positions mark; false if they are no integers.
 * *outside: the start lies beyond the end. */
static bool search_window(jrender *r, const jstr *s, const jval *arg, uint32_t *begin,
                          uint32_t *end, bool *outside)
{
    int64_t at[2] = { 0, s->points };
    for (int i = 0; i < 2; i++) {
        if (arg[i].kind == V_MISSING || arg[i].kind == V_NONE)
            continue;
        if (!jm_want_int(r, "a position", arg[i], &at[i]))
            return false;
        if (at[i] < 0)
            at[i] = at[i] < -(int64_t)s->points ? 0 : at[i] + s->points;
    }
    at[1] = at[1] > s->points ? s->points : at[1];
    *outside = at[0] > at[1];
    *begin = jstr_offset(s, *outside ? 0 : (uint32_t)at[0]);
    *end = jstr_offset(s, *outside ? 0 : (uint32_t)at[1]);
    return jcost_bytes(r, s->n);
}

static bool has_end(const jstr *s, uint32_t begin, uint32_t end, const jstr *part, bool at_start)
{
    if (part->n > end - begin)
        return false;
    return memcmp(s->at + (at_start ? begin : end - part->n), part->at, part->n) == 0;
}

static jval ends(jrender *r, jval self, jval *arg, bool at_start)
{
    uint32_t begin, end;
    bool outside;
    const jval what = arg[0];
    if (!search_window(r, self.s, arg + 1, &begin, &end, &outside))
        return failed;
    if (what.kind == V_STR)
        return jbool(!outside && has_end(self.s, begin, end, what.s, at_start));
    if (what.kind != V_TUPLE)
        return jfail(r, WEFT_EINVAL, "startswith or endswith: %s; expected a str or a tuple",
                     jkind_name(what));
    for (uint32_t i = 0; i < what.list->n; i++) {
        if (!jm_want_str(r, "startswith or endswith", what.list->item[i]) || !jcost(r, 1))
            return failed;
        if (!outside && has_end(self.s, begin, end, what.list->item[i].s, at_start))
            return jbool(true);
    }
    return jbool(false);
}
static jval m_startswith(jrender *r, jval self, jval *arg)
{
    return ends(r, self, arg, true);
}
static jval m_endswith(jrender *r, jval self, jval *arg)
{
    return ends(r, self, arg, false);
}

/* ---- find ------------------------------------------------------------------------------------ */

static jval find(jrender *r, jval self, jval *arg, bool last, bool must)
{
    uint32_t begin, end, points = 0;
    bool outside;
    if (!jm_want_str(r, "find", arg[0]) ||
        !search_window(r, self.s, arg + 1, &begin, &end, &outside))
        return failed;
    const uint32_t hit = outside ? UINT32_MAX
                         : last  ? jstr_rfind(self.s, arg[0].s, begin, end)
                                 : jstr_find(self.s, arg[0].s, begin, end);
    if (hit == UINT32_MAX)
        return must ? jfail(r, WEFT_EINVAL, "index: the substring is not there") : jint(-1);
    for (uint32_t i = 0; i < hit; i++)
        points += (self.s->at[i] & 0xc0) != 0x80;
    return jint(points);
}
static jval m_find(jrender *r, jval self, jval *arg)
{
    return find(r, self, arg, false, false);
}
static jval m_rfind(jrender *r, jval self, jval *arg)
{
    return find(r, self, arg, true, false);
}
static jval m_index(jrender *r, jval self, jval *arg)
{
    return find(r, self, arg, false, true);
}
static jval m_rindex(jrender *r, jval self, jval *arg)
{
    return find(r, self, arg, true, true);
}

static jval m_count(jrender *r, jval self, jval *arg)
{
    uint32_t begin, end;
    int64_t n = 0;
    bool outside;
    if (!jm_want_str(r, "count", arg[0]) ||
        !search_window(r, self.s, arg + 1, &begin, &end, &outside))
        return failed;
    if (outside)
        return jint(0);
    if (arg[0].s->n == 0) {
        for (uint32_t i = begin; i < end; i++)
            n += (self.s->at[i] & 0xc0) != 0x80;
        return jint(n + 1);
    }
    for (uint32_t hit; (hit = jstr_find(self.s, arg[0].s, begin, end)) != UINT32_MAX; n++)
        begin = hit + arg[0].s->n;
    return jint(n);
}

/* ---- padding --------------------------------------------------------------------------------- */

static bool pad(jbuild *b, jval fill, int64_t n)
{
    if (n > (int64_t)JINJA_VALUES)
        return !jbad(jfail(b->r, WEFT_ELIMIT, "a string of %lld characters; values have %zu bytes",
                           (long long)n, JINJA_VALUES));
    for (int64_t i = 0; i < n && !b->failed; i++)
        jbuild_str(b, fill.s);
    return true;
}

static jval justify(jrender *r, jval self, jval *arg, char how)
{
    int64_t width;
    jval fill = arg[1].kind == V_MISSING ? jtext(r, " ") : arg[1];
    if (!jm_want_int(r, "a width", arg[0], &width) || jbad(fill) || !jm_want_str(r, "a fill", fill))
        return failed;
    if (fill.s->points != 1)
        return jfail(r, WEFT_EINVAL, "a fill of %u characters; expected one", fill.s->points);
    if (width <= self.s->points)
        return self;
    const int64_t gap = width - self.s->points;
    const int64_t left = how == 'l' ? 0 : how == 'r' ? gap : gap / 2 + (gap & width & 1);
    jbuild b;
    jbuild_begin(&b, r);
    if (!pad(&b, fill, left))
        return failed;
    jbuild_str(&b, self.s);
    if (!pad(&b, fill, gap - left))
        return failed;
    return jsafe(jbuild_value(&b), self.safe);
}
static jval m_ljust(jrender *r, jval self, jval *arg)
{
    return justify(r, self, arg, 'l');
}
static jval m_rjust(jrender *r, jval self, jval *arg)
{
    return justify(r, self, arg, 'r');
}
static jval m_center(jrender *r, jval self, jval *arg)
{
    return justify(r, self, arg, 'c');
}

static jval m_zfill(jrender *r, jval self, jval *arg)
{
    int64_t width;
    if (!jm_want_int(r, "zfill", arg[0], &width))
        return failed;
    const jstr *s = self.s;
    const uint32_t sign = s->n && (s->at[0] == '+' || s->at[0] == '-');
    jbuild b;
    jbuild_begin(&b, r);
    jbuild_part(&b, s, 0, sign);
    const jval zero = jtext(r, "0");
    if (jbad(zero) || !pad(&b, zero, width - s->points))
        return failed;
    jbuild_part(&b, s, sign, s->n);
    return jsafe(jbuild_value(&b), self.safe);
}

/* ---- dict, list, tuple ----------------------------------------------------------------------- */

static jval m_get(jrender *r, jval self, jval *arg)
{
    if (!jhashable(arg[0]))
        return jfail(r, WEFT_EINVAL, "get: %s as a key; expected a value that never changes",
                     jkind_name(arg[0]));
    const jval found = jdict_get(r, self.dict, arg[0]);
    if (found.kind != V_MISSING)
        return found;
    return arg[1].kind == V_MISSING ? jnone() : arg[1];
}

static jval view(jval self, char what)
{
    return (jval){ .kind = V_VIEW, .view = (uint8_t)what, .dict = self.dict };
}
static jval m_items(jrender *r, jval self, jval *arg)
{
    (void)r, (void)arg;
    return view(self, 'i');
}
static jval m_keys(jrender *r, jval self, jval *arg)
{
    (void)r, (void)arg;
    return view(self, 'k');
}
static jval m_values(jrender *r, jval self, jval *arg)
{
    (void)r, (void)arg;
    return view(self, 'v');
}

/* A copy is another object, but nothing can change either of them. */
static jval m_copy(jrender *r, jval self, jval *arg)
{
    (void)r, (void)arg;
    return self;
}

static jval count_items(jrender *r, jval self, jval what, bool first)
{
    jiter it;
    int64_t n = 0, at = 0;
    if (!jiter_begin(r, &it, self))
        return failed;
    for (;; at++) {
        const jval item = jiter_next(r, &it);
        bool equal;
        if (item.kind == V_MISSING)
            break;
        if (jbad(item) || !jequal(r, item, what, &equal))
            return failed;
        if (equal && first)
            return jint(at);
        n += equal;
    }
    return first ? jfail(r, WEFT_EINVAL, "index: the value is not in the list") : jint(n);
}
static jval m_list_count(jrender *r, jval self, jval *arg)
{
    return count_items(r, self, arg[0], false);
}
static jval m_list_index(jrender *r, jval self, jval *arg)
{
    return count_items(r, self, arg[0], true);
}

/* ---- the table ------------------------------------------------------------------------------- */

typedef struct method {
    const char *name, *parameters;
    method_fn *run;
} method;

static const method str_table[] = {
    { "capitalize", "", m_capitalize },
    { "center", "width fill? /", m_center },
    { "count", "sub start? end? /", m_count },
    { "endswith", "suffix start? end? /", m_endswith },
    { "find", "sub start? end? /", m_find },
    { "index", "sub start? end? /", m_index },
    { "isalnum", "", m_isalnum },
    { "isalpha", "", m_isalpha },
    { "isascii", "", m_isascii },
    { "isdecimal", "", m_isdecimal },
    { "isdigit", "", m_isdigit },
    { "islower", "", m_islower },
    { "isnumeric", "", m_isnumeric },
    { "isprintable", "", m_isprintable },
    { "isspace", "", m_isspace },
    { "istitle", "", m_istitle },
    { "isupper", "", m_isupper },
    { "join", "iterable /", jm_join },
    { "ljust", "width fill? /", m_ljust },
    { "lower", "", m_lower },
    { "lstrip", "chars? /", m_lstrip },
    { "partition", "sep /", jm_partition },
    { "removeprefix", "prefix /", m_removeprefix },
    { "removesuffix", "suffix /", m_removesuffix },
    { "replace", "old new count? /", m_replace },
    { "rfind", "sub start? end? /", m_rfind },
    { "rindex", "sub start? end? /", m_rindex },
    { "rjust", "width fill? /", m_rjust },
    { "rpartition", "sep /", jm_rpartition },
    { "rsplit", "sep? maxsplit?", jm_rsplit },
    { "rstrip", "chars? /", m_rstrip },
    { "split", "sep? maxsplit?", jm_split },
    { "splitlines", "keepends?", jm_splitlines },
    { "startswith", "prefix start? end? /", m_startswith },
    { "strip", "chars? /", m_strip },
    { "swapcase", "", m_swapcase },
    { "title", "", m_title },
    { "upper", "", m_upper },
    { "zfill", "width /", m_zfill },
    { 0 },
};
static const method dict_table[] = {
    { "copy", "", m_copy }, { "get", "key default? /", m_get }, { "items", "", m_items },
    { "keys", "", m_keys }, { "values", "", m_values },         { 0 },
};
static const method list_table[] = {
    { "copy", "", m_copy },
    { "count", "value /", m_list_count },
    { "index", "value /", m_list_index },
    { 0 },
};

jval jcall_method(jrender *r, const jmethod *m, const jargs *a)
{
    jval arg[MOST_ARGS];
    const jval self = m->self;
    if (self.kind == V_STR && strcmp(m->name, "format") == 0)
        return jformat_braces(r, self, a);
    const method *at = self.kind == V_STR    ? str_table
                       : self.kind == V_DICT ? dict_table
                                             : list_table;
    while (at->name && strcmp(at->name, m->name) != 0)
        at++;
    if (!at->name || self.kind < V_STR || self.kind == V_VIEW || self.kind == V_GENERATOR)
        return jfail(r, WEFT_EUNSUPPORTED, "the method %s of %s; weft does not have it", m->name,
                     jkind_name(self));
    if (!jbind(r, at->name, at->parameters, a, arg))
        return failed;
    return at->run(r, self, arg);
}
