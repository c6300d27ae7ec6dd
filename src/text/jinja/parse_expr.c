/* parse_expr.c - expressions, by jinja2's precedence:
 *
 *     a if b else c   or   and   not   < > in ...   + -   ~   * / // %   **   - +   .x [x] (x)   |f is t
 *
 * Each bracket, `not`, sign and `else` counts as one level of nesting. */
#include "text/jinja/tree.h"

#include <string.h>

/* The operator before the kid that was added last. */
static void note_operator(jparser *p, jnode *n, char op)
{
    if (p->failed)
        return;
    const uint32_t at = n->n - 2; /* of a node with two kids or more */
    if ((at & (at - 1)) == 0 && at != 1) {
        char *more = jalloc(p->r, at ? 2 * at : 2, 1);
        p->failed = !more;
        if (!more)
            return;
        if (at)
            memcpy(more, n->op, at);
        n->op = more;
    }
    n->op[at] = op;
}

static jnode *constant(jparser *p, jval v)
{
    jnode *n = jnode_new(p, N_CONST);
    if (n)
        n->value = v;
    return n;
}

/* ---- primaries ------------------------------------------------------------------------------- */

static jnode *parse_name(jparser *p)
{
    static const char *const word[] = { "true", "True", "false", "False", "none", "None" };
    for (int i = 0; i < 6; i++)
        if (jis_name(p, word[i])) {
            jnode *n = constant(p, i < 4 ? jbool(i < 2) : jnone());
            jadvance(p);
            return n;
        }
    jnode *n = jnode_new(p, N_NAME);
    const jstr *name = jexpect_name(p);
    if (n)
        n->name = name;
    return n;
}

static jnode *parse_strings(jparser *p)
{
    jnode *n = constant(p, jpeek(p)->value);
    jadvance(p);
    while (jpeek(p)->kind == T_STRING && n && !p->failed) {
        jbuild b;
        jbuild_begin(&b, p->r);
        jbuild_str(&b, n->value.s);
        jbuild_str(&b, jpeek(p)->value.s);
        n->value = jbuild_value(&b);
        p->failed = jbad(n->value);
        jadvance(p);
    }
    return n;
}

static jnode *parse_list(jparser *p, bool dict)
{
    jnode *n = jnode_new(p, dict ? N_DICT : N_LIST);
    const char *close = dict ? "}" : "]";
    jadvance(p);
    while (!p->failed && !jis_operator(p, close)) {
        if (n->n && (!jexpect_operator(p, ",") || jis_operator(p, close)))
            break;
        jnode_add(p, n, jparse_expression(p, true));
        if (dict && jexpect_operator(p, ":"))
            jnode_add(p, n, jparse_expression(p, true));
    }
    jexpect_operator(p, close);
    return n;
}

static jnode *parse_primary(jparser *p)
{
    jnode *n = NULL;
    switch (jpeek(p)->kind) {
    case T_NAME:
        return parse_name(p);
    case T_STRING:
        return parse_strings(p);
    case T_INT:
    case T_FLOAT:
        n = constant(p, jpeek(p)->value);
        jadvance(p);
        return n;
    default:
        break;
    }
    if (!jparse_enter(p))
        return NULL;
    if (jskip_operator(p, "(")) {
        n = jparse_tuple(p, true, NULL, true);
        jexpect_operator(p, ")");
    } else if (jis_operator(p, "[") || jis_operator(p, "{"))
        n = parse_list(p, jis_operator(p, "{"));
    else
        jparse_unexpected(p, "an expression");
    p->depth--;
    return n;
}

/* ---- arguments ------------------------------------------------------------------------------- */

static jnode *parse_argument(jparser *p, bool *named, bool *stars)
{
    jnode *n;
    if (jis_operator(p, "*") || jis_operator(p, "**")) {
        const bool two = jis_operator(p, "**");
        n = jnode_new(p, two ? N_STARS : N_STAR);
        if (stars[1] || (!two && stars[0]))
            return jparse_fail(p, WEFT_EFORMAT, "a second * or **; expected one of each");
        stars[two] = true;
        jadvance(p);
        jnode_add(p, n, jparse_expression(p, true));
        return n;
    }
    const jtoken *next = &p->token[p->at + (p->at + 1 < p->n)];
    if (jpeek(p)->kind == T_NAME && next->kind == T_OPERATOR && strcmp(next->op, "=") == 0) {
        n = jnode_new(p, N_KEYWORD);
        if (stars[1])
            return jparse_fail(p, WEFT_EFORMAT, "an argument after **; expected it before");
        *named = true;
        const jstr *name = jexpect_name(p);
        jadvance(p);
        if (n)
            n->name = name;
        jnode_add(p, n, jparse_expression(p, true));
        return n;
    }
    if (*named || stars[0] || stars[1])
        return jparse_fail(p, WEFT_EFORMAT, "an argument without a name after one with a name");
    return jparse_expression(p, true);
}

/* From the opening bracket on; the arguments become kids of n. */
static void parse_arguments(jparser *p, jnode *n)
{
    bool named = false, stars[2] = { false, false }, comma = false;
    if (!jexpect_operator(p, "(") || !jparse_enter(p))
        return;
    while (!p->failed && !jis_operator(p, ")")) {
        if (comma && (!jexpect_operator(p, ",") || jis_operator(p, ")")))
            break;
        jnode_add(p, n, parse_argument(p, &named, stars));
        comma = true;
    }
    jexpect_operator(p, ")");
    p->depth--;
}

/* ---- postfixes ------------------------------------------------------------------------------- */

static jnode *parse_subscribed(jparser *p)
{
    jnode *part[3] = { NULL, NULL, NULL };
    int n = 0;
    bool slice = false;
    while (!p->failed && n < 3) {
        if (!jis_operator(p, ":") && !jis_operator(p, "]") && !jis_operator(p, ","))
            part[n] = jparse_expression(p, true);
        if (!jis_operator(p, ":") || n == 2)
            break;
        jadvance(p);
        slice = true;
        n++;
    }
    if (!slice)
        return part[0] ? part[0] : jparse_expression(p, true);
    jnode *s = jnode_new(p, N_SLICE);
    for (int i = 0; i < 3; i++)
        jnode_add(p, s, part[i]);
    return s;
}

static jnode *parse_subscript(jparser *p)
{
    if (jskip_operator(p, ".")) {
        jnode *n = jnode_new(p, N_ATTRIBUTE);
        if (jpeek(p)->kind == T_INT && n) {
            n->kind = N_ITEM;
            jnode_add(p, n, constant(p, jpeek(p)->value));
            jadvance(p);
        } else if (jpeek(p)->kind == T_NAME) {
            const jstr *name = jexpect_name(p);
            if (n)
                n->name = name;
        } else
            jparse_unexpected(p, "a name or a number");
        return n;
    }
    jnode *n = jnode_new(p, N_ITEM);
    jadvance(p);
    if (!jparse_enter(p))
        return NULL;
    if (jis_operator(p, "]")) { /* x[] is x[()] */
        jnode_add(p, n, jnode_new(p, N_TUPLE));
    } else {
        jnode *first = parse_subscribed(p);
        if (jis_operator(p, ",")) {
            jnode *many = jnode_new(p, N_TUPLE);
            jnode_add(p, many, first);
            while (!p->failed && jskip_operator(p, ","))
                jnode_add(p, many, parse_subscribed(p));
            for (uint32_t i = 0; !p->failed && i < many->n; i++)
                if (many->kid[i]->kind == N_SLICE)
                    jparse_fail(p, WEFT_EUNSUPPORTED,
                                "a slice among other subscripts; use it alone");
            first = many;
        }
        jnode_add(p, n, first);
    }
    jexpect_operator(p, "]");
    p->depth--;
    return n;
}

/* Adds a step to a chain. */
static void add_step(jparser *p, jnode *chain, jnode *step)
{
    if (!jnode_add(p, chain, step))
        return;
    chain->flag = chain->flag && jis_constant(step);
    jnode *before = chain->kid[chain->n - 2];
    if (chain->flag && chain->n > 2 && jis_slice(before))
        before->flag = true;
}

/* The node that takes postfixes: `n` itself, or a new one around it. */
static jnode *with_steps(jparser *p, jnode *n)
{
    if (!n || n->kind == N_POSTFIX)
        return n;
    jnode *chain = jnode_new(p, N_POSTFIX);
    if (chain) {
        chain->at = n->at;
        chain->flag = jis_constant(n);
    }
    jnode_add(p, chain, n);
    return chain;
}

static jnode *parse_call(jparser *p)
{
    jnode *n = jnode_new(p, N_CALL);
    parse_arguments(p, n);
    return n;
}

static jnode *parse_postfix(jparser *p, jnode *n)
{
    while (!p->failed) {
        const bool call = jis_operator(p, "(");
        if (!call && !jis_operator(p, ".") && !jis_operator(p, "["))
            return n;
        n = with_steps(p, n);
        add_step(p, n, call ? parse_call(p) : parse_subscript(p));
    }
    return n;
}

/* ---- filters and tests ----------------------------------------------------------------------- */

/* Looks up a filter or test. One that jinja2 has and weft has not is refused here; one that nobody
 * knows is an error where it runs, or at once outside `if` (scope.c). */
static void find_what(jparser *p, jnode *n)
{
    if (p->failed || !n->name)
        return;
    n->what = n->kind == N_FILTER ? jfilter_find(n->name->at, n->name->n)
                                  : jtest_find(n->name->at, n->name->n);
    if (n->what && !n->what->run)
        jparse_fail(p, WEFT_EUNSUPPORTED, "the filter %s; weft does not have it", n->what->name);
}

static jnode *parse_filter(jparser *p)
{
    jnode *n = jnode_new(p, N_FILTER);
    const jstr *name = jexpect_name(p);
    if (n)
        n->name = name;
    if (jis_operator(p, "."))
        return jparse_fail(p, WEFT_EUNSUPPORTED, "a filter with a dot in its name; weft has none");
    find_what(p, n);
    if (jis_operator(p, "("))
        parse_arguments(p, n);
    return n;
}

bool jparse_filters(jparser *p, jnode *to, bool inline_first)
{
    while (!p->failed && (inline_first || jskip_operator(p, "|"))) {
        jnode_add(p, to, parse_filter(p));
        inline_first = false;
    }
    return !p->failed;
}

static bool begins_primary(const jparser *p)
{
    const jtoken *t = jpeek(p);
    if (t->kind == T_NAME)
        return !jis_name(p, "else") && !jis_name(p, "or") && !jis_name(p, "and");
    return t->kind == T_STRING || t->kind == T_INT || t->kind == T_FLOAT || jis_operator(p, "[") ||
           jis_operator(p, "{");
}

static jnode *parse_test(jparser *p)
{
    jnode *n = jnode_new(p, N_TEST);
    const bool negated = jskip_name(p, "not");
    const jstr *name = jexpect_name(p);
    if (!n)
        return NULL;
    n->flag = negated;
    n->name = name;
    find_what(p, n);
    if (jis_operator(p, "("))
        parse_arguments(p, n);
    else if (begins_primary(p)) {
        if (jis_name(p, "is"))
            return jparse_fail(p, WEFT_EFORMAT, "a second `is`; expected one");
        jnode *arg = parse_primary(p);
        jnode_add(p, n, parse_postfix(p, arg));
    }
    return n;
}

static jnode *parse_filter_expr(jparser *p, jnode *n)
{
    while (!p->failed) {
        jnode *step;
        if (jskip_operator(p, "|"))
            step = parse_filter(p);
        else if (jskip_name(p, "is"))
            step = parse_test(p);
        else if (jis_operator(p, "("))
            step = parse_call(p);
        else
            return n;
        n = with_steps(p, n);
        add_step(p, n, step);
    }
    return n;
}

/* ---- operators ------------------------------------------------------------------------------- */

static jnode *parse_unary(jparser *p, bool with_filter)
{
    jnode *n;
    if (jis_operator(p, "-") || jis_operator(p, "+")) {
        n = jnode_new(p, jis_operator(p, "-") ? N_NEGATIVE : N_POSITIVE);
        jadvance(p);
        if (!jparse_enter(p))
            return NULL;
        jnode_add(p, n, parse_unary(p, false));
        p->depth--;
    } else
        n = parse_primary(p);
    n = parse_postfix(p, n);
    return with_filter ? parse_filter_expr(p, n) : n;
}

/* The binary operators, loosest first. */
enum { LEVEL_ADD, LEVEL_CONCAT, LEVEL_MULTIPLY, LEVEL_POWER, LEVEL_UNARY };

static char operator_of(const jparser *p, int level)
{
    static const char *const word[] = { "+-", "~", "*/%", "" };
    const jtoken *t = jpeek(p);
    if (t->kind != T_OPERATOR)
        return '\0';
    if (t->op[1])
        return level == LEVEL_POWER && strcmp(t->op, "**") == 0      ? '^'
               : level == LEVEL_MULTIPLY && strcmp(t->op, "//") == 0 ? '|'
                                                                     : '\0';
    return strchr(word[level], t->op[0]) ? t->op[0] : '\0';
}

/* All operators of `level` and tighter: each level takes what the tighter ones left. */
static jnode *parse_chain(jparser *p, int level)
{
    jnode *n = parse_unary(p, true);
    for (int at = LEVEL_POWER; at >= level && !p->failed; at--) {
        jnode *chain = NULL;
        for (char op; !p->failed && (op = operator_of(p, at)); note_operator(p, chain, op)) {
            if (!chain) {
                chain = jnode_new(p, at == LEVEL_CONCAT ? N_CONCAT : N_CHAIN);
                jnode_add(p, chain, n);
            }
            jadvance(p);
            jnode_add(p, chain, parse_chain(p, at + 1));
        }
        n = chain ? chain : n;
    }
    return n;
}

static char comparison(jparser *p)
{
    static const char *const op[] = { "==", "!=", "<", ">", "<=", ">=" };
    for (int i = 0; i < 6; i++)
        if (jskip_operator(p, op[i]))
            return "=!<>lg"[i];
    if (jskip_name(p, "in"))
        return 'i';
    if (jis_name(p, "not") && p->at + 1 < p->n && jtoken_is_name(p, &p->token[p->at + 1], "in")) {
        jadvance(p);
        jadvance(p);
        return 'n';
    }
    return '\0';
}

static jnode *parse_compare(jparser *p)
{
    jnode *n = parse_chain(p, LEVEL_ADD), *chain = NULL;
    for (char op; !p->failed && (op = comparison(p)); note_operator(p, chain, op)) {
        if (!chain) {
            chain = jnode_new(p, N_COMPARE);
            jnode_add(p, chain, n);
        }
        jnode_add(p, chain, parse_chain(p, LEVEL_ADD));
    }
    return chain ? chain : n;
}

static jnode *parse_not(jparser *p)
{
    if (!jis_name(p, "not"))
        return parse_compare(p);
    jnode *n = jnode_new(p, N_NOT);
    jadvance(p);
    if (!jparse_enter(p))
        return NULL;
    jnode_add(p, n, parse_not(p));
    p->depth--;
    return n;
}

static jnode *parse_logic(jparser *p, bool or)
{
    jnode *n = or ? parse_logic(p, false) : parse_not(p), *chain = NULL;
    while (!p->failed && jskip_name(p, or ? "or" : "and")) {
        if (!chain) {
            chain = jnode_new(p, or ? N_OR : N_AND);
            jnode_add(p, chain, n);
        }
        jnode_add(p, chain, or ? parse_logic(p, false) : parse_not(p));
    }
    return chain ? chain : n;
}

jnode *jparse_expression(jparser *p, bool with_condition)
{
    jnode *n = parse_logic(p, true);
    while (with_condition && !p->failed && jis_name(p, "if")) {
        jnode *cond = jnode_new(p, N_COND);
        jadvance(p);
        if (!jparse_enter(p))
            return NULL;
        jnode_add(p, cond, parse_logic(p, true));
        jnode_add(p, cond, n);
        if (jskip_name(p, "else"))
            jnode_add(p, cond, jparse_expression(p, true));
        /* `a if b if c` nests to the left, and costs a level each time */
        p->depth -= cond && cond->n == 3;
        n = cond;
    }
    return n;
}

/* ---- tuples and targets ---------------------------------------------------------------------- */

static bool ends_tuple(const jparser *p, const char *stop)
{
    const jtoken *t = jpeek(p);
    return t->kind == T_VARIABLE_END || t->kind == T_BLOCK_END || jis_operator(p, ")") ||
           (stop && jis_name(p, stop));
}

static jnode *parse_target_item(jparser *p, bool with_namespace)
{
    const jtoken *next = &p->token[p->at + (p->at + 1 < p->n)];
    const bool dotted = next->kind == T_OPERATOR && strcmp(next->op, ".") == 0;
    if (with_namespace && jpeek(p)->kind == T_NAME && dotted) {
        jnode *n = jnode_new(p, N_NSREF);
        const jstr *name = jexpect_name(p);
        jadvance(p);
        if (n)
            n->name = name;
        jnode *attribute = constant(p, jnone());
        const jstr *s = jexpect_name(p);
        if (attribute)
            attribute->value = jstr_value(s);
        jnode_add(p, n, attribute);
        return n;
    }
    return parse_primary(p);
}

typedef enum tuple_of { OF_EXPRESSIONS, OF_PLAIN, OF_TARGETS, OF_NAMESPACES } tuple_of;

static jnode *parse_tuple_of(jparser *p, tuple_of what, const char *stop, bool parentheses)
{
    jnode *n = NULL, *many = NULL;
    while (!p->failed && !ends_tuple(p, stop)) {
        jnode *item = what >= OF_TARGETS ? parse_target_item(p, what == OF_NAMESPACES)
                                         : jparse_expression(p, what == OF_EXPRESSIONS);
        if (many)
            jnode_add(p, many, item);
        else
            n = item;
        if (p->failed || !jis_operator(p, ","))
            break;
        if (!many) {
            many = jnode_new(p, N_TUPLE);
            jnode_add(p, many, n);
        }
        jadvance(p);
    }
    if (many || n || p->failed)
        return many ? many : n;
    if (!parentheses)
        return jparse_unexpected(p, "an expression");
    return jnode_new(p, N_TUPLE);
}

jnode *jparse_tuple(jparser *p, bool with_condition, const char *stop, bool parentheses)
{
    return parse_tuple_of(p, with_condition ? OF_EXPRESSIONS : OF_PLAIN, stop, parentheses);
}

static bool can_assign(const jnode *n)
{
    if (n->kind == N_TUPLE) {
        for (uint32_t i = 0; i < n->n; i++)
            if (!can_assign(n->kid[i]))
                return false;
        return true;
    }
    return n->kind == N_NAME || n->kind == N_NSREF;
}

jnode *jparse_target(jparser *p, const char *stop, bool with_namespace)
{
    jnode *n = parse_tuple_of(p, with_namespace ? OF_NAMESPACES : OF_TARGETS, stop, false);
    if (!p->failed && !can_assign(n))
        return jparse_fail(p, WEFT_EFORMAT, "a target that is no name; expected one");
    return p->failed ? NULL : n;
}
