/* ops.c - operators on all kinds of values: numbers, strings that join and repeat, lists. */
#include "text/jinja/value.h"

#include <string.h>

static const jval failed = { .kind = V_FAIL };

static jval no_operator(jrender *r, char op, jval a, jval b)
{
    const char text[3] = { op == '^' ? '*' : op == '|' ? '/' : op, op == '^' ? '*' : '/', 0 };
    return jfail(r, WEFT_EINVAL, "%s %.*s %s; these have no such operation", jkind_name(a),
                 op == '^' || op == '|' ? 2 : 1, text, jkind_name(b));
}

jval jadd_str(jrender *r, jval a, jval b)
{
    const bool safe = a.safe || b.safe;
    const jstr *left = safe ? jescape(r, a) : a.s;
    const jstr *right = left && safe ? jescape(r, b) : b.s;
    if (!left || !right)
        return (jval){ .kind = V_FAIL };
    jbuild build;
    jbuild_begin(&build, r);
    jbuild_str(&build, left);
    jbuild_str(&build, right);
    return jsafe(jbuild_value(&build), safe);
}

static jval add_lists(jrender *r, jval a, jval b)
{
    jlist *l = jlist_new(r, (uint64_t)a.list->n + b.list->n);
    if (l && a.list->n)
        memcpy(l->item, a.list->item, a.list->n * sizeof(jval));
    if (l && b.list->n)
        memcpy(l->item + a.list->n, b.list->item, b.list->n * sizeof(jval));
    return jlist_value(r, l, a.kind);
}

static jval repeat(jrender *r, jval v, int64_t times)
{
    times = times < 0 ? 0 : times;
    if (v.kind == V_STR) {
        if (v.s->n && times > (int64_t)(JINJA_VALUES / v.s->n))
            return jfail(r, WEFT_ELIMIT, "a string of %u bytes, %lld times; values have %zu bytes",
                         v.s->n, (long long)times, JINJA_VALUES);
        jbuild b;
        jbuild_begin(&b, r);
        for (int64_t i = 0; i < times && v.s->n && jcost(r, 1); i++)
            jbuild_str(&b, v.s);
        return r->steps > 0 ? jsafe(jbuild_value(&b), v.safe) : (jval){ .kind = V_FAIL };
    }
    if (v.list->n && times > JINJA_RANGE)
        return jfail(r, WEFT_ELIMIT, "a list, %lld times; the limit is %d", (long long)times,
                     JINJA_RANGE);
    const uint64_t n = v.list->n ? v.list->n * (uint64_t)times : 0;
    jlist *l = jlist_new(r, n);
    for (uint64_t i = 0; l && i < n; i++)
        l->item[i] = v.list->item[i % v.list->n];
    return jlist_value(r, l, v.kind);
}

static bool repeats(jval v)
{
    return v.kind == V_STR || v.kind == V_LIST || v.kind == V_TUPLE;
}

jval jmath(jrender *r, char op, jval a, jval b)
{
    int64_t i, k;
    double f, g;
    if (op == '%' && a.kind == V_STR)
        return jformat_percent(r, a, b);
    if (op == '-' && a.kind == V_VIEW && a.view != 'v')
        return jfail(r, WEFT_EUNSUPPORTED, "a set, which a view of a dict gives; weft has none");
    if (a.kind == V_UNDEFINED || b.kind == V_UNDEFINED) {
        return jfail_undefined(r, a.kind == V_UNDEFINED ? a : b);
    }
    if (jinteger(a, &i) && jinteger(b, &k))
        return jint_math(r, op, i, k);
    if (jnumber(a, &f) && jnumber(b, &g))
        return jfloat_math(r, op, f, g);
    if (op == '+' && a.kind == V_STR && b.kind == V_STR)
        return jadd_str(r, a, b);
    if (op == '+' && a.kind == V_STR && a.safe)
        return jfail(r, WEFT_EINVAL, "markup + %s; expected a str", jkind_name(b));
    if (op == '+' && a.kind == b.kind && (a.kind == V_LIST || a.kind == V_TUPLE))
        return add_lists(r, a, b);
    if (op == '*' && repeats(a) && jinteger(b, &i))
        return repeat(r, a, i);
    if (op == '*' && repeats(b) && jinteger(a, &i))
        return repeat(r, b, i);
    return no_operator(r, op, a, b);
}

jval jnegate(jrender *r, jval v)
{
    int64_t i;
    if (v.kind == V_FLOAT)
        return jfloat(-v.f);
    if (!jinteger(v, &i))
        return jfail(r, WEFT_EINVAL, "minus %s; expected a number", jkind_name(v));
    return jint_math(r, '-', 0, i);
}

/* ---- comparisons ----------------------------------------------------------------------------- */

static jval contains(jrender *r, jval in, jval what)
{
    jiter it;
    bool equal;
    if (in.kind == V_STR) {
        if (what.kind != V_STR)
            return jfail(r, WEFT_EINVAL, "%s in a str; expected a str", jkind_name(what));
        return jcost_bytes(r, in.s->n) ? jbool(jstr_find(in.s, what.s, 0, in.s->n) != UINT32_MAX)
                                       : failed;
    }
    if (in.kind == V_DICT) {
        if (!jhashable(what))
            return jfail(r, WEFT_EINVAL, "%s in a dict; expected a key", jkind_name(what));
        const jval found = jdict_get(r, in.dict, what);
        return jbad(found) ? found : jbool(found.kind != V_MISSING);
    }
    if (!jiter_begin(r, &it, in))
        return failed;
    for (;;) {
        const jval item = jiter_next(r, &it);
        if (item.kind == V_MISSING)
            return jbool(false);
        if (jbad(item) || !jequal(r, item, what, &equal))
            return failed;
        if (equal)
            return jbool(true);
    }
}

jval jcompare_op(jrender *r, char op, jval a, jval b)
{
    bool equal;
    if (op == '=' || op == '!')
        return jequal(r, a, b, &equal) ? jbool(equal == (op == '=')) : failed;
    if (op == 'i' || op == 'n') {
        const jval in = contains(r, b, a);
        return jbad(in) ? in : jbool(in.b == (op == 'i'));
    }
    if (a.kind == V_UNDEFINED || b.kind == V_UNDEFINED)
        return jfail_undefined(r, a.kind == V_UNDEFINED ? a : b);
    const int order = jcompare(r, a, b);
    if (order == 2)
        return jfail(r, WEFT_EINVAL, "%s and %s are compared; they have no order", jkind_name(a),
                     jkind_name(b));
    if (order == 3)
        return failed;
    return jbool(order <= 1 && (op == '<'   ? order < 0
                                : op == '>' ? order > 0
                                : op == 'l' ? order <= 0
                                            : order >= 0));
}
