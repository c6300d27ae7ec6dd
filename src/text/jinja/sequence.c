/* sequence.c - filters that walk through a list: join, sort, map, select and their kin. map, select,
 * reject, unique and items are generators, as in jinja2: they do their work when somebody reads
 * them, and can be read once. */
#include "text/jinja/filters.h"

#include <string.h>

static const jval failed = { .kind = V_FAIL };

static bool is_set(jval v)
{
    return v.kind != V_MISSING && v.kind != V_NONE;
}

/* ---- attributes by path ---------------------------------------------------------------------- */

/* "a.b.0" of an item, with jinja2's x['a'] at each step. An undefined part is replaced by
 * `otherwise`, if that is set. */
static jval by_path(jrender *r, jval item, jval path, jval otherwise)
{
    if (!is_set(path))
        return item;
    if (path.kind != V_STR) {
        item = jitem(r, item, path);
        return item.kind == V_UNDEFINED && is_set(otherwise) ? otherwise : item;
    }
    const jstr *s = path.s;
    for (uint32_t at = 0; at <= s->n && !jbad(item);) {
        const char *dot = memchr(s->at + at, '.', s->n - at);
        const uint32_t end = dot ? (uint32_t)(dot - s->at) : s->n;
        int64_t number = 0;
        bool digits = end > at;
        for (uint32_t i = at; i < end; i++)
            digits = digits && s->at[i] >= '0' && s->at[i] <= '9';
        if (digits && !jint_parse(s->at + at, end - at, 10, &number))
            return jfail(r, WEFT_EUNSUPPORTED, "an integer beyond 64 bits; weft computes with 64");
        const jstr *part = digits ? NULL : jstr_slice(r, s, at, end);
        if (!digits && !part)
            return failed;
        item = jitem(r, item, digits ? jint(number) : jstr_value(part));
        if (item.kind == V_UNDEFINED && is_set(otherwise))
            item = otherwise;
        at = end + 1;
    }
    return item;
}

static jval key_of(jrender *r, jval item, jval path, bool fold)
{
    const jval v = by_path(r, item, path, jmissing());
    if (!fold || v.kind != V_STR)
        return v;
    return jstr_value(jstr_case(r, v.s, CASE_LOWER));
}

/* ---- generators ------------------------------------------------------------------------------ */

typedef enum task { TASK_MAP, TASK_SELECT, TASK_UNIQUE, TASK_ITEMS, TASK_REVERSE } task;

typedef struct lazy {
    jgen gen;
    task what;
    jval over;
    jiter from;
    jargs a;
    bool keep;      /* select, not reject */
    bool attribute; /* selectattr */
    bool fold;
    jval path, otherwise;
    const jfilter *call; /* filter or test; NULL: the attribute, or the truth */
    jargs rest;          /* its arguments */
    jmany seen;
    uint32_t left;
} lazy;

static jval new_lazy(jrender *r, task what, jval over, const jargs *a, lazy **to);

/* The arguments of a filter or test that is called by name: those after the first n. */
static jargs after(const jargs *a, uint32_t n)
{
    jargs rest = *a;
    rest.arg += n;
    rest.n -= n;
    return rest;
}

static bool filter_named(jrender *r, lazy *g, jval name, bool test)
{
    const jfilter *f = NULL;
    if (name.kind == V_STR)
        f = test ? jtest_find(name.s->at, name.s->n) : r->find_filter(name.s->at, name.s->n);
    if (!f)
        jfail(r, WEFT_EINVAL, "no filter or test has the name that is given");
    else if (!f->run)
        jfail(r, WEFT_EUNSUPPORTED, "the filter %s; weft does not have it", f->name);
    g->call = f;
    return f && f->run;
}

static bool begin_map(jrender *r, lazy *g)
{
    const jargs *a = &g->a;
    if (a->n > 0) {
        g->rest = after(a, 1);
        return filter_named(r, g, a->arg[0], false);
    }
    bool found = false;
    for (uint32_t i = 0; i < a->n_key; i++) {
        if (jstr_is(a->key[i], "attribute")) {
            g->path = a->named[i];
            found = true;
        } else if (jstr_is(a->key[i], "default"))
            g->otherwise = a->named[i];
        else {
            jfail(r, WEFT_EINVAL, "map: an argument that it does not have");
            return false;
        }
    }
    if (!found)
        jfail(r, WEFT_EINVAL, "map without a filter or attribute; expected one");
    return found;
}

static bool begin_select(jrender *r, lazy *g)
{
    const uint32_t first = g->attribute;
    if (g->a.n < first) {
        jfail(r, WEFT_EINVAL, "selectattr or rejectattr without an attribute; expected one");
        return false;
    }
    if (g->attribute)
        g->path = g->a.arg[0];
    if (g->a.n <= first)
        return true;
    g->rest = after(&g->a, first + 1);
    return filter_named(r, g, g->a.arg[first], true);
}

static bool begin_lazy(jrender *r, lazy *g)
{
    const bool empty = (g->what == TASK_MAP || g->what == TASK_SELECT) && !jtruth(g->over);
    g->gen.begun = true;
    if (empty) {
        g->over = jundefined(NULL);
        return jiter_begin(r, &g->from, g->over);
    }
    if (g->what == TASK_ITEMS && g->over.kind != V_DICT && g->over.kind != V_UNDEFINED) {
        jfail(r, WEFT_EINVAL, "items of %s; expected a dict", jkind_name(g->over));
        return false;
    }
    if (g->what == TASK_ITEMS && g->over.kind == V_DICT)
        g->over = (jval){ .kind = V_VIEW, .view = 'i', .dict = g->over.dict };
    if ((g->what == TASK_MAP && !begin_map(r, g)) ||
        (g->what == TASK_SELECT && !begin_select(r, g)))
        return false;
    return jiter_begin(r, &g->from, g->over);
}

static bool is_new(jrender *r, lazy *g, jval key, bool *new)
{
    if (!jhashable(key)) {
        jfail(r, WEFT_EINVAL, "unique: %s; expected values that never change", jkind_name(key));
        return false;
    }
    *new = false;
    if (!jcost(r, g->seen.n / 4 + 1))
        return false;
    for (uint32_t i = 0; i < g->seen.n; i++) {
        bool equal;
        if (!jequal(r, g->seen.list->item[i], key, &equal))
            return false;
        if (equal)
            return true;
    }
    *new = true;
    return jmany_add(r, &g->seen, key);
}

/* Does the item go on? */
static bool passes(jrender *r, lazy *g, jval item, bool *yes)
{
    if (g->what == TASK_UNIQUE) {
        const jval key = key_of(r, item, g->path, g->fold);
        return !jbad(key) && is_new(r, g, key, yes);
    }
    *yes = true;
    if (g->what != TASK_SELECT)
        return true;
    jval v = by_path(r, item, g->path, jmissing());
    if (!jbad(v) && g->call)
        v = g->call->run(r, v, &g->rest);
    *yes = jtruth(v) == g->keep;
    return !jbad(v);
}

static jval next_lazy(jrender *r, jgen *gen)
{
    lazy *g = (lazy *)gen;
    if (g->what == TASK_REVERSE)
        return g->left ? jitem(r, g->over, jint(--g->left)) : jmissing();
    if (!gen->begun && !begin_lazy(r, g))
        return failed;
    for (;;) {
        const jval item = jiter_next(r, &g->from);
        bool yes = false;
        if (jbad(item) || item.kind == V_MISSING)
            return item;
        if (!passes(r, g, item, &yes))
            return failed;
        if (!yes)
            continue;
        if (g->what != TASK_MAP)
            return item;
        return g->call ? g->call->run(r, item, &g->rest) : by_path(r, item, g->path, g->otherwise);
    }
}

static jval new_lazy(jrender *r, task what, jval over, const jargs *a, lazy **to)
{
    lazy *g = jalloc(r, 1, sizeof *g);
    if (!g)
        return failed;
    *g = (lazy){ .gen = { .next = next_lazy }, .what = what, .over = over, .a = *a };
    g->path = g->otherwise = jmissing();
    *to = g;
    return (jval){ .kind = V_GENERATOR, .gen = &g->gen };
}

jval jfilter_map(jrender *r, jval v, const jargs *a)
{
    lazy *g;
    return new_lazy(r, TASK_MAP, v, a, &g);
}

static jval select_of(jrender *r, jval v, const jargs *a, bool keep, bool attribute)
{
    lazy *g;
    const jval made = new_lazy(r, TASK_SELECT, v, a, &g);
    if (!jbad(made)) {
        g->keep = keep;
        g->attribute = attribute;
    }
    return made;
}
jval jfilter_select(jrender *r, jval v, const jargs *a)
{
    return select_of(r, v, a, true, false);
}
jval jfilter_reject(jrender *r, jval v, const jargs *a)
{
    return select_of(r, v, a, false, false);
}
jval jfilter_selectattr(jrender *r, jval v, const jargs *a)
{
    return select_of(r, v, a, true, true);
}
jval jfilter_rejectattr(jrender *r, jval v, const jargs *a)
{
    return select_of(r, v, a, false, true);
}

jval jfilter_unique(jrender *r, jval v, const jargs *a)
{
    lazy *g;
    jval arg[2];
    if (!jbind(r, "unique", "case_sensitive? attribute?", a, arg))
        return failed;
    const jval made = new_lazy(r, TASK_UNIQUE, v, a, &g);
    if (!jbad(made)) {
        g->fold = arg[0].kind == V_MISSING || !jtruth(arg[0]);
        g->path = arg[1];
    }
    return made;
}

jval jfilter_items(jrender *r, jval v, const jargs *a)
{
    lazy *g;
    return jbind(r, "items", "", a, NULL) ? new_lazy(r, TASK_ITEMS, v, a, &g) : failed;
}

jval jfilter_reverse(jrender *r, jval v, const jargs *a)
{
    lazy *g;
    if (!jbind(r, "reverse", "", a, NULL))
        return failed;
    if (v.kind == V_STR) {
        const jslice back = { { jnone(), jnone(), jint(-1) } };
        return jslice_of(r, v, (jval){ .kind = V_SLICE, .slice = &back });
    }
    const bool direct = v.kind == V_LIST || v.kind == V_TUPLE || v.kind == V_RANGE;
    const jval list = direct ? v : jto_list(r, v, V_LIST);
    if (jbad(list))
        return failed;
    if (v.kind == V_GENERATOR) { /* no iterator but a list, in jinja2 as well */
        jlist *l = jlist_new(r, list.list->n);
        for (uint32_t i = 0; l && i < l->n; i++)
            l->item[i] = list.list->item[l->n - 1 - i];
        return jlist_value(r, l, V_LIST);
    }
    const jval made = new_lazy(r, TASK_REVERSE, list, a, &g);
    if (!jbad(made))
        g->left = (uint32_t)jlength(list).i;
    return made;
}

/* ---- ends, join, sum ------------------------------------------------------------------------- */

jval jfilter_list(jrender *r, jval v, const jargs *a)
{
    return jbind(r, "list", "", a, NULL) ? jto_list(r, v, V_LIST) : failed;
}

jval jfilter_first(jrender *r, jval v, const jargs *a)
{
    jiter it;
    if (!jbind(r, "first", "", a, NULL) || !jiter_begin(r, &it, v))
        return failed;
    const jval item = jiter_next(r, &it);
    return item.kind == V_MISSING ? jundefined(NULL) : item;
}

jval jfilter_last(jrender *r, jval v, const jargs *a)
{
    if (!jbind(r, "last", "", a, NULL))
        return failed;
    if (v.kind == V_GENERATOR)
        return jfail(r, WEFT_EINVAL, "last of a generator; use list before it");
    const jval list = v.kind == V_STR || v.kind == V_LIST || v.kind == V_TUPLE || v.kind == V_RANGE
                          ? v
                          : jto_list(r, v, V_LIST);
    if (jbad(list))
        return failed;
    return jitem(r, list, jint(-1));
}

jval jfilter_join(jrender *r, jval v, const jargs *a)
{
    jval arg[2];
    jiter it;
    jbuild b;
    if (!jbind(r, "join", "d? attribute?", a, arg) || !jiter_begin(r, &it, v))
        return failed;
    const jstr *d = arg[0].kind == V_MISSING ? NULL : jto_str(r, arg[0]);
    if (arg[0].kind != V_MISSING && !d)
        return failed;
    jbuild_begin(&b, r);
    for (bool first = true; !b.failed; first = false) {
        const jval item = jiter_next(r, &it);
        if (item.kind == V_MISSING)
            break;
        const jval part = jbad(item) ? item : by_path(r, item, arg[1], jmissing());
        if (jbad(part))
            return failed;
        if (!first && d)
            jbuild_str(&b, d);
        jput_str(&b, part);
    }
    return jbuild_value(&b);
}

jval jfilter_sum(jrender *r, jval v, const jargs *a)
{
    jval arg[2];
    jiter it;
    if (!jbind(r, "sum", "attribute? start?", a, arg) || !jiter_begin(r, &it, v))
        return failed;
    jval total = arg[1].kind == V_MISSING ? jint(0) : arg[1];
    if (total.kind == V_STR)
        return jfail(r, WEFT_EINVAL, "sum of str; use join");
    while (!jbad(total)) {
        const jval item = jiter_next(r, &it);
        if (item.kind == V_MISSING)
            return total;
        const jval part = jbad(item) ? item : by_path(r, item, arg[0], jmissing());
        total = jbad(part) ? part : jmath(r, '+', total, part);
    }
    return failed;
}

/* ---- order ----------------------------------------------------------------------------------- */

typedef struct keyed {
    jval key, item;
} keyed;

/* Is a before b? */
static bool before(jrender *r, const keyed *a, const keyed *b, bool reverse, bool *yes)
{
    const jval less = jcost(r, 1) ? jcompare_op(r, reverse ? '>' : '<', a->key, b->key) : failed;
    *yes = less.b;
    return !jbad(less);
}

/* Merges the runs [low, middle) and [middle, high) of `from` into `to`; equal ones keep their
 * order. */
static bool merge(jrender *r, const keyed *from, keyed *to, uint32_t low, uint32_t middle,
                  uint32_t high, bool reverse)
{
    uint32_t i = low, k = middle;
    for (uint32_t at = low; at < high; at++) {
        bool right = i == middle;
        if (!right && k < high && !before(r, &from[k], &from[i], reverse, &right))
            return false;
        to[at] = right ? from[k++] : from[i++];
    }
    return true;
}

static jval sorted(jrender *r, keyed *x, uint32_t n, bool reverse)
{
    keyed *spare = jalloc(r, n ? n : 1, sizeof *spare);
    if (!spare)
        return failed;
    for (uint32_t width = 1; width < n; width *= 2) {
        for (uint32_t low = 0; low < n; low += 2 * width) {
            const uint32_t middle = low + width < n ? low + width : n;
            const uint32_t high = low + 2 * width < n ? low + 2 * width : n;
            if (!merge(r, x, spare, low, middle, high, reverse))
                return failed;
        }
        keyed *swap = x;
        x = spare;
        spare = swap;
    }
    jlist *l = jlist_new(r, n);
    for (uint32_t i = 0; l && i < n; i++)
        l->item[i] = x[i].item;
    return jlist_value(r, l, V_LIST);
}

/* Python's sorted wants a number here. */
static bool wants_reverse(jrender *r, jval v, bool *reverse)
{
    int64_t i = 0;
    if (v.kind != V_MISSING && !jinteger(v, &i)) {
        jfail(r, WEFT_EINVAL, "sort: reverse is %s; expected a bool", jkind_name(v));
        return false;
    }
    *reverse = i != 0;
    return true;
}

/* The key of `sort`: a list with a value for each attribute between commas. */
static jval sort_key(jrender *r, jval item, jval paths, bool fold)
{
    jmany many = { 0 };
    if (paths.kind != V_STR) {
        const jval key = key_of(r, item, paths, fold);
        return !jbad(key) && jmany_add(r, &many, key) ? jmany_end(r, &many, V_LIST) : failed;
    }
    const jmethod split = { paths, "split" };
    jval comma = jtext(r, ",");
    const jargs by = { .n = 1, .arg = &comma };
    const jval list = jbad(comma) ? comma : jcall_method(r, &split, &by);
    for (uint32_t i = 0; !jbad(list) && i < list.list->n; i++) {
        const jval key = key_of(r, item, list.list->item[i], fold);
        if (jbad(key) || !jmany_add(r, &many, key))
            return failed;
    }
    return jbad(list) ? list : jmany_end(r, &many, V_LIST);
}

jval jfilter_sort(jrender *r, jval v, const jargs *a)
{
    jval arg[3];
    bool reverse;
    if (!jbind(r, "sort", "reverse? case_sensitive? attribute?", a, arg) ||
        !wants_reverse(r, arg[0], &reverse))
        return failed;
    const jval list = jto_list(r, v, V_LIST);
    const bool fold = arg[1].kind == V_MISSING || !jtruth(arg[1]);
    keyed *x = jbad(list) ? NULL : jalloc(r, list.list->n + 1u, sizeof *x);
    for (uint32_t i = 0; x && i < list.list->n; i++) {
        const jval item = list.list->item[i];
        x[i] = (keyed){ sort_key(r, item, arg[2], fold), item };
        if (jbad(x[i].key))
            return failed;
    }
    return x ? sorted(r, x, list.list->n, reverse) : failed;
}

jval jfilter_dictsort(jrender *r, jval v, const jargs *a)
{
    jval arg[3];
    bool reverse;
    if (!jbind(r, "dictsort", "case_sensitive? by? reverse?", a, arg) ||
        !wants_reverse(r, arg[2], &reverse))
        return failed;
    if (v.kind != V_DICT)
        return jfail(r, WEFT_EINVAL, "dictsort of %s; expected a dict", jkind_name(v));
    const bool fold = arg[0].kind == V_MISSING || !jtruth(arg[0]);
    const bool by_value = arg[1].kind == V_STR && jstr_is(arg[1].s, "value");
    if (arg[1].kind != V_MISSING && !by_value &&
        !(arg[1].kind == V_STR && jstr_is(arg[1].s, "key")))
        return jfail(r, WEFT_EINVAL, "dictsort by something else than key or value");
    keyed *x = jalloc(r, v.dict->n + 1u, sizeof *x);
    for (uint32_t i = 0; x && i < v.dict->n; i++) {
        const jpair *p = &v.dict->pair[i];
        x[i] = (keyed){ key_of(r, by_value ? p->value : p->key, jmissing(), fold),
                        jpair_value(r, p->key, p->value) };
        if (jbad(x[i].key) || jbad(x[i].item))
            return failed;
    }
    return x ? sorted(r, x, v.dict->n, reverse) : failed;
}

static jval extreme(jrender *r, jval v, const jargs *a, char op)
{
    jval arg[2], best = jundefined(NULL), best_key = failed;
    jiter it;
    if (!jbind(r, "min or max", "case_sensitive? attribute?", a, arg) || !jiter_begin(r, &it, v))
        return failed;
    const bool fold = arg[0].kind == V_MISSING || !jtruth(arg[0]);
    for (bool first = true;; first = false) {
        const jval item = jiter_next(r, &it);
        if (item.kind == V_MISSING)
            return best;
        const jval key = jbad(item) ? item : key_of(r, item, arg[1], fold);
        const jval wins = jbad(key) ? key : first ? jbool(true) : jcompare_op(r, op, key, best_key);
        if (jbad(wins))
            return failed;
        best = wins.b ? item : best;
        best_key = wins.b ? key : best_key;
    }
}
jval jfilter_min(jrender *r, jval v, const jargs *a)
{
    return extreme(r, v, a, '<');
}
jval jfilter_max(jrender *r, jval v, const jargs *a)
{
    return extreme(r, v, a, '>');
}
