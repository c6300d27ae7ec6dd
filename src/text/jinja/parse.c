/* parse.c - statements: if, for, set, macro, filter, generation, break, continue. What Jinja has
 * beyond them is refused by name. */
#include "text/jinja/tree.h"

#include <string.h>

static jnode *parse_body(jparser *p, const char *const *ends);

static bool expect_kind(jparser *p, jtoken_kind kind, const char *what)
{
    if (jpeek(p)->kind != kind) {
        jparse_unexpected(p, what);
        return false;
    }
    p->at += p->at + 1 < p->n;
    return true;
}

/* The body of a statement, up to one of `ends`, whose name is left as the next token. */
static jnode *parse_block(jparser *p, const char *const *ends)
{
    jskip_operator(p, ":");
    if (!expect_kind(p, T_BLOCK_END, "%}") || !jparse_enter(p))
        return NULL;
    jnode *body = parse_body(p, ends);
    p->depth--;
    if (!p->failed && jpeek(p)->kind == T_END)
        return jparse_fail(p, WEFT_EFORMAT, "the end of the template; expected %s", ends[0]);
    return body;
}

static jnode *parse_only(jparser *p, const char *end)
{
    const char *const ends[] = { end, NULL };
    jnode *body = parse_block(p, ends);
    jskip_name(p, end);
    return body;
}

static jnode *parse_if(jparser *p)
{
    static const char *const ends[] = { "endif", "elif", "else", NULL };
    jnode *n = jnode_new(p, N_IF);
    while (!p->failed) {
        jnode_add(p, n, jparse_tuple(p, false, NULL, false));
        jnode_add(p, n, parse_block(p, ends));
        if (jskip_name(p, "elif"))
            continue;
        if (jskip_name(p, "else"))
            jnode_add(p, n, parse_only(p, "endif"));
        else
            jskip_name(p, "endif");
        break;
    }
    return n;
}

static jnode *parse_for(jparser *p)
{
    static const char *const ends[] = { "endfor", "else", NULL };
    jnode *n = jnode_new(p, N_FOR);
    jnode_add(p, n, jparse_target(p, "in", false));
    if (!p->failed && !jskip_name(p, "in"))
        return jparse_unexpected(p, "in");
    jnode_add(p, n, jparse_tuple(p, false, "recursive", false));
    jnode_add(p, n, jskip_name(p, "if") ? jparse_expression(p, true) : NULL);
    if (jis_name(p, "recursive"))
        return jparse_fail(p, WEFT_EUNSUPPORTED, "a recursive loop; weft has none, use a macro");
    jnode_add(p, n, parse_block(p, ends));
    if (jskip_name(p, "else"))
        jnode_add(p, n, parse_only(p, "endfor"));
    else {
        jskip_name(p, "endfor");
        jnode_add(p, n, NULL);
    }
    return n;
}

static jnode *parse_set(jparser *p)
{
    jnode *n = jnode_new(p, N_SET);
    jnode_add(p, n, jparse_target(p, NULL, true));
    if (jskip_operator(p, "=")) {
        jnode_add(p, n, jparse_tuple(p, true, NULL, false));
        return n;
    }
    if (!n)
        return NULL;
    n->kind = N_SETBLOCK;
    jnode_add(p, n, NULL);
    jparse_filters(p, n, false);
    jnode *body = parse_only(p, "endset");
    if (!p->failed)
        n->kid[1] = body;
    return n;
}

static jnode *parse_macro(jparser *p)
{
    jnode *n = jnode_new(p, N_MACRO), *defaults = jnode_new(p, N_BODY);
    const jstr *name = jexpect_name(p);
    if (p->failed)
        return NULL;
    n->name = name;
    jnode_add(p, n, NULL);
    jexpect_operator(p, "(");
    while (!p->failed && !jis_operator(p, ")")) {
        if (n->n > 1 && !jexpect_operator(p, ","))
            break;
        jnode *arg = jnode_new(p, N_NAME);
        const jstr *arg_name = jexpect_name(p);
        if (arg)
            arg->name = arg_name;
        jnode_add(p, n, arg);
        if (jskip_operator(p, "="))
            jnode_add(p, defaults, jparse_expression(p, true));
        else if (!p->failed && defaults->n)
            jparse_fail(p, WEFT_EFORMAT, "an argument without a default after one with a default");
    }
    jexpect_operator(p, ")");
    for (uint32_t i = 0; !p->failed && i < defaults->n; i++)
        jnode_add(p, n, defaults->kid[i]);
    if (!p->failed && n->n > 1000)
        return jparse_fail(p, WEFT_ELIMIT, "a macro of more than 1000 arguments; use fewer");
    if (!p->failed)
        n->n_default = (uint16_t)defaults->n;
    jnode *body = parse_only(p, "endmacro");
    if (!p->failed)
        n->kid[0] = body;
    return n;
}

static jnode *parse_filter_block(jparser *p)
{
    jnode *n = jnode_new(p, N_FILTERBLOCK);
    jnode_add(p, n, NULL);
    jparse_filters(p, n, true);
    jnode *body = parse_only(p, "endfilter");
    if (!p->failed)
        n->kid[0] = body;
    return n;
}

static jnode *parse_generation(jparser *p)
{
    jnode *n = jnode_new(p, N_GENERATION);
    jnode_add(p, n, parse_only(p, "endgeneration"));
    return n;
}

/* ---- bodies ---------------------------------------------------------------------------------- */

static jnode *parse_statement(jparser *p)
{
    static const char *const refused[] = { "include", "import",     "from",  "extends",
                                           "block",   "call",       "do",    "raw",
                                           "with",    "autoescape", "print", NULL };
    for (const char *const *name = refused; *name; name++)
        if (jis_name(p, *name))
            return jparse_fail(p, WEFT_EUNSUPPORTED, "the tag %s; weft does not have it", *name);
    if (jskip_name(p, "if"))
        return parse_if(p);
    if (jskip_name(p, "for"))
        return parse_for(p);
    if (jskip_name(p, "set"))
        return parse_set(p);
    if (jskip_name(p, "macro"))
        return parse_macro(p);
    if (jskip_name(p, "filter"))
        return parse_filter_block(p);
    if (jskip_name(p, "generation"))
        return parse_generation(p);
    if (jis_name(p, "break") || jis_name(p, "continue")) {
        jnode *n = jnode_new(p, jis_name(p, "break") ? N_BREAK : N_CONTINUE);
        p->at++;
        return n;
    }
    const jtoken *t = jpeek(p);
    return jparse_fail(p, WEFT_EFORMAT, "the tag %.*s; Jinja does not know it here",
                       (int)(t->end - t->at < 40 ? t->end - t->at : 40), p->r->source + t->at);
}

static bool at_end(jparser *p, const char *const *ends)
{
    for (; ends && *ends; ends++)
        if (jis_name(p, *ends))
            return true;
    return false;
}

static jnode *parse_data(jparser *p)
{
    const jtoken *t = jpeek(p);
    jnode *n = jnode_new(p, N_DATA);
    const jstr *s = n ? jstr_new(p->r, p->r->source + t->at, t->end - t->at, 0) : NULL;
    p->failed = p->failed || !s;
    if (n)
        n->value = jstr_value(s);
    p->at++;
    return n;
}

static jnode *parse_output(jparser *p)
{
    jnode *n = jnode_new(p, N_OUTPUT);
    p->at++;
    jnode *e = jparse_tuple(p, true, NULL, false);
    if (!p->failed)
        jmark_constant(e);
    jnode_add(p, n, e);
    expect_kind(p, T_VARIABLE_END, "}}");
    return n;
}

static jnode *parse_body(jparser *p, const char *const *ends)
{
    jnode *body = jnode_new(p, N_BODY);
    while (!p->failed && jpeek(p)->kind != T_END) {
        if (jpeek(p)->kind == T_DATA)
            jnode_add(p, body, parse_data(p));
        else if (jpeek(p)->kind == T_VARIABLE_BEGIN)
            jnode_add(p, body, parse_output(p));
        else {
            if (!expect_kind(p, T_BLOCK_BEGIN, "{%") || at_end(p, ends))
                break;
            jnode_add(p, body, parse_statement(p));
            expect_kind(p, T_BLOCK_END, "%}");
        }
    }
    return body;
}

jnode *jinja_parse(jrender *r, const jtoken *token, uint32_t n)
{
    jparser p = { .r = r, .token = token, .n = n };
    jnode *body = parse_body(&p, NULL);
    return p.failed ? NULL : body;
}
