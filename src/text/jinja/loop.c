/* loop.c - the variable `loop`: where a loop stands, and a look at the next item. */
#include "text/jinja/eval.h"

#include <stdio.h>
#include <string.h>

static const jval failed = { .kind = V_FAIL };

jval jloop_next(jrender *r, jloop_state *l)
{
    const jval next = l->peeked ? l->after : jiter_next(r, &l->it);
    l->peeked = false;
    if (next.kind == V_MISSING || jbad(next))
        return next;
    l->index0++;
    l->before = l->now;
    l->now = next;
    return next;
}

static jval peek(jrender *r, jloop_state *l)
{
    if (!l->peeked) {
        l->after = jiter_next(r, &l->it);
        l->peeked = !jbad(l->after);
    }
    return l->after;
}

/* What has no length is read to its end. */
static jval length(jrender *r, jloop_state *l)
{
    const jval n = jlength(l->over);
    if (n.kind != V_MISSING)
        return n;
    const jval rest = jto_list(r, l->it.over, V_LIST);
    if (jbad(rest))
        return failed;
    l->it = (jiter){ .over = rest };
    const bool more = l->peeked && l->after.kind != V_MISSING;
    jlist *all = jlist_new(r, 0); /* remembers the length */
    if (!all)
        return failed;
    all->n = (uint32_t)(rest.list->n + l->index0 + 1 + more);
    l->over = (jval){ .kind = V_LIST, .list = all };
    return jint(all->n);
}

static jval from_length(jrender *r, jloop_state *l, int64_t less)
{
    const jval n = length(r, l);
    return jbad(n) ? n : jint(n.i - less);
}

static jval attribute(jrender *r, jloop *base, const jstr *name)
{
    jloop_state *l = (jloop_state *)base;
    static const char *const method[] = { "cycle", "changed" };
    if (jstr_is(name, "index0"))
        return jint(l->index0);
    if (jstr_is(name, "index"))
        return jint(l->index0 + 1);
    if (jstr_is(name, "first"))
        return jbool(l->index0 == 0);
    if (jstr_is(name, "last") || jstr_is(name, "nextitem")) {
        const jval next = peek(r, l);
        if (jbad(next))
            return next;
        if (name->n == 4)
            return jbool(next.kind == V_MISSING);
        return next.kind == V_MISSING ? jundefined(name) : next;
    }
    if (jstr_is(name, "previtem"))
        return l->index0 == 0 ? jundefined(name) : l->before;
    if (jstr_is(name, "length"))
        return from_length(r, l, 0);
    if (jstr_is(name, "revindex") || jstr_is(name, "revindex0"))
        return from_length(r, l, l->index0 + (name->n == 9));
    if (jstr_is(name, "depth") || jstr_is(name, "depth0"))
        return jint(name->n == 5);
    for (int i = 0; i < 2; i++)
        if (jstr_is(name, method[i])) {
            jmethod *m = jalloc(r, 1, sizeof *m);
            if (!m)
                return failed;
            *m = (jmethod){ { .kind = V_LOOP, .loop = base }, method[i] };
            return (jval){ .kind = V_METHOD, .method = m };
        }
    return jmissing();
}

static jval text(jrender *r, jloop *base)
{
    jloop_state *l = (jloop_state *)base;
    const jval n = length(r, l);
    char *to = jbad(n) ? NULL : jalloc(r, 64, 1);
    if (!to)
        return failed;
    snprintf(to, 64, "<LoopContext %lld/%lld>", (long long)l->index0 + 1, (long long)n.i);
    return jtext(r, to);
}

jval jloop_call(jrender *r, jloop_state *l, const char *name, const jargs *a)
{
    if (a->n_key)
        return jfail(r, WEFT_EINVAL, "loop.%s: an argument with a name; it has none", name);
    if (strcmp(name, "cycle") == 0) {
        if (a->n == 0)
            return jfail(r, WEFT_EINVAL, "loop.cycle without arguments; expected some");
        return a->arg[l->index0 % a->n];
    }
    jlist *now = jlist_new(r, a->n);
    if (now && a->n)
        memcpy(now->item, a->arg, a->n * sizeof(jval));
    const jval value = jlist_value(r, now, V_TUPLE);
    bool same = false;
    if (jbad(value) || (l->changed.kind == V_TUPLE && !jequal(r, value, l->changed, &same)))
        return failed;
    l->changed = value;
    return jbool(!same);
}

void jloop_begin(jloop_state *l, jiter it)
{
    *l = (jloop_state){ .base = { attribute, text }, .it = it, .over = it.over, .index0 = -1 };
    l->changed = jmissing();
}
