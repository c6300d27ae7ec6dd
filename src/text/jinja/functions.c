/* functions.c - the functions that a template finds: range, dict, namespace, raise_exception,
 * strftime_now. */
#include "text/jinja/value.h"

#include <stdio.h>
#include <string.h>

static const jval failed = { .kind = V_FAIL };

static jval f_range(jrender *r, const jargs *a)
{
    jval arg[3];
    int64_t part[3] = { 0, 0, 1 };
    if (!jbind(r, "range", "start stop? step? /", a, arg))
        return failed;
    for (int i = 0; i < 3; i++)
        if (arg[i].kind != V_MISSING && !jinteger(arg[i], &part[i]))
            return jfail(r, WEFT_EINVAL, "range of %s; expected integers", jkind_name(arg[i]));
    const bool one = arg[1].kind == V_MISSING;
    const int64_t start = one ? 0 : part[0], stop = one ? part[0] : part[1], step = part[2];
    if (step == 0)
        return jfail(r, WEFT_EINVAL, "range with step 0; expected another");
    uint64_t n = 0;
    if (step > 0 ? start < stop : start > stop) {
        const uint64_t span = step > 0 ? (uint64_t)stop - (uint64_t)start
                                       : (uint64_t)start - (uint64_t)stop;
        n = (span - 1) / (step > 0 ? (uint64_t)step : -(uint64_t)step) + 1;
    }
    if (n > JINJA_RANGE)
        return jfail(r, WEFT_ELIMIT, "a range of %llu items; the limit is %d",
                     (unsigned long long)n, JINJA_RANGE);
    jrange *g = jalloc(r, 1, sizeof *g);
    if (!g)
        return failed;
    *g = (jrange){ start, stop, step, (uint32_t)n };
    return (jval){ .kind = V_RANGE, .range = g };
}

/* The pairs of a dict, or of a list of pairs. */
static bool put_all(jrender *r, jdict *d, jval from)
{
    jiter it;
    if (from.kind == V_DICT) {
        for (uint32_t i = 0; i < from.dict->n; i++)
            if (!jdict_put(r, d, from.dict->pair[i].key, from.dict->pair[i].value))
                return false;
        return true;
    }
    if (from.kind == V_UNDEFINED)
        jfail_undefined(r, from);
    if (from.kind == V_UNDEFINED || !jiter_begin(r, &it, from))
        return false;
    for (;;) {
        const jval item = jiter_next(r, &it);
        if (item.kind == V_MISSING)
            return true;
        const jval pair = jbad(item) ? item : jto_list(r, item, V_LIST);
        if (jbad(pair))
            return false;
        if (pair.list->n != 2) {
            jfail(r, WEFT_EINVAL, "dict from items of length %u; expected pairs", pair.list->n);
            return false;
        }
        if (!jdict_put(r, d, pair.list->item[0], pair.list->item[1]))
            return false;
    }
}

static jdict *build_dict(jrender *r, const jargs *a)
{
    jdict *d = jdict_new(r, a->n_key);
    if (!d)
        return NULL;
    if (a->n > 1) {
        jfail(r, WEFT_EINVAL, "dict or namespace: %u arguments; expected at most one", a->n);
        return NULL;
    }
    if (a->n == 1 && !put_all(r, d, a->arg[0]))
        return NULL;
    for (uint32_t i = 0; i < a->n_key; i++)
        if (!jdict_put(r, d, jstr_value(a->key[i]), a->named[i]))
            return NULL;
    return d;
}

static jval f_dict(jrender *r, const jargs *a)
{
    jdict *d = build_dict(r, a);
    return d ? (jval){ .kind = V_DICT, .dict = d } : failed;
}

static jval f_namespace(jrender *r, const jargs *a)
{
    jdict *d = build_dict(r, a);
    for (uint32_t i = 0; d && i < d->n; i++) {
        const jval key = d->pair[i].key;
        if (key.kind == V_STR && key.s->n && key.s->at[0] == '_')
            return jfail(r, WEFT_EINVAL,
                         "a namespace with an attribute that begins with _; rename it");
    }
    return d ? (jval){ .kind = V_NAMESPACE, .dict = d } : failed;
}

static jval f_raise(jrender *r, const jargs *a)
{
    jval arg[1];
    if (!jbind(r, "raise_exception", "message", a, arg))
        return failed;
    const jstr *s = jto_str(r, arg[0]);
    if (!s)
        return failed;
    return jfail(r, WEFT_EINVAL, "the template refuses: %.*s", (int)(s->n < 200 ? s->n : 200),
                 s->at);
}

/* Words of the C locale, whatever the host's is; NULL for a letter that stands for no word. */
static const char *time_word(const struct tm *t, char c, int *n)
{
    static const char *const day[] = { "Sunday",   "Monday", "Tuesday", "Wednesday",
                                       "Thursday", "Friday", "Saturday" };
    static const char *const month[] = { "January",   "February", "March",    "April",
                                         "May",       "June",     "July",     "August",
                                         "September", "October",  "November", "December" };
    const bool is_day = c == 'a' || c == 'A';
    *n = c == 'a' || c == 'b' || c == 'h' ? 3 : 9;
    if (is_day || c == 'b' || c == 'h' || c == 'B')
        return is_day ? day[(unsigned)t->tm_wday % 7] : month[(unsigned)t->tm_mon % 12];
    if (c == 'p')
        return t->tm_hour < 12 ? "AM" : "PM";
    return c == 'n' ? "\n" : c == 't' ? "\t" : c == '%' ? "%" : NULL;
}

static bool put_time(jbuild *b, const struct tm *t, char c)
{
    int most;
    const char *word = time_word(t, c, &most);
    char text[64] = "";
    if (word)
        snprintf(text, sizeof text, "%.*s", most, word);
    else if (c && strchr("deHIjmMSyYCDFRTuwklUWVGg", c)) { /* digits in every locale */
        const char form[] = { '%', c, 0 };
        if (!c || !strchr("deHIjmMSyYCDFRTuwklUWVGg", c))
            return false;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
        strftime(text, sizeof text, form, t);
#pragma GCC diagnostic pop
    } else
        return false;
    jbuild_text(b, text);
    return true;
}

static jval f_strftime(jrender *r, const jargs *a)
{
    jval arg[1];
    struct tm local;
    if (!jbind(r, "strftime_now", "format", a, arg))
        return failed;
    if (arg[0].kind != V_STR)
        return jfail(r, WEFT_EINVAL, "strftime_now: %s; expected a str", jkind_name(arg[0]));
    if (r->now)
        local = *r->now;
    else {
        const time_t now = time(NULL);
        localtime_r(&now, &local);
    }
    const jstr *s = arg[0].s;
    jbuild b;
    jbuild_begin(&b, r);
    for (uint32_t at = 0; at < s->n && !b.failed;) {
        const char *hit = memchr(s->at + at, '%', s->n - at);
        const uint32_t end = hit ? (uint32_t)(hit - s->at) : s->n;
        jbuild_part(&b, s, at, end);
        at = end + 2;
        if (hit && (end + 1 >= s->n || !put_time(&b, &local, hit[1])))
            return jfail(r, WEFT_EUNSUPPORTED, "strftime_now: a format that weft does not have");
    }
    return jbuild_value(&b);
}

static const jfunction table[] = {
    { "range", f_range },
    { "dict", f_dict },
    { "namespace", f_namespace },
    { "raise_exception", f_raise },
    { "strftime_now", f_strftime },
    { "lipsum", NULL },
    { "cycler", NULL },
    { "joiner", NULL },
};

const jfunction *jfunction_find(const char *name, size_t n)
{
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (strlen(table[i].name) == n && memcmp(table[i].name, name, n) == 0)
            return &table[i];
    return NULL;
}
