/* grammar.c - collects rules, lexemes and tokens, and makes the flat form of rules.h from them. */
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

static void add_symbol(grammar *g, symbol s)
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
        add_symbol(g, right[i]);
    production *p = grammar_append(g, &g->productions, sizeof *p);
    if (!p)
        return;
    *p = (production){ .rule = index_of(to), .next = NO_PRODUCTION, .at = at, .n = (uint32_t)n };
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
        return grammar_lexeme(g, rx_repeat(g->pool, lexeme_at(g, index_of(right)), min, max));
    const symbol s = grammar_rule(g, "repetition");
    if (s == NO_SYMBOL)
        return s;
    rule *r = rule_at(g, index_of(s));
    r->repeats = right;
    r->min = min;
    r->max = max;
    return s;
}

/* ---- repetitions of rules -------------------------------------------------------------------- */

/* rule ::= right right ... right, after `before` unless that is NO_SYMBOL. */
static void add_copies(grammar *g, symbol to, symbol before, symbol right, uint32_t n)
{
    const uint32_t at = g->symbols.n;
    if (before != NO_SYMBOL)
        add_symbol(g, before);
    for (uint32_t i = 0; i < n && g->failure.code == WEFT_OK; i++)
        add_symbol(g, right);
    const uint32_t added = g->symbols.n - at;
    grammar_add(g, to, NULL, 0);
    if (g->failure.code != WEFT_OK)
        return;
    production *p = production_at(g, g->productions.n - 1);
    p->at = at;
    p->n = added;
}

/* Left recursion keeps rows small: after the n-th repetition only one counter is under way.
 *
 *     x*       r ::= | r x
 *     x{m,}    r ::= x ... x | r x
 *     x{m,n}   r ::= e(m) | ... | e(n)    e(i) ::= e(i - 1) x    e(0) ::=            */
static void expand_repeat(grammar *g, uint32_t index)
{
    const rule r = *rule_at(g, index);
    const symbol to = symbol_of(SYMBOL_RULE, index), x = r.repeats;
    rule_at(g, index)->repeats = NO_SYMBOL;
    if (r.max == RX_MANY || r.max == r.min) {
        add_copies(g, to, NO_SYMBOL, x, r.min);
        if (r.max == RX_MANY)
            add_copies(g, to, to, x, 1);
        return;
    }
    symbol count = grammar_rule(g, r.name);
    grammar_add(g, count, NULL, 0);
    for (uint32_t i = 0;; i++) {
        if (i >= r.min)
            grammar_add(g, to, &count, 1);
        if (i == r.max || g->failure.code != WEFT_OK)
            return;
        const symbol next = grammar_rule(g, r.name);
        add_copies(g, next, count, x, 1);
        count = next;
    }
}

/* ---- which rules finish, which may be empty -------------------------------------------------- */

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
                u->user[u->at[index_of(s) + 1]++] = p;
            else
                u->at[index_of(s) + 2]++;
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

/* Both properties spread alike: a production has it if all its symbols do, a rule if one of its
 * productions does. */
typedef enum property { FINISHES, EMPTY } property;

static bool symbol_has(grammar *g, symbol s, property what)
{
    switch (kind_of(s)) {
    case SYMBOL_LEXEME: {
        const rx e = lexeme_at(g, index_of(s));
        return what == EMPTY ? rx_matches_empty(g->pool, e) : rx_alive(g->pool, e);
    }
    case SYMBOL_TOKEN:
        return what == FINISHES;
    default:
        return what == EMPTY ? rule_at(g, index_of(s))->empty : rule_at(g, index_of(s))->finishes;
    }
}

/* A production has the property now: does its rule learn of it for the first time? */
static bool mark_has(grammar *g, production *p, property what)
{
    rule *r = rule_at(g, p->rule);
    bool *mine = what == EMPTY ? &p->empty : &p->finishes;
    bool *its = what == EMPTY ? &r->empty : &r->finishes;
    const bool fresh = !*its;
    *mine = *its = true;
    return fresh;
}

/* lacking[p]: symbols of production p without the property; queue: rules that have just got it. */
static void spread(grammar *g, const uses *u, property what, uint32_t *lacking, uint32_t *queue)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < g->productions.n; i++) {
        production *p = production_at(g, i);
        lacking[i] = 0;
        for (uint32_t k = 0; k < p->n; k++) {
            const symbol s = *symbol_at(g, p->at + k);
            lacking[i] += kind_of(s) == SYMBOL_RULE || !symbol_has(g, s, what);
        }
        if (lacking[i] == 0 && mark_has(g, p, what))
            queue[n++] = p->rule;
    }
    for (uint32_t at = 0; at < n; at++)
        for (uint32_t k = u->at[queue[at]]; k < u->at[queue[at] + 1]; k++) {
            production *p = production_at(g, u->user[k]);
            if (--lacking[u->user[k]] == 0 && mark_has(g, p, what))
                queue[n++] = p->rule;
        }
}

static void find_properties(grammar *g)
{
    uses u;
    if (g->failure.code != WEFT_OK || !uses_find(&u, g))
        return;
    uint32_t *lacking = mem_zalloc(g->mem, (size_t)g->productions.n + 1, sizeof *lacking,
                                   "a grammar", &g->failure);
    uint32_t *queue = mem_zalloc(g->mem, (size_t)g->rules.n + 1, sizeof *queue, "a grammar",
                                 &g->failure);
    if (lacking && queue) {
        spread(g, &u, FINISHES, lacking, queue);
        spread(g, &u, EMPTY, lacking, queue);
    }
    mem_free(g->mem, lacking);
    mem_free(g->mem, queue);
    uses_free(&u, g);
}

/* ---- the flat form --------------------------------------------------------------------------- */

static void put_right(grammar *g, symbol s)
{
    symbol *to = grammar_append(g, &g->right, sizeof *to);
    if (to)
        *to = s;
}

/* The symbols of a production, then its end. */
static void put_production(grammar *g, const production *p)
{
    uint32_t *dot = grammar_append(g, &g->start, sizeof *dot);
    if (!dot)
        return;
    *dot = g->right.n;
    for (uint32_t i = 0; i < p->n; i++)
        put_right(g, *symbol_at(g, p->at + i));
    put_right(g, symbol_of(SYMBOL_END, p->rule));
}

/* Writes the productions of every rule that the start rule reaches, in that order. */
static void put_rules(grammar *g, uint32_t start)
{
    list queue = { 0 };
    uint32_t *first = grammar_append(g, &queue, sizeof *first);
    if (first)
        *first = start;
    rule_at(g, start)->reached = true;
    for (uint32_t at = 0; at < queue.n && g->failure.code == WEFT_OK; at++) {
        rule *r = rule_at(g, ((const uint32_t *)queue.room.data)[at]);
        r->start = g->start.n;
        for (uint32_t p = r->first; p != NO_PRODUCTION; p = production_at(g, p)->next) {
            const production *q = production_at(g, p);
            if (!q->finishes)
                continue;
            put_production(g, q);
            for (uint32_t i = 0; i < q->n; i++) {
                const symbol s = *symbol_at(g, q->at + i);
                if (kind_of(s) != SYMBOL_RULE || rule_at(g, index_of(s))->reached)
                    continue;
                rule_at(g, index_of(s))->reached = true;
                uint32_t *next = grammar_append(g, &queue, sizeof *next);
                if (next)
                    *next = index_of(s);
            }
        }
        r->n_start = g->start.n - r->start;
    }
    scratch_free(&queue.room, g->mem);
}

weft_status grammar_finish(grammar *g, symbol start, weft_error *err)
{
    const symbol all = grammar_rule(g, "the whole text");
    grammar_add(g, all, &start, 1);
    grammar_fold(g);
    for (uint32_t i = 0; i < g->rules.n && g->failure.code == WEFT_OK; i++)
        if (rule_at(g, i)->repeats != NO_SYMBOL && rule_at(g, i)->as == NO_SYMBOL)
            expand_repeat(g, i);
    find_properties(g);
    if (g->failure.code == WEFT_OK && rx_failed(g->pool, &g->failure) == WEFT_OK &&
        !rule_at(g, index_of(all))->finishes)
        grammar_failed(g, WEFT_EINVAL, "the grammar matches no text at all");
    if (g->failure.code == WEFT_OK)
        put_rules(g, index_of(all));
    if (g->failure.code == WEFT_OK) {
        g->first = *(const uint32_t *)g->start.room.data;
        g->whole = index_of(all);
    }
    if (g->failure.code != WEFT_OK && err)
        *err = g->failure;
    return g->failure.code;
}

grammar *pattern_read(mem *m, const char *text, size_t n, const grammar_limits *limits,
                      weft_error *err)
{
    grammar *g = grammar_begin(m, n, limits, err);
    if (!g)
        return NULL;
    const rx e = rx_parse(g->pool, text, n, 0, err);
    if (err->code == WEFT_OK && grammar_finish(g, grammar_lexeme(g, e), err) == WEFT_OK)
        return g;
    grammar_free(g);
    return NULL;
}
