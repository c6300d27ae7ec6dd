/* grammar.c - collects rules, lexemes and tokens; flatten.c makes the flat form of them. */
#include "text/constrain/rules.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ---- life ------------------------------------------------------------------------------------ */

static void fill_limits(grammar_limits *l)
{
    l->text = l->text ? l->text : 65536;
    l->depth = l->depth ? l->depth : 64;
    l->expressions = l->expressions ? l->expressions : 100000;
    l->symbols = l->symbols ? l->symbols : 100000;
    l->items = l->items ? l->items : 10000;
}

grammar *grammar_new(mem *m, const grammar_limits *limits, weft_error *err)
{
    grammar *g = mem_zalloc(m, 1, sizeof *g, "a grammar", err);
    if (!g)
        return NULL;
    g->mem = m;
    if (limits)
        g->limits = *limits;
    fill_limits(&g->limits);
    arena_init(&g->names, ARENA_GROWING, m, 0, "a grammar", err);
    g->pool = rx_pool_new(m, g->limits.expressions, err);
    if (g->pool)
        return g;
    grammar_free(g);
    return NULL;
}

void grammar_free(grammar *g)
{
    if (!g)
        return;
    list *const all[] = { &g->rules,  &g->productions, &g->symbols, &g->lexemes,
                          &g->tokens, &g->right,       &g->start };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        scratch_free(&all[i]->room, g->mem);
    arena_free(&g->names);
    rx_pool_free(g->pool);
    mem_free(g->mem, g);
}

grammar *grammar_begin(mem *m, size_t n, const grammar_limits *limits, weft_error *err)
{
    grammar *g = grammar_new(m, limits, err);
    if (g && n > g->limits.text) {
        weft_fail(err, WEFT_ELIMIT, "the text has %zu bytes; expected at most %zu", n,
                  g->limits.text);
        grammar_free(g);
        return NULL;
    }
    return g;
}

rx_pool *grammar_pool(grammar *g)
{
    return g->pool;
}

weft_status grammar_check(const grammar *g, weft_error *err)
{
    if (g->failure.code != WEFT_OK && err)
        *err = g->failure;
    return g->failure.code;
}

mem *grammar_mem(const grammar *g)
{
    return g->mem;
}

const grammar_limits *grammar_bounds(const grammar *g)
{
    return &g->limits;
}

void grammar_failed(grammar *g, weft_status code, const char *format, ...)
{
    if (g->failure.code != WEFT_OK)
        return;
    va_list args;
    va_start(args, format);
    g->failure.code = code;
    vsnprintf(g->failure.message, sizeof g->failure.message, format, args);
    va_end(args);
}

void *grammar_append(grammar *g, list *to, size_t size)
{
    if (g->failure.code != WEFT_OK)
        return NULL;
    if (to->n > 4 * g->limits.symbols) {
        grammar_failed(g, WEFT_ELIMIT,
                       "the grammar needs more than %u symbols; use smaller counts or fewer rules",
                       (unsigned)g->limits.symbols);
        return NULL;
    }
    const size_t used = (size_t)to->n * size;
    if (to->room.room < used + size &&
        !scratch_grow(&to->room, 2 * used + 16 * size, g->mem, &g->failure))
        return NULL;
    to->n++;
    return (char *)to->room.data + used;
}

/* ---- what front ends add --------------------------------------------------------------------- */

symbol grammar_rule(grammar *g, const char *name)
{
    rule *r = grammar_append(g, &g->rules, sizeof *r);
    if (!r)
        return NO_SYMBOL;
    *r = (rule){
        .first = NO_PRODUCTION, .last = NO_PRODUCTION, .repeats = NO_SYMBOL, .as = NO_SYMBOL
    };
    r->name = arena_text(&g->names, name, strlen(name), &g->failure);
    return r->name ? symbol_of(SYMBOL_RULE, g->rules.n - 1) : NO_SYMBOL;
}

symbol grammar_lexeme(grammar *g, rx expression)
{
    rx *l = grammar_append(g, &g->lexemes, sizeof *l);
    if (!l)
        return NO_SYMBOL;
    *l = expression;
    return symbol_of(SYMBOL_LEXEME, g->lexemes.n - 1);
}

symbol grammar_token(grammar *g, uint32_t id, bool negated)
{
    token_symbol *t = grammar_append(g, &g->tokens, sizeof *t);
    if (!t)
        return NO_SYMBOL;
    *t = (token_symbol){ id, negated };
    return symbol_of(SYMBOL_TOKEN, g->tokens.n - 1);
}

void grammar_symbol(grammar *g, symbol s)
{
    symbol *to = s == NO_SYMBOL ? NULL : grammar_append(g, &g->symbols, sizeof *to);
    if (!to)
        return;
    *to = s;
    if (g->symbols.n > g->limits.symbols)
        grammar_failed(g, WEFT_ELIMIT,
                       "the grammar needs more than %u symbols; use smaller counts or fewer rules",
                       (unsigned)g->limits.symbols);
}

void grammar_add(grammar *g, symbol to, const symbol *right, size_t n)
{
    const uint32_t at = g->symbols.n, index = g->productions.n;
    if (to == NO_SYMBOL)
        return;
    for (size_t i = 0; i < n && g->failure.code == WEFT_OK; i++)
        grammar_symbol(g, right[i]);
    production *p = grammar_append(g, &g->productions, sizeof *p);
    if (!p)
        return;
    *p = (production){
        .rule = symbol_index(to), .next = NO_PRODUCTION, .at = at, .n = (uint32_t)n
    };
    rule *r = rule_at(g, p->rule);
    if (r->first == NO_PRODUCTION)
        r->first = index;
    else
        production_at(g, r->last)->next = index;
    r->last = index;
}

symbol grammar_repeat(grammar *g, symbol right, uint32_t min, uint32_t max)
{
    if (right == NO_SYMBOL || max < min)
        return NO_SYMBOL;
    if (kind_of(right) == SYMBOL_LEXEME)
        return grammar_lexeme(g, rx_repeat(g->pool, lexeme_at(g, symbol_index(right)), min, max));
    const symbol s = grammar_rule(g, "repetition");
    if (s == NO_SYMBOL)
        return s;
    rule *r = rule_at(g, symbol_index(s));
    r->repeats = right;
    r->min = min;
    r->max = max;
    return s;
}

/* ---- where rules are used -------------------------------------------------------------------- */

/* Counts uses of rule r in at[r + 2]; then, with their sums in at[r + 1], enters them. */
static void visit_uses(uses *u, const grammar *g, bool enter)
{
    for (uint32_t p = 0; p < g->productions.n; p++) {
        const production *q = production_at(g, p);
        for (uint32_t i = 0; i < q->n; i++) {
            const symbol s = *symbol_at(g, q->at + i);
            if (kind_of(s) != SYMBOL_RULE)
                continue;
            if (enter)
                u->user[u->at[symbol_index(s) + 1]++] = p;
            else
                u->at[symbol_index(s) + 2]++;
        }
    }
}

bool uses_find(uses *u, grammar *g)
{
    const uint32_t n_rule = g->rules.n;
    *u = (uses){ 0 };
    u->at = mem_zalloc(g->mem, (size_t)n_rule + 2, sizeof *u->at, "a grammar", &g->failure);
    u->user = mem_zalloc(g->mem, (size_t)g->symbols.n + 1, sizeof *u->user, "a grammar",
                         &g->failure);
    if (!u->at || !u->user) {
        uses_free(u, g);
        return false;
    }
    visit_uses(u, g, false);
    for (uint32_t r = 2; r < n_rule + 2; r++)
        u->at[r] += u->at[r - 1];
    visit_uses(u, g, true);
    return true;
}

void uses_free(uses *u, grammar *g)
{
    mem_free(g->mem, u->at);
    mem_free(g->mem, u->user);
    *u = (uses){ 0 };
}
