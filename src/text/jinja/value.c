/* value.c - lists, dicts, truth, equality and order, as Python defines them. */
#include "text/jinja/value.h"

#include <string.h>

/* ---- lists and dicts ------------------------------------------------------------------------- */

jlist *jlist_new(jrender *r, uint64_t n)
{
    uint64_t bytes;
    if (__builtin_mul_overflow(n, sizeof(jval), &bytes) || bytes > JINJA_VALUES) {
        jfail(r, WEFT_ELIMIT, "a list of %llu items; the values of a template have %zu bytes",
              (unsigned long long)n, JINJA_VALUES);
        return NULL;
    }
    jlist *l = jalloc(r, sizeof *l + bytes, 1);
    if (!l || !jcost(r, n / 8))
        return NULL;
    *l = (jlist){ .n = (uint32_t)n };
    return l;
}

static uint32_t height_of(jval v)
{
    switch (v.kind) {
    case V_LIST:
    case V_TUPLE:
        return v.list->height;
    case V_DICT:
    case V_VIEW:
        return v.dict->height;
    default:
        return 0;
    }
}

static bool too_high(jrender *r, uint32_t height)
{
    if (height <= JINJA_DEPTH)
        return false;
    jfail(r, WEFT_ELIMIT, "values nested deeper than %d; use flatter ones", JINJA_DEPTH);
    return true;
}

jval jlist_value(jrender *r, jlist *l, jkind kind)
{
    if (!l)
        return (jval){ .kind = V_FAIL };
    for (uint32_t i = 0; i < l->n; i++) {
        const uint32_t h = height_of(l->item[i]) + 1;
        l->height = h > l->height ? h : l->height;
    }
    return too_high(r, l->height) ? (jval){ .kind = V_FAIL }
                                  : (jval){ .kind = (uint8_t)kind, .list = l };
}

jval jpair_value(jrender *r, jval a, jval b)
{
    jlist *l = jlist_new(r, 2);
    if (l) {
        l->item[0] = a;
        l->item[1] = b;
    }
    return jlist_value(r, l, V_TUPLE);
}

bool jmany_add(jrender *r, jmany *m, jval v)
{
    if (m->n == m->room) {
        const uint32_t room = m->room ? 2 * m->room : 8;
        jlist *more = jlist_new(r, room);
        if (!more)
            return false;
        if (m->n)
            memcpy(more->item, m->list->item, m->n * sizeof(jval));
        m->list = more;
        m->room = room;
    }
    m->list->item[m->n++] = v;
    return true;
}

jval jmany_end(jrender *r, jmany *m, jkind kind)
{
    if (!m->list)
        m->list = jlist_new(r, 0);
    if (m->list)
        m->list->n = m->n;
    return jlist_value(r, m->list, kind);
}

jdict *jdict_new(jrender *r, uint64_t room)
{
    jdict *d = jalloc(r, 1, sizeof *d);
    if (!d)
        return NULL;
    *d = (jdict){ .room = (uint32_t)room };
    if (room > 0) {
        d->pair = jalloc(r, room, sizeof *d->pair);
        if (!d->pair || !jcost(r, room / 8))
            return NULL;
    }
    return d;
}

bool jhashable(jval v)
{
    if (v.kind == V_LIST || v.kind == V_DICT || v.kind == V_VIEW || v.kind == V_SLICE)
        return false;
    if (v.kind == V_TUPLE)
        for (uint32_t i = 0; i < v.list->n; i++)
            if (!jhashable(v.list->item[i]))
                return false;
    return true;
}

/* The place of a key, or d->n; UINT32_MAX when the error was reported. */
static uint32_t find_key(jrender *r, const jdict *d, jval key)
{
    if (!jcost(r, d->n / 4))
        return UINT32_MAX;
    for (uint32_t i = 0; i < d->n; i++) {
        bool equal;
        if (!jequal(r, d->pair[i].key, key, &equal))
            return UINT32_MAX;
        if (equal)
            return i;
    }
    return d->n;
}

bool jdict_put(jrender *r, jdict *d, jval key, jval value)
{
    if (!jhashable(key)) {
        jfail(r, WEFT_EINVAL, "%s as the key of a dict; expected a value that never changes",
              jkind_name(key));
        return false;
    }
    const uint32_t at = find_key(r, d, key);
    if (at == UINT32_MAX)
        return false;
    if (at == d->n && d->n == d->room) {
        const uint32_t room = d->room ? 2 * d->room : 8;
        jpair *more = jalloc(r, room, sizeof *more);
        if (!more)
            return false;
        if (d->n)
            memcpy(more, d->pair, d->n * sizeof *more);
        d->pair = more;
        d->room = room;
    }
    if (at == d->n)
        d->pair[d->n++].key = key;
    d->pair[at].value = value;
    const uint32_t k = height_of(key), v = height_of(value);
    const uint32_t height = (k > v ? k : v) + 1;
    d->height = height > d->height ? height : d->height;
    return !too_high(r, d->height);
}

jval jdict_get(jrender *r, const jdict *d, jval key)
{
    const uint32_t at = find_key(r, d, key);
    if (at == UINT32_MAX)
        return (jval){ .kind = V_FAIL };
    return at < d->n ? d->pair[at].value : jmissing();
}

jval jdict_get_text(const jdict *d, const char *key, size_t n)
{
    for (uint32_t i = 0; i < d->n; i++) {
        const jval k = d->pair[i].key;
        if (k.kind == V_STR && k.s->n == n && memcmp(k.s->at, key, n) == 0)
            return d->pair[i].value;
    }
    return jmissing();
}

/* ---- truth ----------------------------------------------------------------------------------- */

jval jlength(jval v)
{
    switch (v.kind) {
    case V_UNDEFINED:
        return jint(0);
    case V_STR:
        return jint(v.s->points);
    case V_LIST:
    case V_TUPLE:
        return jint(v.list->n);
    case V_DICT:
    case V_VIEW:
        return jint(v.dict->n);
    case V_RANGE:
        return jint(v.range->n);
    default:
        return jmissing();
    }
}

bool jtruth(jval v)
{
    switch (v.kind) {
    case V_NONE:
        return false;
    case V_BOOL:
        return v.b;
    case V_INT:
        return v.i != 0;
    case V_FLOAT:
        return v.f != 0;
    default: {
        const jval n = jlength(v);
        return n.kind == V_MISSING || n.i > 0;
    }
    }
}

/* ---- equality and order ---------------------------------------------------------------------- */

bool jinteger(jval v, int64_t *i)
{
    if (v.kind != V_INT && v.kind != V_BOOL)
        return false;
    *i = v.kind == V_INT ? v.i : v.b;
    return true;
}

bool jnumber(jval v, double *f)
{
    int64_t i;
    if (v.kind == V_FLOAT)
        *f = v.f;
    else if (jinteger(v, &i))
        *f = (double)i;
    else
        return false;
    return true;
}

#define UNORDERED 4 /* a comparison with NaN */

static int sign_of(bool less, bool more)
{
    return less ? -1 : more;
}

/* Exactly, as Python does: 2^53 + 1 is more than 2.0^53. */
static int compare_int_float(int64_t i, double f)
{
    if (f != f)
        return UNORDERED;
    if (f >= 0x1p63)
        return -1;
    if (f < -0x1p63)
        return 1;
    const int64_t whole = (int64_t)f; /* towards zero */
    if (i != whole)
        return sign_of(i < whole, true);
    const double rest = f - (double)whole;
    return sign_of(rest > 0, rest < 0);
}

static int compare_numbers(jval a, jval b)
{
    int64_t i, k;
    const bool ai = jinteger(a, &i), bi = jinteger(b, &k);
    if (ai && bi)
        return sign_of(i<k, i> k);
    if (ai)
        return compare_int_float(i, b.f);
    if (bi) {
        const int c = compare_int_float(k, a.f);
        return c == UNORDERED ? c : -c;
    }
    if (a.f != a.f || b.f != b.f)
        return UNORDERED;
    return sign_of(a.f<b.f, a.f> b.f);
}

static bool is_number(jval v)
{
    return v.kind == V_BOOL || v.kind == V_INT || v.kind == V_FLOAT;
}

bool jsame(jval a, jval b)
{
    if (a.kind != b.kind)
        return false;
    switch (a.kind) {
    case V_NONE:
        return true;
    case V_BOOL:
        return a.b == b.b;
    case V_INT: /* small ones are one object in Python */
        return a.i == b.i && a.i >= -5 && a.i <= 256;
    case V_FLOAT:
    case V_UNDEFINED:
        return false;
    case V_STR:
        return a.s == b.s;
    default:
        return a.list == b.list;
    }
}

static bool equal_dicts(jrender *r, const jdict *a, const jdict *b, bool *equal)
{
    *equal = a->n == b->n;
    for (uint32_t i = 0; i < a->n && *equal; i++) {
        const jval other = jdict_get(r, b, a->pair[i].key);
        if (jbad(other))
            return false;
        *equal = other.kind != V_MISSING;
        if (*equal && !jequal(r, a->pair[i].value, other, equal))
            return false;
    }
    return true;
}

/* Keys and items are sets: equal if one has all of the other. */
static bool equal_views(jrender *r, jval a, jval b, bool *equal)
{
    *equal = a.dict->n == b.dict->n && a.view != 'v' && b.view != 'v' && a.view == b.view;
    for (uint32_t i = 0; i < a.dict->n && *equal; i++) {
        const jval other = jdict_get(r, b.dict, a.dict->pair[i].key);
        if (jbad(other))
            return false;
        *equal = other.kind != V_MISSING;
        if (*equal && a.view == 'i' && !jequal(r, a.dict->pair[i].value, other, equal))
            return false;
    }
    *equal = *equal || (a.dict == b.dict && a.view == b.view && a.view != 'v');
    return true;
}

static bool equal_lists(jrender *r, const jlist *a, const jlist *b, bool *equal)
{
    *equal = a->n == b->n;
    for (uint32_t i = 0; i < a->n && *equal; i++)
        if (!jcost(r, 1) || !jequal(r, a->item[i], b->item[i], equal))
            return false;
    return true;
}

bool jequal(jrender *r, jval a, jval b, bool *equal)
{
    *equal = false;
    if (is_number(a) && is_number(b)) {
        *equal = compare_numbers(a, b) == 0;
        return true;
    }
    if (a.kind != b.kind)
        return true;
    switch (a.kind) {
    case V_UNDEFINED:
        *equal = true;
        return true;
    case V_STR:
        *equal = jstr_same(a.s, b.s);
        return jcost_bytes(r, a.s->n == b.s->n ? a.s->n : 0);
    case V_LIST:
    case V_TUPLE:
        return equal_lists(r, a.list, b.list, equal);
    case V_DICT:
        return equal_dicts(r, a.dict, b.dict, equal);
    case V_VIEW:
        return equal_views(r, a, b, equal);
    case V_RANGE:
        *equal = a.range->n == b.range->n &&
                 (a.range->n == 0 || (a.range->start == b.range->start &&
                                      (a.range->n == 1 || a.range->step == b.range->step)));
        return true;
    case V_METHOD:
        *equal = strcmp(a.method->name, b.method->name) == 0 &&
                 (a.method->self.kind == V_STR && b.method->self.kind == V_STR
                      ? jstr_same(a.method->self.s, b.method->self.s)
                      : jsame(a.method->self, b.method->self));
        return true;
    default:
        *equal = jsame(a, b);
        return true;
    }
}

int jcompare(jrender *r, jval a, jval b)
{
    if (is_number(a) && is_number(b))
        return compare_numbers(a, b);
    if (a.kind != b.kind)
        return 2;
    if (a.kind == V_STR)
        return jcost_bytes(r, a.s->n) ? jstr_compare(a.s, b.s) : 3;
    if (a.kind != V_LIST && a.kind != V_TUPLE)
        return 2;
    for (uint32_t i = 0; i < a.list->n && i < b.list->n; i++) {
        bool equal;
        if (!jcost(r, 1) || !jequal(r, a.list->item[i], b.list->item[i], &equal))
            return 3;
        if (!equal)
            return jcompare(r, a.list->item[i], b.list->item[i]);
    }
    return sign_of(a.list->n<b.list->n, a.list->n> b.list->n);
}
