/* flatten.c - makes the flat form of rules.h: writes repetitions out, finds rules that finish and rules
 * that may be empty, and leaves out what the start rule does not need. */
#include "text/constrain/rules.h"

/* ---- repetitions of rules -------------------------------------------------------------------- */

/* rule ::= right right ... right, after `before` unless that is NO_SYMBOL. */
static void add_copies(grammar *g, symbol to, symbol before, symbol right, uint32_t n)
{
    const uint32_t at = g->symbols.n;
    if (before != NO_SYMBOL)
        grammar_symbol(g, before);
    for (uint32_t i = 0; i < n && g->failure.code == WEFT_OK; i++)
        grammar_symbol(g, right);
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

/* Both properties spread alike: a production has it if all its symbols do, a rule if one of its
 * productions does. */
typedef enum property { FINISHES, EMPTY } property;

static bool symbol_has(grammar *g, symbol s, property what)
{
    switch (kind_of(s)) {
    case SYMBOL_LEXEME: {
        const rx e = lexeme_at(g, symbol_index(s));
        return what == EMPTY ? rx_matches_empty(g->pool, e) : rx_alive(g->pool, e);
    }
    case SYMBOL_TOKEN:
        return what == FINISHES;
    default:
        return what == EMPTY ? rule_at(g, symbol_index(s))->empty
                             : rule_at(g, symbol_index(s))->finishes;
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

/* What was found for another start: rules that have a property already would tell nobody. */
static void forget_properties(grammar *g)
{
    for (uint32_t i = 0; i < g->rules.n; i++)
        rule_at(g, i)->finishes = rule_at(g, i)->empty = false;
    for (uint32_t i = 0; i < g->productions.n; i++)
        production_at(g, i)->finishes = production_at(g, i)->empty = false;
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
        forget_properties(g);
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
                if (kind_of(s) != SYMBOL_RULE || rule_at(g, symbol_index(s))->reached)
                    continue;
                rule_at(g, symbol_index(s))->reached = true;
                uint32_t *next = grammar_append(g, &queue, sizeof *next);
                if (next)
                    *next = symbol_index(s);
            }
        }
        r->n_start = g->start.n - r->start;
    }
    scratch_free(&queue.room, g->mem);
}

/* May be called again with another start, which new rules may have. */
weft_status grammar_finish(grammar *g, symbol start, weft_error *err)
{
    g->right.n = g->start.n = 0;
    g->text = start;
    for (uint32_t i = 0; i < g->rules.n; i++)
        rule_at(g, i)->reached = false;
    const symbol all = grammar_rule(g, "the whole text");
    grammar_add(g, all, &start, 1);
    grammar_fold(g);
    for (uint32_t i = 0; i < g->rules.n && g->failure.code == WEFT_OK; i++)
        if (rule_at(g, i)->repeats != NO_SYMBOL && rule_at(g, i)->as == NO_SYMBOL)
            expand_repeat(g, i);
    find_properties(g);
    if (g->failure.code == WEFT_OK && rx_failed(g->pool, &g->failure) == WEFT_OK &&
        !rule_at(g, symbol_index(all))->finishes)
        grammar_failed(g, WEFT_EINVAL, "the grammar matches no text at all");
    if (g->failure.code == WEFT_OK)
        put_rules(g, symbol_index(all));
    if (g->failure.code == WEFT_OK) {
        g->first = *(const uint32_t *)g->start.room.data;
        g->whole = symbol_index(all);
    }
    if (g->failure.code != WEFT_OK && err)
        *err = g->failure;
    return g->failure.code;
}
