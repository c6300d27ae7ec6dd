/* iter.c - walking through values, and arguments of calls finding their parameters. */
#include "text/jinja/value.h"

#include <string.h>

bool jiterable(jval v)
{
    switch (v.kind) {
    case V_UNDEFINED:
    case V_STR:
    case V_LIST:
    case V_TUPLE:
    case V_DICT:
    case V_VIEW:
    case V_RANGE:
    case V_GENERATOR:
        return true;
    default:
        return false;
    }
}

bool jiter_begin(jrender *r, jiter *it, jval v)
{
    *it = (jiter){ .over = v };
    if (jiterable(v))
        return true;
    jfail(r, WEFT_EINVAL, "%s cannot be walked through; expected a list, a dict or a str",
          jkind_name(v));
    return false;
}

static jval next_pair(jrender *r, jval over, const jpair *p)
{
    if (over.kind == V_DICT || over.view == 'k')
        return p->key;
    return over.view == 'v' ? p->value : jpair_value(r, p->key, p->value);
}

jval jiter_next(jrender *r, jiter *it)
{
    const jval v = it->over;
    uint32_t c;
    if (!jcost(r, 1))
        return (jval){ .kind = V_FAIL };
    switch (v.kind) {
    case V_STR: {
        if (it->at >= v.s->n)
            return jmissing();
        const uint32_t n = jstr_point(v.s, it->at, &c), begin = it->at;
        it->at += n ? n : 1;
        return jstr_value(jstr_slice(r, v.s, begin, it->at));
    }
    case V_LIST:
    case V_TUPLE:
        return it->at < v.list->n ? v.list->item[it->at++] : jmissing();
    case V_DICT:
    case V_VIEW:
        return it->at < v.dict->n ? next_pair(r, v, &v.dict->pair[it->at++]) : jmissing();
    case V_RANGE:
        if (it->at >= v.range->n)
            return jmissing();
        return jint(v.range->start + v.range->step * (int64_t)it->at++);
    case V_GENERATOR: {
        if (v.gen->done)
            return jmissing();
        if (r->depth >= JINJA_RECURSION)
            return jfail(r, WEFT_ELIMIT, "generators nested too deeply; use list between them");
        r->depth++;
        const jval next = v.gen->next(r, v.gen);
        r->depth--;
        v.gen->done = next.kind == V_MISSING;
        return next;
    }
    default: /* undefined has no items */
        return jmissing();
    }
}

jval jto_list(jrender *r, jval v, jkind kind)
{
    jiter it;
    jmany many = { 0 };
    if (!jiter_begin(r, &it, v))
        return (jval){ .kind = V_FAIL };
    for (;;) {
        const jval item = jiter_next(r, &it);
        if (jbad(item))
            return item;
        if (item.kind == V_MISSING)
            return jmany_end(r, &many, kind);
        if (!jmany_add(r, &many, item))
            return (jval){ .kind = V_FAIL };
    }
}

/* ---- arguments ------------------------------------------------------------------------------- */

bool jargs_add(jrender *r, jargs *a, jval v)
{
    if (a->n == a->room) {
        const uint32_t room = a->room ? 2 * a->room : 4;
        jval *more = jalloc(r, room, sizeof *more);
        if (!more)
            return false;
        if (a->n)
            memcpy(more, a->arg, a->n * sizeof *more);
        a->arg = more;
        a->room = room;
    }
    a->arg[a->n++] = v;
    return true;
}

bool jargs_name(jrender *r, jargs *a, const jstr *key, jval v)
{
    for (uint32_t i = 0; i < a->n_key; i++)
        if (jstr_same(a->key[i], key)) {
            jfail(r, WEFT_EINVAL, "the argument %.*s is given twice; expected one", (int)key->n,
                  key->at);
            return false;
        }
    if (a->n_key == a->room_key) {
        const uint32_t room = a->room_key ? 2 * a->room_key : 4;
        const jstr **keys = jalloc(r, room, sizeof *keys);
        jval *named = keys ? jalloc(r, room, sizeof *named) : NULL;
        if (!named)
            return false;
        if (a->n_key) {
            memcpy(keys, a->key, a->n_key * sizeof *keys);
            memcpy(named, a->named, a->n_key * sizeof *named);
        }
        a->key = keys;
        a->named = named;
        a->room_key = room;
    }
    a->key[a->n_key] = key;
    a->named[a->n_key++] = v;
    return true;
}

/* One word of the list of parameters. */
typedef struct parameter {
    const char *name;
    size_t n;
    bool optional, nameless;
} parameter;

static int split_names(const char *names, parameter p[8])
{
    int n = 0;
    while (*names) {
        const size_t length = strcspn(names, " ");
        if (*names == '/') {
            for (int i = 0; i < n; i++)
                p[i].nameless = true;
        } else if (n < 8) {
            const bool optional = names[length - 1] == '?';
            p[n++] = (parameter){ names, length - optional, optional, false };
        }
        names += length;
        names += *names == ' ';
    }
    return n;
}

static bool jbind_name(jrender *r, const char *what, const parameter *p, int n, const jstr *key,
                       jval v, jval *to)
{
    for (int k = 0; k < n; k++)
        if (!p[k].nameless && p[k].n == key->n && memcmp(p[k].name, key->at, key->n) == 0) {
            if (to[k].kind != V_MISSING)
                break;
            to[k] = v;
            return true;
        }
    jfail(r, WEFT_EINVAL, "%s: argument %.*s; it has none of that name, or has it already", what,
          (int)(key->n < 60 ? key->n : 60), key->at);
    return false;
}

bool jbind(jrender *r, const char *what, const char *names, const jargs *a, jval *to)
{
    parameter p[8];
    const int n = split_names(names, p);
    for (int i = 0; i < n; i++)
        to[i] = jmissing();
    if (a->n > (uint32_t)n) {
        jfail(r, WEFT_EINVAL, "%s: %u arguments; expected at most %d", what, a->n, n);
        return false;
    }
    for (uint32_t i = 0; i < a->n; i++)
        to[i] = a->arg[i];
    for (uint32_t i = 0; i < a->n_key; i++)
        if (!jbind_name(r, what, p, n, a->key[i], a->named[i], to))
            return false;
    for (int i = 0; i < n; i++)
        if (to[i].kind == V_MISSING && !p[i].optional) {
            jfail(r, WEFT_EINVAL, "%s: argument %.*s is missing", what, (int)p[i].n, p[i].name);
            return false;
        }
    return true;
}
