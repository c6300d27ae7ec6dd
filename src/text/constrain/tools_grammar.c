/* tools_grammar.c - tools and a template's syntax as one grammar; see tools.h. */
#include "text/constrain/tools.h"

#include <string.h>

typedef struct making {
    grammar *g;
    const call_syntax *s;
    const tokenizer *t;
    const tool_rules *rules;
    weft_error *err;
    symbol middle, between, end, value[2], next, none_between, none_end;
} making;

/* ---- literals -------------------------------------------------------------------------------- */

/* The special token that text begins with, the longest one; its length or 0. */
static size_t special_at(const tokenizer *t, const char *text, size_t n, uint32_t *id)
{
    size_t longest = 0;
    for (int i = 0; i < t->n_added; i++) {
        const added *a = &t->added[i];
        if (a->special && a->length > longest && a->length <= n &&
            memcmp(text, a->content, a->length) == 0) {
            longest = a->length;
            *id = a->id;
        }
    }
    return longest;
}

static bool ends_text(const making *k, uint32_t id)
{
    for (int i = 0; i < k->rules->n_end; i++)
        if (k->rules->ends[i] == (int32_t)id)
            return true;
    return false;
}

/* The text of a hole. */
static symbol hole(const making *k, char which)
{
    static const uint32_t letters[][2] = {
        { '0', '9' }, { 'A', 'Z' }, { 'a', 'z' }, { '_', '_' }, { '-', '-' }
    };
    rx_pool *p = grammar_pool(k->g);
    return which == CALL_NUMBER
               ? grammar_lexeme(k->g, rx_repeat(p, rx_points(p, letters, 1), 1, 4))
               : grammar_lexeme(k->g, rx_repeat(p, rx_points(p, letters, 3), 9, 9));
}

/* A rule for a literal: special tokens as tokens, the rest as bytes. A token that ends a text ends
 * the literal, too. */
static symbol literal(const making *k, const call_literal *l)
{
    symbol part[LONGEST_LITERAL];
    size_t n = 0, from = 0, i = 0;
    const symbol rule = grammar_rule(k->g, "a literal of the template");
    while (i < l->n) {
        uint32_t id = 0;
        const bool open = l->at[i] == CALL_ID || l->at[i] == CALL_NUMBER;
        const size_t length = open ? 1 : special_at(k->t, l->at + i, l->n - i, &id);
        if (length == 0) {
            i++;
            continue;
        }
        if (i > from)
            part[n++] = grammar_lexeme(k->g,
                                       rx_literal(grammar_pool(k->g), l->at + from, i - from));
        if (!open && ends_text(k, id)) {
            from = i = l->n;
            break;
        }
        part[n++] = open ? hole(k, l->at[i]) : grammar_token(k->g, id, false);
        from = i += length;
    }
    if (l->n > from)
        part[n++] = grammar_lexeme(k->g, rx_literal(grammar_pool(k->g), l->at + from, l->n - from));
    grammar_add(k->g, rule, part, n);
    return rule;
}

/* Bytes in which the literal does not occur. */
static rx without(rx_pool *p, const call_literal *l)
{
    return rx_not(p, rx_seq(p, RX_ALL, rx_seq(p, rx_literal(p, l->at, l->n), RX_ALL)));
}

/* ---- arguments ------------------------------------------------------------------------------- */

static void ignore(void *user, const char *pointer, const char *keyword)
{
    (void)user, (void)pointer, (void)keyword;
}

static symbol by_schema(const making *k, const tool *t, const char *text, size_t n)
{
    const schema_options o = { .lenient = !t->strict,
                               .openai_strict = t->strict,
                               .ignored = ignore };
    const symbol s = schema_add(k->g, text, n, &o, k->err);
    if (s == NO_SYMBOL) {
        const weft_error why = *k->err;
        weft_fail(k->err, why.code, "the parameters of %s: %s", t->name, why.message);
    }
    return s;
}

/* A value between tags: a string is bare. */
static symbol bare_value(const making *k, const tool *t, const tool_argument *a)
{
    rx_pool *p = grammar_pool(k->g);
    if (!a->string)
        return by_schema(k, t, a->schema, a->n_schema);
    if (a->n_value == 0)
        return grammar_lexeme(k->g, without(p, &k->s->close));
    rx any = RX_NOTHING;
    for (size_t i = 0; i < a->n_value; i++)
        any = rx_or(p, any, rx_literal(p, a->values[i].at, a->values[i].n));
    return grammar_lexeme(k->g, any);
}

/* From argument i on: `more` if one was written before. Filled from the last to the first, so that
 * each rule needs only the next. */
static bool add_pairs(const making *k, const tool *t, symbol *first)
{
    symbol more = grammar_rule(k->g, "no more arguments"), none = NO_SYMBOL;
    grammar_add(k->g, more, NULL, 0);
    for (size_t i = t->n_argument; i-- > 0;) {
        const tool_argument *a = &t->argument[i];
        const symbol key = grammar_lexeme(k->g,
                                          rx_literal(grammar_pool(k->g), a->key, strlen(a->key)));
        const symbol value = bare_value(k, t, a), is = k->value[!a->string];
        if (value == NO_SYMBOL)
            return false;
        const symbol begins[] = { k->middle, key, is, value, more };
        const symbol follows[] = { k->next, key, is, value, more };
        const symbol rest = grammar_rule(k->g, "the first argument");
        const symbol later = grammar_rule(k->g, "a further argument");
        grammar_add(k->g, rest, begins, 5);
        grammar_add(k->g, later, follows, 5);
        if (!a->required) {
            grammar_add(k->g, later, &more, 1);
            if (none != NO_SYMBOL)
                grammar_add(k->g, rest, &none, 1);
        }
        none = rest;
        more = later;
    }
    *first = none;
    return true;
}

/* ---- calls ----------------------------------------------------------------------------------- */

static bool needs_arguments(const tool *t)
{
    for (size_t i = 0; i < t->n_argument; i++)
        if (t->argument[i].required)
            return true;
    return false;
}

/* One call of a tool: with arguments into `calls`, without any into `bare`. */
static bool add_tool(const making *k, const tool *t, symbol calls, symbol bare)
{
    const symbol name = grammar_lexeme(k->g,
                                       rx_literal(grammar_pool(k->g), t->name, strlen(t->name)));
    if (k->s->form == CALLS_JSON) {
        const symbol object = by_schema(k, t, t->schema, t->n_schema);
        const symbol right[] = { name, k->middle, object };
        grammar_add(k->g, calls, right, 3);
        return object != NO_SYMBOL;
    }
    symbol arguments = NO_SYMBOL;
    if (!add_pairs(k, t, &arguments))
        return false;
    if (arguments != NO_SYMBOL)
        grammar_add(k->g, calls, (symbol[]){ name, arguments }, 2);
    if (!needs_arguments(t))
        grammar_add(k->g, bare, &name, 1);
    return true;
}

/* begin CALL (between CALL)* end */
static symbol add_calls(making *k, const tool_list *list)
{
    grammar *g = k->g;
    const symbol call = grammar_rule(g, "a call"),
                 bare = grammar_rule(g, "a call without arguments");
    const symbol rest = grammar_rule(g, "calls"), all = grammar_rule(g, "all calls");
    const bool pairs = k->s->form == CALLS_PAIRS;
    size_t n = 0;
    for (size_t i = 0; i < list->n; i++)
        if (!k->rules->only || strcmp(list->tool[i].name, k->rules->only) == 0) {
            if (!add_tool(k, &list->tool[i], call, bare))
                return NO_SYMBOL;
            n++;
        }
    if (n == 0) {
        weft_fail(k->err, WEFT_EINVAL, "tool_choice: no tool is called %s", k->rules->only);
        return NO_SYMBOL;
    }
    grammar_add(g, rest, (symbol[]){ call, k->end }, 2);
    if (pairs)
        grammar_add(g, rest, (symbol[]){ bare, k->none_end }, 2);
    if (k->s->several && !k->rules->single) {
        grammar_add(g, rest, (symbol[]){ call, k->between, rest }, 3);
        if (pairs)
            grammar_add(g, rest, (symbol[]){ bare, k->none_between, rest }, 3);
    }
    grammar_add(g, all, (symbol[]){ literal(k, &k->s->begin), rest }, 2);
    return all;
}

static void add_literals(making *k)
{
    const call_syntax *s = k->s;
    k->middle = literal(k, &s->middle);
    k->between = literal(k, &s->between);
    k->end = literal(k, &s->end);
    if (s->form != CALLS_PAIRS)
        return;
    k->value[0] = literal(k, &s->value[0]);
    k->value[1] = literal(k, &s->value[1]);
    k->next = literal(k, &s->next);
    k->none_between = literal(k, &s->none_between);
    k->none_end = literal(k, &s->none_end);
}

grammar *tools_grammar(const tool_list *list, const call_syntax *s, const tokenizer *t,
                       const tool_rules *o, mem *m, weft_error *err)
{
    static const uint32_t blank[][2] = { { ' ', ' ' }, { '\n', '\n' } };
    const grammar_limits limits = { .text = MAX_TOOLS_TEXT };
    if (s->form == CALLS_NONE) {
        weft_fail(err, WEFT_EUNSUPPORTED,
                  "this template writes calls of tools in a form that weft does not know");
        return NULL;
    }
    grammar *g = grammar_new(m, &limits, err);
    if (!g)
        return NULL;
    making k = { .g = g, .s = s, .t = t, .rules = o, .err = err };
    add_literals(&k);
    const symbol calls = add_calls(&k, list), answer = grammar_rule(g, "an answer");
    rx_pool *p = grammar_pool(g);
    const symbol blanks = grammar_lexeme(g, rx_repeat(p, rx_points(p, blank, 2), 0, 2));
    const symbol text = o->required ? blanks : grammar_lexeme(g, without(p, &s->start));
    grammar_add(g, answer, (symbol[]){ text, calls }, 2);
    if (!o->required)
        grammar_add(g, answer, &text, 1);
    if (err->code == WEFT_OK && grammar_finish(g, answer, err) == WEFT_OK)
        return g;
    grammar_free(g);
    return NULL;
}
