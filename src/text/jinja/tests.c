/* tests.c - the tests of `x is test`. */
#include "text/jinja/value.h"

#include <string.h>

static const jval failed = { .kind = V_FAIL };

/* A test without arguments. */
#define TEST(name, yes)                                                                            \
    static jval name(jrender *r, jval v, const jargs *a)                                           \
    {                                                                                              \
        return jbind(r, "a test", "", a, NULL) ? jbool(yes) : failed;                              \
    }
TEST(t_defined, v.kind != V_UNDEFINED)
TEST(t_undefined, v.kind == V_UNDEFINED)
TEST(t_none, v.kind == V_NONE)
TEST(t_boolean, v.kind == V_BOOL)
TEST(t_true, v.kind == V_BOOL && v.b)
TEST(t_false, v.kind == V_BOOL && !v.b)
TEST(t_integer, v.kind == V_INT)
TEST(t_float, v.kind == V_FLOAT)
TEST(t_number, v.kind == V_INT || v.kind == V_FLOAT || v.kind == V_BOOL)
TEST(t_string, v.kind == V_STR)
TEST(t_mapping, v.kind == V_DICT)
TEST(t_sequence, v.kind != V_VIEW && jlength(v).kind != V_MISSING)
TEST(t_iterable, jiterable(v) || v.kind == V_LOOP)
TEST(t_escaped, v.kind == V_STR && v.safe)
TEST(t_callable, v.kind == V_MACRO || v.kind == V_METHOD || v.kind == V_FUNCTION ||
                     v.kind == V_UNDEFINED || v.kind == V_LOOP)

static jval remainder_is(jrender *r, jval v, jval by, int64_t is)
{
    const jval rest = jmath(r, '%', v, by);
    bool equal;
    return !jbad(rest) && jequal(r, rest, jint(is), &equal) ? jbool(equal) : failed;
}
static jval t_odd(jrender *r, jval v, const jargs *a)
{
    return jbind(r, "odd", "", a, NULL) ? remainder_is(r, v, jint(2), 1) : failed;
}
static jval t_even(jrender *r, jval v, const jargs *a)
{
    return jbind(r, "even", "", a, NULL) ? remainder_is(r, v, jint(2), 0) : failed;
}
static jval t_divisibleby(jrender *r, jval v, const jargs *a)
{
    jval by;
    return jbind(r, "divisibleby", "num", a, &by) ? remainder_is(r, v, by, 0) : failed;
}

static jval has_case(jrender *r, jval v, const jargs *a, const char *method)
{
    const jmethod m = { jstr_value(jto_str(r, v)), method };
    return jbad(m.self) || !jbind(r, "a test", "", a, NULL) ? failed : jcall_method(r, &m, a);
}
static jval t_lower(jrender *r, jval v, const jargs *a)
{
    return has_case(r, v, a, "islower");
}
static jval t_upper(jrender *r, jval v, const jargs *a)
{
    return has_case(r, v, a, "isupper");
}

static jval t_sameas(jrender *r, jval v, const jargs *a)
{
    jval other;
    return jbind(r, "sameas", "other", a, &other) ? jbool(jsame(v, other)) : failed;
}

static jval t_filter(jrender *r, jval v, const jargs *a)
{
    if (!jbind(r, "filter", "", a, NULL))
        return failed;
    if (!jhashable(v))
        return jfail(r, WEFT_EINVAL, "filter: %s; expected a name", jkind_name(v));
    return jbool(v.kind == V_STR && r->find_filter(v.s->at, v.s->n));
}

static jval t_test(jrender *r, jval v, const jargs *a)
{
    if (!jbind(r, "test", "", a, NULL))
        return failed;
    if (!jhashable(v))
        return jfail(r, WEFT_EINVAL, "test: %s; expected a name", jkind_name(v));
    return jbool(v.kind == V_STR && jtest_find(v.s->at, v.s->n));
}

#define COMPARE(name, op)                                                                          \
    static jval name(jrender *r, jval v, const jargs *a)                                           \
    {                                                                                              \
        jval other;                                                                                \
        return jbind(r, "a comparison", "other /", a, &other) ? jcompare_op(r, op, v, other)       \
                                                              : failed;                            \
    }
COMPARE(t_eq, '=')
COMPARE(t_ne, '!')
COMPARE(t_lt, '<')
COMPARE(t_le, 'l')
COMPARE(t_gt, '>')
COMPARE(t_ge, 'g')

static jval t_in(jrender *r, jval v, const jargs *a)
{
    jval seq;
    return jbind(r, "in", "seq", a, &seq) ? jcompare_op(r, 'i', v, seq) : failed;
}

static const jfilter table[] = {
    { "boolean", t_boolean },
    { "callable", t_callable },
    { "defined", t_defined },
    { "divisibleby", t_divisibleby },
    { "eq", t_eq },
    { "equalto", t_eq },
    { "==", t_eq },
    { "escaped", t_escaped },
    { "even", t_even },
    { "false", t_false },
    { "filter", t_filter },
    { "float", t_float },
    { "ge", t_ge },
    { ">=", t_ge },
    { "gt", t_gt },
    { "greaterthan", t_gt },
    { ">", t_gt },
    { "in", t_in },
    { "integer", t_integer },
    { "iterable", t_iterable },
    { "le", t_le },
    { "<=", t_le },
    { "lessthan", t_lt },
    { "lt", t_lt },
    { "<", t_lt },
    { "lower", t_lower },
    { "mapping", t_mapping },
    { "ne", t_ne },
    { "!=", t_ne },
    { "none", t_none },
    { "number", t_number },
    { "odd", t_odd },
    { "sameas", t_sameas },
    { "sequence", t_sequence },
    { "string", t_string },
    { "test", t_test },
    { "true", t_true },
    { "undefined", t_undefined },
    { "upper", t_upper },
};

const jfilter *jtest_find(const char *name, size_t n)
{
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (strlen(table[i].name) == n && memcmp(table[i].name, name, n) == 0)
            return &table[i];
    return NULL;
}
