/* attr.c - x.name, x[key] and slices, by the rules of jinja2's immutable sandbox: an attribute comes
 * before a key in x.name and after it in x['name']; methods that would change a value, and names
 * that begin with an underscore, are undefined. */
#include "text/jinja/value.h"

#include <string.h>

static const char *const str_methods[] = {
    "capitalize",   "casefold",    "center",    "count",      "encode",       "endswith",
    "expandtabs",   "find",        "format",    "format_map", "index",        "isalnum",
    "isalpha",      "isascii",     "isdecimal", "isdigit",    "isidentifier", "islower",
    "isnumeric",    "isprintable", "isspace",   "istitle",    "isupper",      "join",
    "ljust",        "lower",       "lstrip",    "maketrans",  "partition",    "removeprefix",
    "removesuffix", "replace",     "rfind",     "rindex",     "rjust",        "rpartition",
    "rsplit",       "rstrip",      "split",     "splitlines", "startswith",   "strip",
    "swapcase",     "title",       "translate", "upper",      "zfill",        NULL
};
static const char *const dict_methods[] = { "copy",     "fromkeys",    "get",     "items",
                                            "keys",     "values",      "!clear",  "!pop",
                                            "!popitem", "!setdefault", "!update", NULL };
static const char *const list_methods[] = { "copy",    "count",    "index",   "!append",
                                            "!clear",  "!extend",  "!insert", "!pop",
                                            "!remove", "!reverse", "!sort",   NULL };
static const char *const tuple_methods[] = { "count", "index", NULL };
static const char *const int_methods[] = {
    "as_integer_ratio", "bit_count", "bit_length", "conjugate", "from_bytes", "to_bytes", NULL
};
static const char *const float_methods[] = { "as_integer_ratio", "conjugate", "fromhex", "hex",
                                             "is_integer",       NULL };
static const char *const view_methods[] = { "isdisjoint", NULL };
static const char *const generator_methods[] = { "close", "send", "throw", NULL };
static const char *const markup_methods[] = { "escape", "striptags", "unescape", NULL };
static const char *const no_methods[] = { NULL };

/* What every Python object has; their names cannot be keys in x.name. */
static const char *const object_names[] = {
    "__class__",    "__delattr__", "__dir__",           "__doc__",          "__eq__",
    "__format__",   "__ge__",      "__getattribute__",  "__getstate__",     "__gt__",
    "__hash__",     "__init__",    "__init_subclass__", "__le__",           "__lt__",
    "__ne__",       "__new__",     "__reduce__",        "__reduce_ex__",    "__repr__",
    "__setattr__",  "__sizeof__",  "__str__",           "__subclasshook__", "__len__",
    "__contains__", "__getitem__", "__iter__",          "__or__",           NULL
};

static const char *const *methods_of(jval v)
{
    switch (v.kind) {
    case V_STR:
        return str_methods;
    case V_DICT:
        return dict_methods;
    case V_LIST:
        return list_methods;
    case V_TUPLE:
    case V_RANGE:
        return tuple_methods;
    case V_BOOL:
    case V_INT:
        return int_methods;
    case V_FLOAT:
        return float_methods;
    case V_VIEW:
        return view_methods;
    case V_GENERATOR:
        return generator_methods;
    default:
        return no_methods;
    }
}

static const char *find_name(const char *const *names, const jstr *name)
{
    for (; *names; names++)
        if (jstr_is(name, **names == '!' ? *names + 1 : *names))
            return *names;
    return NULL;
}

/* Numbers and ranges have a few attributes that are no methods. */
static jval plain_attribute(jval v, const jstr *name)
{
    int64_t i;
    if (v.kind == V_RANGE) {
        const jrange *g = v.range;
        if (jstr_is(name, "start") || jstr_is(name, "stop") || jstr_is(name, "step"))
            return jint(name->n == 5 ? g->start : name->at[2] == 'o' ? g->stop : g->step);
    } else if (jinteger(v, &i)) {
        if (jstr_is(name, "real") || jstr_is(name, "numerator"))
            return jint(i);
        if (jstr_is(name, "imag") || jstr_is(name, "denominator"))
            return jint(name->n == 4 ? 0 : 1);
    } else if (v.kind == V_FLOAT && (jstr_is(name, "real") || jstr_is(name, "imag")))
        return jfloat(name->at[0] == 'r' ? v.f : 0);
    return jmissing();
}

static jval bound(jrender *r, jval self, const char *name)
{
    jmethod *m = jalloc(r, 1, sizeof *m);
    if (!m)
        return (jval){ .kind = V_FAIL };
    *m = (jmethod){ self, name };
    return (jval){ .kind = V_METHOD, .method = m };
}

/* An attribute in Python's sense; V_MISSING if there is none. */
static jval attribute_of(jrender *r, jval v, const jstr *name)
{
    if (v.kind == V_NAMESPACE)
        return jdict_get_text(v.dict, name->at, name->n);
    if (v.kind == V_LOOP)
        return v.loop->attribute(r, v.loop, name);
    if (v.kind == V_MACRO)
        return jstr_is(name, "name") ? jstr_value(v.macro->name) : jmissing();
    const char *method = find_name(methods_of(v), name);
    if (!method && v.kind == V_STR && v.safe)
        method = find_name(markup_methods, name);
    if (method)
        return *method == '!' ? jundefined(name) : bound(r, v, method);
    if (name->n > 2 && name->at[0] == '_' && find_name(object_names, name))
        return jundefined(name);
    return plain_attribute(v, name);
}

jval jattribute(jrender *r, jval v, const jstr *name)
{
    if (v.kind == V_UNDEFINED)
        return find_name(object_names, name) ? jundefined(name) : jfail_undefined(r, v);
    jval found = attribute_of(r, v, name);
    if (found.kind == V_MISSING && v.kind == V_DICT)
        found = jcost(r, v.dict->n / 8) ? jdict_get_text(v.dict, name->at, name->n)
                                        : (jval){ .kind = V_FAIL };
    return found.kind == V_MISSING ? jundefined(name) : found;
}

/* ---- subscripts ------------------------------------------------------------------------------ */

static jval str_item(jrender *r, jval v, uint32_t at)
{
    const uint32_t begin = jstr_offset(v.s, at);
    if (v.s->points != v.s->n && !jcost(r, at / 8))
        return (jval){ .kind = V_FAIL };
    return jsafe(jstr_value(jstr_slice(r, v.s, begin, jstr_offset(v.s, at + 1))), v.safe);
}

static jval numbered(jrender *r, jval v, int64_t at)
{
    const jval n = jlength(v);
    at += at < 0 ? n.i : 0;
    if (at < 0 || at >= n.i)
        return jundefined(NULL);
    if (v.kind == V_STR)
        return str_item(r, v, (uint32_t)at);
    if (v.kind == V_RANGE)
        return jint(v.range->start + at * v.range->step);
    return v.list->item[at];
}

static bool is_sequence(jval v)
{
    return v.kind == V_STR || v.kind == V_LIST || v.kind == V_TUPLE || v.kind == V_RANGE;
}

jval jitem(jrender *r, jval v, jval key)
{
    int64_t at;
    if (v.kind == V_UNDEFINED)
        return jfail_undefined(r, v);
    if (v.kind == V_DICT && jhashable(key)) {
        const jval found = jdict_get(r, v.dict, key);
        if (found.kind != V_MISSING)
            return found;
    }
    if (is_sequence(v) && jinteger(key, &at))
        return numbered(r, v, at);
    if (key.kind != V_STR)
        return jundefined(NULL);
    const jval found = attribute_of(r, v, key.s);
    return found.kind == V_MISSING ? jundefined(key.s) : found;
}

/* ---- slices ---------------------------------------------------------------------------------- */

static int64_t clamp(int64_t x, int64_t low, int64_t high)
{
    return x < low ? low : x > high ? high : x;
}

/* The first index, the one after the last, and how many there are. */
uint32_t jslice_bounds(const int64_t part[3], const bool has[3], uint32_t n, int64_t *start,
                       int64_t *stop)
{
    const int64_t size = n, step = has[2] ? part[2] : 1;
    const int64_t low = step < 0 ? -1 : 0, high = step < 0 ? size - 1 : size;
    int64_t from = has[0] ? clamp(part[0], -size - 1, size + 1) : step < 0 ? high : low;
    int64_t to = has[1] ? clamp(part[1], -size - 1, size + 1) : step < 0 ? low : high;
    if (has[0])
        from = clamp(from < 0 ? from + size : from, low, high);
    if (has[1])
        to = clamp(to < 0 ? to + size : to, low, high);
    *start = from;
    *stop = to;
    const uint64_t stride = step < 0 ? -(uint64_t)step : (uint64_t)step;
    const int64_t span = step < 0 ? from - to : to - from;
    return span <= 0 ? 0 : (uint32_t)(((uint64_t)span - 1) / stride + 1);
}

static jval slice_str(jrender *r, jval v, int64_t start, int64_t step, uint32_t count)
{
    if (step == 1 || count == 0) {
        const uint32_t begin = jstr_offset(v.s, (uint32_t)start);
        const uint32_t end = count ? jstr_offset(v.s, (uint32_t)start + count) : begin;
        return jstr_value(jstr_slice(r, v.s, begin, end));
    }
    if (!jcost(r, v.s->n / 8u + count))
        return (jval){ .kind = V_FAIL };
    uint32_t *place = v.s->points == v.s->n ? NULL : jalloc(r, v.s->points + 1u, sizeof *place);
    for (uint32_t i = 0, k = 0; place && i <= v.s->n; i++)
        if (i == v.s->n || (v.s->at[i] & 0xc0) != 0x80)
            place[k++] = i;
    if (!place && v.s->points != v.s->n)
        return (jval){ .kind = V_FAIL };
    jbuild b;
    jbuild_begin(&b, r);
    for (uint32_t i = 0; i < count && !b.failed; i++) {
        const uint32_t at = (uint32_t)(start + i * step);
        jbuild_part(&b, v.s, place ? place[at] : at, place ? place[at + 1] : at + 1);
    }
    return jbuild_value(&b);
}

static jval slice_range(jrender *r, const jrange *g, int64_t start, int64_t stop, int64_t step,
                        uint32_t count)
{
    jrange *to = jalloc(r, 1, sizeof *to);
    if (!to)
        return (jval){ .kind = V_FAIL };
    *to = (jrange){ .n = count };
    if (__builtin_mul_overflow(g->step, step, &to->step) ||
        __builtin_mul_overflow(g->step, start, &to->start) ||
        __builtin_mul_overflow(g->step, stop, &to->stop) ||
        __builtin_add_overflow(g->start, to->start, &to->start) ||
        __builtin_add_overflow(g->start, to->stop, &to->stop))
        return jfail(r, WEFT_EUNSUPPORTED, "an integer beyond 64 bits; weft computes with 64");
    return (jval){ .kind = V_RANGE, .range = to };
}

bool jcan_slice(jval v, jval slice)
{
    int64_t i;
    for (int k = 0; k < 3; k++)
        if (slice.slice->part[k].kind != V_NONE && !jinteger(slice.slice->part[k], &i))
            return false;
    return is_sequence(v);
}

jval jslice_of(jrender *r, jval v, jval slice)
{
    int64_t part[3] = { 0 }, start, stop;
    bool has[3];
    if (v.kind == V_UNDEFINED)
        return jfail_undefined(r, v);
    if (!is_sequence(v))
        return jfail(r, WEFT_EINVAL, "a slice of %s; expected a str or a list", jkind_name(v));
    for (int i = 0; i < 3; i++) {
        const jval p = slice.slice->part[i];
        has[i] = p.kind != V_NONE;
        if (has[i] && !jinteger(p, &part[i]))
            return jfail(r, WEFT_EINVAL, "a slice by %s; expected integers", jkind_name(p));
    }
    if (has[2] && part[2] == 0)
        return jfail(r, WEFT_EINVAL, "a slice with step 0; expected another");
    const int64_t step = has[2] ? part[2] : 1;
    const uint32_t count = jslice_bounds(part, has, (uint32_t)jlength(v).i, &start, &stop);
    if (v.kind == V_STR)
        return jsafe(slice_str(r, v, start, step, count), v.safe);
    if (v.kind == V_RANGE)
        return slice_range(r, v.range, start, stop, step, count);
    jlist *l = jlist_new(r, count);
    for (uint32_t i = 0; l && i < count; i++)
        l->item[i] = v.list->item[start + i * step];
    return jlist_value(r, l, v.kind);
}
