/* eval.c - expressions and assignments. */
#include "text/jinja/eval.h"

#include <string.h>

static const jval failed = { .kind = V_FAIL };

/* ---- variables ------------------------------------------------------------------------------- */

jframe *jframe_new(jeval *e, uint32_t n, jframe *outer)
{
    jframe *f = jalloc(&e->r, 1, sizeof *f + n * sizeof(jval));
    if (!f)
        return NULL;
    f->outer = outer;
    for (uint32_t i = 0; i < n; i++)
        f->slot[i] = jmissing();
    return f;
}

jval *jeval_slot(const jeval *e, jplace at)
{
    jframe *f = e->frame;
    for (int up = at.up; up > 0; up--)
        f = f->outer;
    return &f->slot[at.slot];
}

/* What the caller passed in, or a function. */
static jval resolve(const jeval *e, const jstr *name)
{
    const jval v = jdict_get_text(e->variables, name->at, name->n);
    if (v.kind != V_MISSING)
        return v;
    const jfunction *f = jfunction_find(name->at, name->n);
    return f ? (jval){ .kind = V_FUNCTION, .function = f } : jmissing();
}

bool jeval_enter(jeval *e, const jscope *s)
{
    for (uint32_t i = 0; i < s->n; i++) {
        const jload *l = &s->load[i];
        jval *to = jeval_slot(e, l->place);
        *to = l->kind == LOAD_RESOLVE ? resolve(e, l->name)
              : l->kind == LOAD_ALIAS ? *jeval_slot(e, l->from)
                                      : jmissing();
    }
    return jcost(&e->r, s->n / 2 + 1);
}

void jeval_leave(jeval *e, const jscope *s)
{
    for (uint32_t i = 0; i < s->n; i++)
        *jeval_slot(e, s->load[i].place) = jmissing();
}

bool jeval_deeper(jeval *e)
{
    if (++e->r.depth <= JINJA_RECURSION)
        return true;
    jfail(&e->r, WEFT_ELIMIT, "macros and values nested too deeply; use flatter ones");
    return false;
}

/* ---- assignments ----------------------------------------------------------------------------- */

static bool assign_attribute(jeval *e, const jnode *n, jval v)
{
    jval *space = jeval_slot(e, n->place);
    const jval name = n->kid[0]->value;
    e->r.where = n->at;
    if (space->kind != V_NAMESPACE) {
        jfail(&e->r, WEFT_EINVAL, "an attribute of %s is assigned; expected a namespace",
              jkind_name(*space));
        return false;
    }
    if (name.s->n && name.s->at[0] == '_') {
        jfail(&e->r, WEFT_EINVAL, "a namespace with an attribute that begins with _; rename it");
        return false;
    }
    return jdict_put(&e->r, space->dict, name, v);
}

static bool unpack(jeval *e, const jnode *target, jval v)
{
    jiter it;
    if (!jiter_begin(&e->r, &it, v))
        return false;
    for (uint32_t i = 0; i <= target->n; i++) {
        const jval item = jiter_next(&e->r, &it);
        if (jbad(item))
            return false;
        if ((item.kind == V_MISSING) != (i == target->n)) {
            e->r.where = target->at;
            jfail(&e->r, WEFT_EINVAL, "%s items to unpack; expected %u",
                  i == target->n ? "more" : "fewer", target->n);
            return false;
        }
        if (i < target->n && !jeval_assign(e, target->kid[i], item))
            return false;
    }
    return true;
}

bool jeval_assign(jeval *e, const jnode *target, jval v)
{
    if (target->kind == N_TUPLE)
        return unpack(e, target, v);
    if (target->kind == N_NSREF)
        return assign_attribute(e, target, v);
    *jeval_slot(e, target->place) = v;
    return true;
}

/* ---- calls ----------------------------------------------------------------------------------- */

static bool add_star(jeval *e, jargs *a, jval v)
{
    jiter it;
    if (!jiter_begin(&e->r, &it, v))
        return false;
    for (;;) {
        const jval item = jiter_next(&e->r, &it);
        if (item.kind == V_MISSING)
            return true;
        if (jbad(item) || !jargs_add(&e->r, a, item))
            return false;
    }
}

static bool add_stars(jeval *e, jargs *a, jval v)
{
    if (v.kind != V_DICT) {
        jfail(&e->r, WEFT_EINVAL, "** of %s; expected a dict", jkind_name(v));
        return false;
    }
    for (uint32_t i = 0; i < v.dict->n; i++) {
        const jpair *p = &v.dict->pair[i];
        if (p->key.kind != V_STR) {
            jfail(&e->r, WEFT_EINVAL, "** with a key that is no str");
            return false;
        }
        if (!jcost(&e->r, a->n_key / 8 + 1) || !jargs_name(&e->r, a, p->key.s, p->value))
            return false;
    }
    return true;
}

static bool add_argument(jeval *e, const jnode *n, jargs *a)
{
    const bool special = n->kind == N_KEYWORD || n->kind == N_STAR || n->kind == N_STARS;
    const jval v = jeval_node(e, special ? n->kid[0] : n);
    if (jbad(v))
        return false;
    if (!special)
        return jargs_add(&e->r, a, v);
    return n->kind == N_STAR    ? add_star(e, a, v)
           : n->kind == N_STARS ? add_stars(e, a, v)
                                : jargs_name(&e->r, a, n->name, v);
}

static bool arguments(jeval *e, const jnode *n, jargs *a)
{
    for (uint32_t i = 0; i < n->n; i++)
        if (!add_argument(e, n->kid[i], a))
            return false;
    e->r.where = n->at;
    return true;
}

static jval call_value(jeval *e, jval f, const jargs *a)
{
    switch (f.kind) {
    case V_MACRO:
        return e->call_macro(e, f.macro, a);
    case V_METHOD:
        if (f.method->self.kind == V_LOOP)
            return jloop_call(&e->r, (jloop_state *)f.method->self.loop, f.method->name, a);
        return jcall_method(&e->r, f.method, a);
    case V_FUNCTION:
        if (!f.function->run)
            return jfail(&e->r, WEFT_EUNSUPPORTED, "the function %s; weft does not have it",
                         f.function->name);
        return f.function->run(&e->r, a);
    case V_UNDEFINED:
        return jfail_undefined(&e->r, f);
    default:
        return jfail(&e->r, WEFT_EINVAL, "%s is called; expected a function", jkind_name(f));
    }
}

/* ---- postfixes ------------------------------------------------------------------------------- */

static jval apply(jeval *e, const jnode *n, jval v, const jargs *a)
{
    if (n->kind == N_CALL)
        return call_value(e, v, a);
    if (!n->what)
        return jfail(&e->r, WEFT_EINVAL, "no filter or test is called %.*s", (int)n->name->n,
                     n->name->at);
    const jval made = n->what->run(&e->r, v, a);
    return n->kind == N_TEST && n->flag && !jbad(made) ? jbool(!jtruth(made)) : made;
}

static jval step(jeval *e, const jnode *n, jval v)
{
    jargs a = { 0 };
    if (!jcost(&e->r, 1))
        return failed;
    if (n->kind == N_ATTRIBUTE) {
        e->r.where = n->at;
        return jattribute(&e->r, v, n->name);
    }
    if (n->kind == N_ITEM) {
        const jval key = jeval_node(e, n->kid[0]);
        e->r.where = n->at;
        if (jbad(key) || key.kind != V_SLICE)
            return jbad(key) ? key : jitem(&e->r, v, key);
        return n->flag && v.kind != V_UNDEFINED && !jcan_slice(v, key) ? jundefined(NULL)
                                                                       : jslice_of(&e->r, v, key);
    }
    return arguments(e, n, &a) ? apply(e, n, v, &a) : failed;
}

jval jeval_steps(jeval *e, const jnode *n, uint32_t first, jval v)
{
    for (uint32_t i = first; i < n->n && !jbad(v); i++)
        v = step(e, n->kid[i], v);
    return v;
}

/* ---- operators ------------------------------------------------------------------------------- */

static jval chain(jeval *e, const jnode *n)
{
    jval v = jeval_node(e, n->kid[0]);
    for (uint32_t i = 1; i < n->n && !jbad(v); i++) {
        const jval next = jeval_node(e, n->kid[i]);
        e->r.where = n->at;
        v = jbad(next) || !jcost(&e->r, 1) ? failed : jmath(&e->r, n->op[i - 1], v, next);
    }
    return v;
}

static jval concat(jeval *e, const jnode *n)
{
    jmany many = { 0 };
    for (uint32_t i = 0; i < n->n; i++) {
        const jval v = jeval_node(e, n->kid[i]);
        if (jbad(v) || !jmany_add(&e->r, &many, v))
            return failed;
    }
    jbuild b;
    jbuild_begin(&b, &e->r);
    for (uint32_t i = 0; i < many.n; i++)
        jput_str(&b, many.list->item[i]);
    return jbuild_value(&b);
}

static jval compare(jeval *e, const jnode *n)
{
    jval left = jeval_node(e, n->kid[0]), truth = failed;
    for (uint32_t i = 1; i < n->n && !jbad(left); i++) {
        const jval right = jeval_node(e, n->kid[i]);
        e->r.where = n->at;
        truth = jbad(right) || !jcost(&e->r, 1) ? failed
                                                : jcompare_op(&e->r, n->op[i - 1], left, right);
        if (jbad(truth) || !truth.b)
            break;
        left = right;
    }
    return jbad(left) ? left : truth;
}

/* The first that decides, or the last. */
static jval logic(jeval *e, const jnode *n)
{
    jval v = failed;
    for (uint32_t i = 0; i < n->n; i++) {
        v = jeval_node(e, n->kid[i]);
        if (jbad(v) || jtruth(v) == (n->kind == N_OR))
            break;
    }
    return v;
}

static jval condition(jeval *e, const jnode *n)
{
    const jval test = jeval_node(e, n->kid[0]);
    if (jbad(test))
        return test;
    if (jtruth(test))
        return jeval_node(e, n->kid[1]);
    return n->n > 2 ? jeval_node(e, n->kid[2]) : jundefined(NULL);
}

/* ---- literals -------------------------------------------------------------------------------- */

static jval list(jeval *e, const jnode *n)
{
    jlist *l = jlist_new(&e->r, n->n);
    for (uint32_t i = 0; l && i < n->n; i++) {
        l->item[i] = jeval_node(e, n->kid[i]);
        if (jbad(l->item[i]))
            return failed;
    }
    return jlist_value(&e->r, l, n->kind == N_LIST ? V_LIST : V_TUPLE);
}

static jval dict(jeval *e, const jnode *n)
{
    jdict *d = jdict_new(&e->r, n->n / 2);
    for (uint32_t i = 0; d && i < n->n; i += 2) {
        const jval key = jeval_node(e, n->kid[i]);
        const jval value = jbad(key) ? key : jeval_node(e, n->kid[i + 1]);
        if (jbad(value) || !jdict_put(&e->r, d, key, value))
            return failed;
    }
    return d ? (jval){ .kind = V_DICT, .dict = d } : failed;
}

static jval slice(jeval *e, const jnode *n)
{
    jslice *s = jalloc(&e->r, 1, sizeof *s);
    for (uint32_t i = 0; s && i < 3; i++) {
        s->part[i] = n->kid[i] ? jeval_node(e, n->kid[i]) : jnone();
        if (jbad(s->part[i]))
            return failed;
    }
    return s ? (jval){ .kind = V_SLICE, .slice = s } : failed;
}

static jval name(jeval *e, const jnode *n)
{
    const jval v = *jeval_slot(e, n->place);
    return v.kind == V_MISSING ? jundefined(n->name) : v;
}

static jval sign(jeval *e, const jnode *n)
{
    double f;
    int64_t i;
    const jval v = jeval_node(e, n->kid[0]);
    e->r.where = n->at;
    if (jbad(v))
        return v;
    if (v.kind == V_UNDEFINED)
        return jfail_undefined(&e->r, v);
    if (n->kind == N_NEGATIVE)
        return jnegate(&e->r, v);
    if (!jnumber(v, &f))
        return jfail(&e->r, WEFT_EINVAL, "plus %s; expected a number", jkind_name(v));
    return jinteger(v, &i) ? jint(i) : v;
}

static jval eval_kind(jeval *e, const jnode *n)
{
    jval v;
    switch (n->kind) {
    case N_TUPLE:
    case N_LIST:
        return list(e, n);
    case N_DICT:
        return dict(e, n);
    case N_COND:
        return condition(e, n);
    case N_NOT:
        v = jeval_node(e, n->kid[0]);
        return jbad(v) ? v : jbool(!jtruth(v));
    case N_AND:
    case N_OR:
        return logic(e, n);
    case N_COMPARE:
        return compare(e, n);
    case N_CHAIN:
        return chain(e, n);
    case N_CONCAT:
        return concat(e, n);
    case N_NEGATIVE:
    case N_POSITIVE:
        return sign(e, n);
    case N_SLICE:
        return slice(e, n);
    default: /* N_POSTFIX */
        v = jeval_node(e, n->kid[0]);
        return jeval_steps(e, n, 1, v);
    }
}

jval jeval_node(jeval *e, const jnode *n)
{
    if (!jcost(&e->r, 1))
        return failed;
    if (n->kind == N_CONST)
        return n->value;
    if (n->kind == N_NAME)
        return name(e, n);
    if (!jeval_deeper(e))
        return failed;
    const jval v = eval_kind(e, n);
    e->r.depth--;
    return v;
}
