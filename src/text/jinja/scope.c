/* scope.c - which variable a name means, decided before anything runs, by jinja2's rules.
 *
 * A scope is the template, the body of a loop, a macro, a set or filter block. In each, a name that
 * is assigned anywhere is a variable of that scope, which begins as a copy of the outer one; a name
 * that is only read is the outer variable, or else a value that the caller passed in. `if` is no
 * scope. A macro reads outer variables as they are when it runs. */
#include "text/jinja/tree.h"

#include <string.h>

#define MOST_VARIABLES 500 /* of one scope or function */

typedef struct entry entry;
struct entry {
    entry *next;
    const jstr *name;
    uint16_t slot;
    uint8_t kind; /* jload_kind */
    jplace from;
    uint32_t stored; /* when it was first assigned; 0: never */
};

/* A frame at run time: the variables of a function and of all scopes inside it. */
typedef struct function {
    struct function *outer;
    struct slot {
        struct slot *next;
        const jstr *name;
        int level;
        uint16_t at;
    } * slot;
    uint32_t n;
} function;

typedef struct symbols {
    struct symbols *outer;
    function *fn;
    int level;
    entry *first, **last;
    uint32_t n;
} symbols;

typedef struct resolver {
    jrender *r;
    uint32_t clock;
    bool failed;
} resolver;

/* Where an expression or a statement stands. */
typedef struct spot {
    bool loop; /* inside a loop of this function */
    bool soft; /* inside `if`: an unknown filter is no error yet */
} spot;

static void fail(resolver *v, const jnode *n, const char *text, const jstr *name)
{
    if (!v->failed) {
        v->r->where = n ? n->at : 0;
        jfail(v->r, WEFT_EFORMAT, "%s%.*s", text, (int)(name ? name->n < 60 ? name->n : 60 : 0),
              name ? name->at : "");
    }
    v->failed = true;
}

/* ---- tables ---------------------------------------------------------------------------------- */

static entry *find_here(resolver *v, const symbols *s, const jstr *name)
{
    if (!jcost(v->r, s->n / 8 + 1)) {
        v->failed = true;
        return NULL;
    }
    for (entry *e = s->first; e; e = e->next)
        if (jstr_same(e->name, name))
            return e;
    return NULL;
}

/* The variable that a name means here, as seen from function `fn`. */
static bool find(resolver *v, const symbols *s, const function *fn, const jstr *name, jplace *to)
{
    for (; s && !v->failed; s = s->outer) {
        const entry *e = find_here(v, s, name);
        if (!e)
            continue;
        uint16_t up = 0;
        for (const function *f = fn; f != s->fn; f = f->outer)
            up++;
        *to = (jplace){ up, e->slot };
        return true;
    }
    return false;
}

static uint16_t slot_of(resolver *v, function *fn, int level, const jstr *name)
{
    if (!jcost(v->r, fn->n / 8 + 1)) {
        v->failed = true;
        return 0;
    }
    for (const struct slot *at = fn->slot; at; at = at->next)
        if (at->level == level && jstr_same(at->name, name))
            return at->at;
    struct slot *more = fn->n < MOST_VARIABLES ? jalloc(v->r, 1, sizeof *more) : NULL;
    if (fn->n == MOST_VARIABLES)
        fail(v, NULL, "more than 500 variables in one template or macro; use fewer", NULL);
    v->failed = v->failed || !more;
    if (!more)
        return 0;
    *more = (struct slot){ fn->slot, name, level, (uint16_t)fn->n };
    fn->slot = more;
    return (uint16_t)fn->n++;
}

static entry *define(resolver *v, symbols *s, const jstr *name, jload_kind kind)
{
    entry *e = v->failed ? NULL : find_here(v, s, name);
    if (!e && !v->failed) {
        e = jalloc(v->r, 1, sizeof *e);
        v->failed = !e;
        if (!e)
            return NULL;
        *e = (entry){ .name = name, .slot = slot_of(v, s->fn, s->level, name) };
        *s->last = e;
        s->last = &e->next;
        s->n++;
    }
    if (e)
        e->kind = (uint8_t)kind;
    return e;
}

static void load(resolver *v, symbols *s, const jstr *name)
{
    jplace place;
    if (!find(v, s, s->fn, name, &place) && !v->failed)
        define(v, s, name, LOAD_RESOLVE);
}

static void alias_or(resolver *v, symbols *s, entry *e, jload_kind otherwise)
{
    const bool outer = s->outer && find(v, s->outer, s->fn, e->name, &e->from);
    e->kind = (uint8_t)(outer ? LOAD_ALIAS : otherwise);
}

static void store(resolver *v, symbols *s, const jstr *name)
{
    entry *e = find_here(v, s, name);
    if (!e && !v->failed) {
        e = define(v, s, name, LOAD_MISSING);
        if (e)
            alias_or(v, s, e, LOAD_MISSING);
    }
    if (e && !e->stored)
        e->stored = ++v->clock;
}

static void parameter(resolver *v, symbols *s, const jstr *name)
{
    entry *e = define(v, s, name, LOAD_PARAMETER);
    if (e && !e->stored)
        e->stored = ++v->clock;
}

/* ---- first walk: what a scope reads and assigns ---------------------------------------------- */

static void read_names(resolver *v, symbols *s, const jnode *n)
{
    if (!n || v->failed)
        return;
    if (n->kind == N_NAME)
        load(v, s, n->name);
    for (uint32_t i = 0; i < n->n; i++)
        read_names(v, s, n->kid[i]);
}

static void assign_names(resolver *v, symbols *s, const jnode *n, bool as_parameters)
{
    if (v->failed)
        return;
    if (n->kind == N_NSREF)
        load(v, s, n->name);
    else if (n->kind == N_NAME && as_parameters)
        parameter(v, s, n->name);
    else if (n->kind == N_NAME)
        store(v, s, n->name);
    for (uint32_t i = 0; n->kind == N_TUPLE && i < n->n; i++)
        assign_names(v, s, n->kid[i], as_parameters);
}

static void survey(resolver *v, symbols *s, const jnode *n);

/* What is assigned in a branch may not have been: it begins as the outer variable, or as what the
 * caller passed. */
static void survey_if(resolver *v, symbols *s, const jnode *n)
{
    const uint32_t before = v->clock;
    for (uint32_t i = 0; i < n->n; i++)
        if (i % 2 == 0 && i + 1 < n->n)
            read_names(v, s, n->kid[i]);
        else
            survey(v, s, n->kid[i]);
    for (entry *e = s->first; e && !v->failed; e = e->next)
        if (e->stored > before)
            alias_or(v, s, e, LOAD_RESOLVE);
    if (!jcost(v->r, s->n / 8 + 1))
        v->failed = true;
}

static void survey(resolver *v, symbols *s, const jnode *n)
{
    if (v->failed)
        return;
    switch (n->kind) {
    case N_BODY:
        for (uint32_t i = 0; i < n->n; i++)
            survey(v, s, n->kid[i]);
        break;
    case N_OUTPUT:
        read_names(v, s, n->kid[0]);
        break;
    case N_SET:
        read_names(v, s, n->kid[1]);
        assign_names(v, s, n->kid[0], false);
        break;
    case N_SETBLOCK:
        assign_names(v, s, n->kid[0], false);
        break;
    case N_IF:
        survey_if(v, s, n);
        break;
    case N_FOR:
        read_names(v, s, n->kid[1]);
        break;
    case N_MACRO:
        store(v, s, n->name);
        break;
    case N_FILTERBLOCK:
        for (uint32_t i = 1; i < n->n; i++)
            read_names(v, s, n->kid[i]);
        break;
    default:
        break;
    }
}

/* ---- second walk: every name gets its place -------------------------------------------------- */

static void place_name(resolver *v, const symbols *s, jnode *n, jplace *to)
{
    if (!find(v, s, s->fn, n->name, to) && !v->failed)
        fail(v, n, "a name that means nothing here: ", n->name);
}

static void resolve_names(resolver *v, const symbols *s, jnode *n, bool soft)
{
    if (!n || v->failed)
        return;
    if (n->kind == N_NAME || n->kind == N_NSREF)
        place_name(v, s, n, &n->place);
    if ((n->kind == N_FILTER || n->kind == N_TEST) && !n->what && !soft)
        fail(v, n, "no filter or test has this name; use one that jinja2 has: ", n->name);
    for (uint32_t i = 0; i < n->n; i++)
        resolve_names(v, s, n->kid[i], soft || n->kind == N_COND);
}

static void begin(symbols *s, symbols *outer, function *fn)
{
    *s = (symbols){ .outer = outer, .fn = fn, .level = outer ? outer->level + 1 : 0 };
    s->last = &s->first;
}

/* The scope that the program needs: what entering does to each variable. */
static jscope *finish(resolver *v, const symbols *s)
{
    jscope *scope = v->failed ? NULL : jalloc(v->r, 1, sizeof *scope);
    jload *loads = scope ? jalloc(v->r, s->n ? s->n : 1, sizeof *loads) : NULL;
    v->failed = v->failed || !loads;
    if (v->failed)
        return NULL;
    *scope = (jscope){ 0, loads };
    for (const entry *e = s->first; e; e = e->next)
        if (e->kind != LOAD_PARAMETER)
            loads[scope->n++] = (jload){ e->name, { 0, e->slot }, e->from, e->kind };
    return scope;
}

static bool mentions(const jnode *n, const char *name)
{
    if (!n)
        return false;
    if (n->kind == N_NAME && jstr_is(n->name, name))
        return true;
    for (uint32_t i = 0; i < n->n; i++)
        if (mentions(n->kid[i], name))
            return true;
    return false;
}

/* Is a name of this text assigned here or inside? */
static bool assigns(const jnode *n, const char *name)
{
    if (!n)
        return false;
    if (n->kind == N_SET || n->kind == N_SETBLOCK || n->kind == N_FOR)
        if (mentions(n->kid[0], name))
            return true;
    for (uint32_t i = 0; i < n->n; i++)
        if (assigns(n->kid[i], name))
            return true;
    return false;
}

static void resolve_body(resolver *v, symbols *s, jnode *n, spot at);

static function *new_function(resolver *v, function *outer)
{
    function *fn = v->failed ? NULL : jalloc(v->r, 1, sizeof *fn);
    v->failed = v->failed || !fn;
    if (fn)
        *fn = (function){ .outer = outer };
    return fn;
}

/* The target of a loop once more, for its test, which is a function of its own. */
static jnode *copy_target(resolver *v, const jnode *n)
{
    jnode *to = v->failed ? NULL : jalloc(v->r, 1, sizeof *to);
    jnode **kid = to ? jalloc(v->r, n->n ? n->n : 1, sizeof *kid) : NULL;
    v->failed = v->failed || !kid;
    if (v->failed)
        return NULL;
    *to = *n;
    to->kid = kid;
    for (uint32_t i = 0; i < n->n; i++)
        kid[i] = copy_target(v, n->kid[i]);
    return to;
}

static void resolve_test(resolver *v, symbols *s, jnode *n)
{
    symbols inner;
    function *fn = new_function(v, s->fn);
    if (!fn)
        return;
    begin(&inner, s, fn);
    assign_names(v, &inner, n->kid[0], true);
    read_names(v, &inner, n->kid[2]);
    resolve_names(v, &inner, n->kid[2], false);
    n->block->test_target = copy_target(v, n->kid[0]);
    resolve_names(v, &inner, n->block->test_target, false);
    n->block->test_scope = finish(v, &inner);
    n->block->n_test_slot = fn->n;
}

static void resolve_for(resolver *v, symbols *s, jnode *n, spot at)
{
    symbols inner;
    resolve_names(v, s, n->kid[1], at.soft);
    if (assigns(n, "loop"))
        fail(v, n, "a loop that assigns to its own variable loop; use another name", NULL);
    if (n->kid[2])
        resolve_test(v, s, n);
    begin(&inner, s, s->fn);
    n->block->uses_loop = mentions(n->kid[3], "loop");
    const jstr *loop = n->block->uses_loop && !v->failed ? jtext(v->r, "loop").s : NULL;
    v->failed = v->failed || (n->block->uses_loop && !loop);
    if (loop)
        parameter(v, &inner, loop);
    if (!v->failed) {
        assign_names(v, &inner, n->kid[0], true);
        survey(v, &inner, n->kid[3]);
        resolve_names(v, &inner, n->kid[0], false);
        if (loop && !v->failed)
            find(v, &inner, inner.fn, loop, &n->block->loop);
        n->block->scope = finish(v, &inner);
        resolve_body(v, &inner, n->kid[3], (spot){ .loop = true });
    }
    if (n->kid[4] && !v->failed) {
        symbols other;
        begin(&other, s, s->fn);
        survey(v, &other, n->kid[4]);
        n->block->else_scope = finish(v, &other);
        resolve_body(v, &other, n->kid[4], (spot){ .loop = at.loop });
    }
}

static void special(resolver *v, symbols *s, const jnode *body, const char *name, bool *uses,
                    jplace *to)
{
    *uses = !v->failed && mentions(body, name);
    if (!*uses)
        return;
    const jval text = jtext(v->r, name);
    v->failed = v->failed || jbad(text);
    if (v->failed)
        return;
    parameter(v, s, text.s);
    find(v, s, s->fn, text.s, to);
}

static bool has_parameter(const jnode *n, uint32_t n_parameter, const char *name)
{
    for (uint32_t i = 1; i <= n_parameter; i++)
        if (jstr_is(n->kid[i]->name, name))
            return true;
    return false;
}

static void resolve_macro(resolver *v, symbols *s, jnode *n)
{
    symbols inner;
    function *fn = new_function(v, s->fn);
    if (!fn)
        return;
    begin(&inner, s, fn);
    const uint32_t n_parameter = n->kind == N_MACRO ? n->n - 1 - n->n_default : 0;
    for (uint32_t i = 1; i < n->n; i++)
        if (i <= n_parameter)
            parameter(v, &inner, n->kid[i]->name);
        else
            read_names(v, &inner, n->kid[i]);
    survey(v, &inner, n->kid[0]);
    if (n->kind == N_MACRO) {
        if (!has_parameter(n, n_parameter, "caller"))
            special(v, &inner, n->kid[0], "caller", &n->block->uses_caller, &n->block->caller);
        if (!has_parameter(n, n_parameter, "kwargs"))
            special(v, &inner, n->kid[0], "kwargs", &n->block->uses_kwargs, &n->block->kwargs);
        if (!has_parameter(n, n_parameter, "varargs"))
            special(v, &inner, n->kid[0], "varargs", &n->block->uses_varargs, &n->block->varargs);
    }
    for (uint32_t i = 1; i < n->n; i++)
        resolve_names(v, &inner, n->kid[i], false);
    resolve_body(v, &inner, n->kid[0], (spot){ 0 });
    n->block->scope = finish(v, &inner);
    n->block->n_slot = fn->n;
}

/* A set or filter block: its body is a scope; filters of a set block are outside. */
static void resolve_block(resolver *v, symbols *s, jnode *n, spot at)
{
    symbols inner;
    const bool set = n->kind == N_SETBLOCK;
    begin(&inner, s, s->fn);
    survey(v, &inner, n->kid[set]);
    if (set)
        resolve_names(v, s, n->kid[0], false);
    else
        for (uint32_t i = 1; i < n->n; i++)
            read_names(v, &inner, n->kid[i]);
    for (uint32_t i = set + 1u; i < n->n; i++)
        resolve_names(v, &inner, n->kid[i], false);
    resolve_body(v, &inner, n->kid[set], (spot){ .loop = at.loop });
    n->block->scope = finish(v, &inner);
}

static bool make_block(resolver *v, jnode *n)
{
    n->block = jalloc(v->r, 1, sizeof *n->block);
    v->failed = v->failed || !n->block;
    if (n->block)
        *n->block = (jblock){ 0 };
    return n->block;
}

static void resolve_body(resolver *v, symbols *s, jnode *n, spot at)
{
    const bool block = n->kind == N_FOR || n->kind == N_MACRO || n->kind == N_GENERATION ||
                       n->kind == N_SETBLOCK || n->kind == N_FILTERBLOCK;
    if (v->failed || (block && !make_block(v, n)))
        return;
    switch (n->kind) {
    case N_BODY:
        for (uint32_t i = 0; i < n->n; i++)
            resolve_body(v, s, n->kid[i], at);
        break;
    case N_OUTPUT:
    case N_SET:
        for (uint32_t i = 0; i < n->n; i++)
            resolve_names(v, s, n->kid[i], at.soft);
        break;
    case N_IF:
        for (uint32_t i = 0; i < n->n; i++)
            if (i % 2 == 0 && i + 1 < n->n)
                resolve_names(v, s, n->kid[i], true);
            else
                resolve_body(v, s, n->kid[i], (spot){ at.loop, true });
        break;
    case N_FOR:
        resolve_for(v, s, n, at);
        break;
    case N_MACRO:
        place_name(v, s, n, &n->place);
        resolve_macro(v, s, n);
        break;
    case N_GENERATION:
        resolve_macro(v, s, n);
        break;
    case N_SETBLOCK:
    case N_FILTERBLOCK:
        resolve_block(v, s, n, at);
        break;
    case N_BREAK:
    case N_CONTINUE:
        if (!at.loop)
            fail(v, n, "break or continue outside a loop", NULL);
        break;
    default:
        break;
    }
}

bool jinja_resolve(jrender *r, jinja_template *t)
{
    resolver v = { .r = r };
    symbols root;
    function *fn = new_function(&v, NULL);
    if (!fn)
        return false;
    begin(&root, NULL, fn);
    survey(&v, &root, t->body);
    resolve_body(&v, &root, t->body, (spot){ 0 });
    t->scope = finish(&v, &root);
    t->n_slot = fn->n;
    return !v.failed;
}
