/* run.c - statements, macros, and the rendering of a whole template. */
#include "text/jinja/eval.h"

#include "base/err.h"

#include <string.h>

static const jval failed = { .kind = V_FAIL };

typedef enum flow { FLOW_ON, FLOW_BREAK, FLOW_CONTINUE, FLOW_FAIL } flow;

static flow run(jeval *e, const jnode *n);

/* ---- captured output ------------------------------------------------------------------------- */

/* Runs a body with its output into a string of its own. */
static flow capture(jeval *e, const jnode *body, jval *to)
{
    jbuild b, *out = e->out;
    jbuild_begin(&b, &e->r);
    e->out = &b;
    const flow f = run(e, body);
    e->out = out;
    *to = f == FLOW_FAIL ? failed : jbuild_value(&b);
    return jbad(*to) ? FLOW_FAIL : f;
}

/* ---- macros ---------------------------------------------------------------------------------- */

typedef struct macro {
    jmacro base;
    const jnode *n;
    jframe *outer;
} macro;

/* Takes a named argument; V_MISSING if it is not there. `used` marks those that were taken. */
static jval take(const jargs *a, bool *used, const jstr *name)
{
    for (uint32_t i = 0; i < a->n_key; i++)
        if (!used[i] && jstr_same(a->key[i], name)) {
            used[i] = true;
            return a->named[i];
        }
    return jmissing();
}

static bool bind_varargs(jeval *e, const jnode *n, const jargs *a, uint32_t n_parameter)
{
    const uint32_t more = a->n > n_parameter ? a->n - n_parameter : 0;
    if (!n->block->uses_varargs) {
        if (more)
            jfail(&e->r, WEFT_EINVAL, "macro %.*s: %u arguments; expected at most %u",
                  (int)n->name->n, n->name->at, a->n, n_parameter);
        return !more;
    }
    jlist *l = jlist_new(&e->r, more);
    for (uint32_t i = 0; l && i < more; i++)
        l->item[i] = a->arg[n_parameter + i];
    const jval v = jlist_value(&e->r, l, V_TUPLE);
    *jeval_slot(e, n->block->varargs) = v;
    return !jbad(v);
}

static bool bind_kwargs(jeval *e, const jnode *n, const jargs *a, const bool *used)
{
    jdict *d = n->block->uses_kwargs ? jdict_new(&e->r, a->n_key) : NULL;
    if (n->block->uses_kwargs && !d)
        return false;
    for (uint32_t i = 0; i < a->n_key; i++) {
        if (used[i])
            continue;
        if (!d) {
            jfail(&e->r, WEFT_EINVAL, "macro %.*s has no argument %.*s", (int)n->name->n,
                  n->name->at, (int)(a->key[i]->n < 60 ? a->key[i]->n : 60), a->key[i]->at);
            return false;
        }
        if (!jdict_put(&e->r, d, jstr_value(a->key[i]), a->named[i]))
            return false;
    }
    if (d)
        *jeval_slot(e, n->block->kwargs) = (jval){ .kind = V_DICT, .dict = d };
    return true;
}

/* Parameters get arguments by position, by name, by default, or are undefined. */
static bool bind_arguments(jeval *e, const jnode *n, const jargs *a)
{
    const uint32_t n_parameter = n->n - 1 - n->n_default;
    bool *used = jalloc(&e->r, a->n_key + 1u, sizeof *used);
    if (!used || !jcost(&e->r, n_parameter))
        return false;
    memset(used, 0, a->n_key + 1u);
    for (uint32_t i = 0; i < n_parameter; i++) {
        const jnode *p = n->kid[1 + i];
        *jeval_slot(e, p->place) = i < a->n ? a->arg[i] : take(a, used, p->name);
    }
    if (n->block->uses_caller) {
        const jval name = jtext(&e->r, "caller");
        const jval caller = jbad(name) ? name : take(a, used, name.s);
        if (jbad(caller))
            return false;
        *jeval_slot(e, n->block->caller) = caller.kind == V_MISSING || caller.kind == V_NONE
                                               ? jundefined(name.s)
                                               : caller;
    }
    if (!bind_kwargs(e, n, a, used) || !bind_varargs(e, n, a, n_parameter) ||
        !jeval_enter(e, n->block->scope))
        return false;
    for (uint32_t i = 0; i < n_parameter; i++) {
        const jnode *p = n->kid[1 + i];
        if (jeval_slot(e, p->place)->kind != V_MISSING)
            continue;
        const uint32_t first = n_parameter - n->n_default;
        const jval v = i < first ? jundefined(p->name)
                                 : jeval_node(e, n->kid[1 + n_parameter + i - first]);
        if (jbad(v))
            return false;
        *jeval_slot(e, p->place) = v;
    }
    return true;
}

static jval call_macro(jeval *e, const jmacro *base, const jargs *a)
{
    const macro *m = (const macro *)base;
    jframe *frame = jframe_new(e, m->n->block->n_slot, m->outer), *outer = e->frame;
    jval text = failed;
    if (!frame || !jeval_deeper(e))
        return failed;
    e->frame = frame;
    if (bind_arguments(e, m->n, a))
        capture(e, m->n->kid[0], &text);
    e->frame = outer;
    e->r.depth--;
    return text;
}

static flow define_macro(jeval *e, const jnode *n)
{
    macro *m = jalloc(&e->r, 1, sizeof *m);
    if (!m)
        return FLOW_FAIL;
    *m = (macro){ { n->name }, n, e->frame };
    *jeval_slot(e, n->place) = (jval){ .kind = V_MACRO, .macro = &m->base };
    return FLOW_ON;
}

/* What the block wrote is marked with its number. */
static flow run_generation(jeval *e, const jnode *n)
{
    jframe *frame = jframe_new(e, n->block->n_slot, e->frame), *outer = e->frame;
    jval text = failed;
    if (!frame)
        return FLOW_FAIL;
    e->frame = frame;
    if (jeval_enter(e, n->block->scope))
        capture(e, n->kid[0], &text);
    e->frame = outer;
    if (jbad(text))
        return FLOW_FAIL;
    const uint32_t block = ++e->n_block;
    for (uint32_t i = 0, begin = 0; i < text.s->n_run && begin < text.s->n; i++) {
        const jrun *g = &text.s->run[i];
        jbuild_put(e->out, text.s->at + begin, g->end - begin, g->origin, block);
        begin = g->end;
    }
    return e->out->failed ? FLOW_FAIL : FLOW_ON;
}

/* ---- loops ----------------------------------------------------------------------------------- */

/* `for x in y if test`: a generator with a frame of its own. */
typedef struct filtered {
    jgen gen;
    jeval *e;
    const jnode *n;
    jframe *frame;
    jiter from;
} filtered;

static jval next_filtered(jrender *r, jgen *gen)
{
    filtered *f = (filtered *)gen;
    jeval *e = f->e;
    jframe *outer = e->frame;
    jval item = failed, test = jbool(false);
    e->frame = f->frame;
    if (!gen->begun && !jeval_enter(e, f->n->block->test_scope))
        test = failed;
    gen->begun = true;
    while (!jbad(test) && !jtruth(test)) {
        item = jiter_next(r, &f->from);
        if (jbad(item) || item.kind == V_MISSING)
            break;
        test = jeval_assign(e, f->n->block->test_target, item) ? jeval_node(e, f->n->kid[2])
                                                               : failed;
    }
    e->frame = outer;
    return jbad(test) ? failed : item;
}

static bool begin_loop(jeval *e, const jnode *n, jiter *it)
{
    const jval over = jeval_node(e, n->kid[1]);
    e->r.where = n->at;
    if (jbad(over) || !jiter_begin(&e->r, it, over))
        return false;
    if (!n->kid[2])
        return true;
    filtered *f = jalloc(&e->r, 1, sizeof *f);
    jframe *frame = f ? jframe_new(e, n->block->n_test_slot, e->frame) : NULL;
    if (!frame)
        return false;
    *f = (filtered){
        .gen = { .next = next_filtered }, .e = e, .n = n, .frame = frame, .from = *it
    };
    *it = (jiter){ .over = { .kind = V_GENERATOR, .gen = &f->gen } };
    return true;
}

static flow run_else(jeval *e, const jnode *n)
{
    if (!jeval_enter(e, n->block->else_scope))
        return FLOW_FAIL;
    const flow f = run(e, n->kid[4]);
    jeval_leave(e, n->block->else_scope);
    return f;
}

static flow run_for(jeval *e, const jnode *n)
{
    jloop_state *loop = jalloc(&e->r, 1, sizeof *loop);
    jiter it;
    bool none = true; /* no iteration came to its end: what `else` waits for */
    flow f = FLOW_ON;
    if (!loop || !begin_loop(e, n, &it))
        return FLOW_FAIL;
    jloop_begin(loop, it);
    while (f != FLOW_BREAK && f != FLOW_FAIL) {
        const jval item = jloop_next(&e->r, loop);
        if (item.kind == V_MISSING)
            break;
        e->r.where = n->at;
        if (jbad(item) || !jeval_assign(e, n->kid[0], item))
            return FLOW_FAIL;
        if (n->block->uses_loop)
            *jeval_slot(e, n->block->loop) = (jval){ .kind = V_LOOP, .loop = &loop->base };
        f = jeval_enter(e, n->block->scope) ? run(e, n->kid[3]) : FLOW_FAIL;
        none = none && f != FLOW_ON;
    }
    jeval_leave(e, n->block->scope);
    if (f == FLOW_FAIL)
        return f;
    return none && n->kid[4] ? run_else(e, n) : FLOW_ON;
}

/* ---- other statements ------------------------------------------------------------------------ */

static flow run_if(jeval *e, const jnode *n)
{
    uint32_t i = 0;
    for (; i + 1 < n->n; i += 2) {
        const jval test = jeval_node(e, n->kid[i]);
        if (jbad(test))
            return FLOW_FAIL;
        if (jtruth(test))
            return run(e, n->kid[i + 1]);
    }
    return i < n->n ? run(e, n->kid[i]) : FLOW_ON;
}

/* {% set x | f %}...{% endset %} and {% filter f %}...{% endfilter %} */
static flow run_block(jeval *e, const jnode *n)
{
    const bool set = n->kind == N_SETBLOCK;
    jval text;
    if (!jeval_enter(e, n->block->scope))
        return FLOW_FAIL;
    const flow f = capture(e, n->kid[set], &text);
    if (f != FLOW_ON)
        return f;
    text = jeval_steps(e, n, set + 1u, text);
    jeval_leave(e, n->block->scope);
    if (jbad(text))
        return FLOW_FAIL;
    if (set)
        return jeval_assign(e, n->kid[0], text) ? FLOW_ON : FLOW_FAIL;
    jput_str(e->out, text);
    return e->out->failed ? FLOW_FAIL : FLOW_ON;
}

static flow run_set(jeval *e, const jnode *n)
{
    const jval v = jeval_node(e, n->kid[1]);
    return !jbad(v) && jeval_assign(e, n->kid[0], v) ? FLOW_ON : FLOW_FAIL;
}

static flow run_output(jeval *e, const jnode *n)
{
    const jval v = jeval_node(e, n->kid[0]);
    if (jbad(v))
        return FLOW_FAIL;
    e->r.where = n->at;
    jput_str(e->out, v);
    return e->out->failed ? FLOW_FAIL : FLOW_ON;
}

static flow run_body(jeval *e, const jnode *n)
{
    flow f = FLOW_ON;
    if (!jeval_deeper(e))
        return FLOW_FAIL;
    for (uint32_t i = 0; i < n->n && f == FLOW_ON; i++)
        f = run(e, n->kid[i]);
    e->r.depth--;
    return f;
}

static flow run(jeval *e, const jnode *n)
{
    if (!jcost(&e->r, 1))
        return FLOW_FAIL;
    switch (n->kind) {
    case N_BODY:
        return run_body(e, n);
    case N_DATA:
        jbuild_str(e->out, n->value.s);
        return e->out->failed ? FLOW_FAIL : FLOW_ON;
    case N_OUTPUT:
        return run_output(e, n);
    case N_SET:
        return run_set(e, n);
    case N_SETBLOCK:
    case N_FILTERBLOCK:
        return run_block(e, n);
    case N_IF:
        return run_if(e, n);
    case N_FOR:
        return run_for(e, n);
    case N_MACRO:
        return define_macro(e, n);
    case N_GENERATION:
        return run_generation(e, n);
    default:
        return n->kind == N_BREAK ? FLOW_BREAK : FLOW_CONTINUE;
    }
}

/* ---- a whole template ------------------------------------------------------------------------ */

static bool copy_runs(jrender *r, const jbuild *b, jinja_output *out)
{
    jinja_run *runs = jalloc(r, b->n_run + 1u, sizeof *runs);
    jinja_range *ranges = runs ? jalloc(r, b->n_run + 1u, sizeof *ranges) : NULL;
    if (!ranges)
        return false;
    uint32_t begin = 0, last = 0;
    for (uint32_t i = 0; i < b->n_run; i++) {
        const jrun *g = &b->run[i];
        if (out->n_run && runs[out->n_run - 1].origin == g->origin)
            runs[out->n_run - 1].end = g->end;
        else
            runs[out->n_run++] = (jinja_run){ begin, g->end, g->origin };
        if (g->block && g->block == last)
            ranges[out->n_generated - 1].end = g->end;
        else if (g->block)
            ranges[out->n_generated++] = (jinja_range){ begin, g->end };
        last = g->block;
        begin = g->end;
    }
    out->run = runs;
    out->generated = ranges;
    return true;
}

weft_status jinja_run_template(const jinja_template *t, jpool *pool, const jdict *variables,
                               uint64_t input_bytes, const jinja_options *options,
                               jinja_output *out, weft_error *err)
{
    weft_error own = { 0 };
    jeval e = { .r = { .pool = pool,
                       .err = err ? err : &own,
                       .now = options ? options->now : NULL,
                       .name = t->name,
                       .source = t->source,
                       .n_source = t->n_source,
                       .find_filter = jfilter_find,
                       .steps = options && options->steps ? options->steps : JINJA_STEPS },
                .variables = variables,
                .call_macro = call_macro };
    jbuild b;
    jbuild_begin(&b, &e.r);
    b.most = input_bytes + JINJA_OUTPUT;
    e.out = &b;
    e.frame = jframe_new(&e, t->n_slot, NULL);
    *out = (jinja_output){ 0 };
    if (!e.frame || !jeval_enter(&e, t->scope) || run(&e, t->body) == FLOW_FAIL)
        return e.r.err->code;
    b.most = 0;
    const size_t n = b.n;
    jbuild_put(&b, "", 1, 0, 0);
    if (b.failed)
        return e.r.err->code;
    if (--b.run[b.n_run - 1].end == (b.n_run > 1 ? b.run[b.n_run - 2].end : 0))
        b.n_run--;
    out->text = b.at;
    out->n = n;
    return copy_runs(&e.r, &b, out) ? WEFT_OK : e.r.err->code;
}
