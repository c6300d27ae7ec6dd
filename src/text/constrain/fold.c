/* fold.c - turns small regular rules into lexemes.
 *
 * A rule whose productions contain only lexemes, or rules that were themselves folded, is regular,
 * and one automaton can match it: rows then have one item instead of dozens. A rule may also call
 * itself, if always at the end or always at the start:
 *
 *     r ::= a r | b      a* b           r ::= r a | b      b a*
 *
 * The size of the result, its number of byte sets with counts multiplied out, is limited: nested
 * counts in one lexeme would need a state of the automaton for every combination. */
#include "text/constrain/rules.h"

#define FOLD_MOST 256

typedef enum recursion { NOT_CALLED, AT_START, AT_END, ELSEWHERE } recursion;

/* Where a rule calls itself. */
static recursion calls_itself(const grammar *g, uint32_t index)
{
    recursion where = NOT_CALLED;
    const symbol self = symbol_of(SYMBOL_RULE, index);
    for (uint32_t p = rule_at(g, index)->first; p != NO_PRODUCTION; p = production_at(g, p)->next) {
        const production *q = production_at(g, p);
        uint32_t times = 0, last = 0;
        for (uint32_t i = 0; i < q->n; i++)
            if (*symbol_at(g, q->at + i) == self) {
                times++;
                last = i;
            }
        if (times == 0 || q->n == 1)
            continue;
        const recursion here = times > 1         ? ELSEWHERE
                               : last == 0       ? AT_START
                               : last + 1 < q->n ? ELSEWHERE
                                                 : AT_END;
        if (where != NOT_CALLED && where != here)
            return ELSEWHERE;
        where = here;
    }
    return where;
}

/* The expression of a symbol: a lexeme, a folded rule. */
static rx expression_of(const grammar *g, symbol s)
{
    const symbol l = kind_of(s) == SYMBOL_RULE ? rule_at(g, symbol_index(s))->as : s;
    return lexeme_at(g, symbol_index(l));
}

/* The productions of a rule as one expression. */
static rx productions_as_one(grammar *g, uint32_t index, recursion where)
{
    const symbol self = symbol_of(SYMBOL_RULE, index);
    rx once = RX_NOTHING, again = RX_NOTHING;
    for (uint32_t p = rule_at(g, index)->first; p != NO_PRODUCTION; p = production_at(g, p)->next) {
        const production *q = production_at(g, p);
        rx all = RX_EMPTY;
        bool calls = false;
        for (uint32_t i = q->n; i-- > 0;) {
            const symbol s = *symbol_at(g, q->at + i);
            if (s == self)
                calls = true;
            else
                all = rx_seq(g->pool, expression_of(g, s), all);
        }
        if (calls)
            again = rx_or(g->pool, again, all);
        else
            once = rx_or(g->pool, once, all);
    }
    if (where == NOT_CALLED)
        return once;
    const rx many = rx_repeat(g->pool, again, 0, RX_MANY);
    return where == AT_START ? rx_seq(g->pool, once, many) : rx_seq(g->pool, many, once);
}

/* What the sizes of its parts promise, before anything is built. */
static uint64_t size_of(const grammar *g, uint32_t index)
{
    const rule *r = rule_at(g, index);
    if (r->repeats != NO_SYMBOL) {
        const uint64_t times = r->max == RX_MANY ? (uint64_t)r->min + 1 : r->max;
        return times * rx_size(g->pool, expression_of(g, r->repeats));
    }
    uint64_t size = 0;
    for (uint32_t p = r->first; p != NO_PRODUCTION; p = production_at(g, p)->next) {
        const production *q = production_at(g, p);
        for (uint32_t i = 0; i < q->n && size <= FOLD_MOST; i++) {
            const symbol s = *symbol_at(g, q->at + i);
            size += s == symbol_of(SYMBOL_RULE, index) ? 0 : rx_size(g->pool, expression_of(g, s));
        }
    }
    return size;
}

/* All symbols that a rule needs are lexemes now. False if the result would be too large. */
static bool fold_rule(grammar *g, uint32_t index)
{
    const rule r = *rule_at(g, index);
    if (size_of(g, index) > FOLD_MOST)
        return false;
    const rx e = r.repeats != NO_SYMBOL
                     ? rx_repeat(g->pool, expression_of(g, r.repeats), r.min, r.max)
                     : productions_as_one(g, index, calls_itself(g, index));
    const symbol l = grammar_lexeme(g, e);
    rule_at(g, index)->as = l;
    return l != NO_SYMBOL;
}

/* ---- in the order of dependence -------------------------------------------------------------- */

#define NEVER UINT32_MAX

typedef struct folding {
    uses uses;
    uint32_t *lacking; /* [rules] symbols that are not lexemes yet; NEVER: it will not be folded */
    uint32_t *queue, n;
    uint32_t *repeated; /* [rules] first repetition of this rule, and */
    uint32_t *next;     /* the next of the same */
} folding;

static void count_lacking(folding *f, const grammar *g, uint32_t index)
{
    const rule *r = rule_at(g, index);
    uint32_t lacking = 0;
    bool never = calls_itself(g, index) == ELSEWHERE;
    for (uint32_t p = r->first; p != NO_PRODUCTION; p = production_at(g, p)->next) {
        const production *q = production_at(g, p);
        for (uint32_t i = 0; i < q->n; i++) {
            const symbol s = *symbol_at(g, q->at + i);
            never = never || kind_of(s) == SYMBOL_TOKEN;
            lacking += kind_of(s) == SYMBOL_RULE && symbol_index(s) != index;
        }
    }
    if (r->repeats != NO_SYMBOL) {
        never = never || kind_of(r->repeats) != SYMBOL_RULE;
        lacking++;
        if (!never) {
            f->next[index] = f->repeated[symbol_index(r->repeats)];
            f->repeated[symbol_index(r->repeats)] = index;
        }
    }
    f->lacking[index] = never ? NEVER : lacking;
}

static void one_less(folding *f, uint32_t index)
{
    if (f->lacking[index] != NEVER && --f->lacking[index] == 0)
        f->queue[f->n++] = index;
}

static void fold_all(folding *f, grammar *g)
{
    const uint32_t n_rule = g->rules.n;
    for (uint32_t i = 0; i < n_rule; i++)
        f->repeated[i] = NEVER;
    for (uint32_t i = 0; i < n_rule; i++)
        count_lacking(f, g, i);
    for (uint32_t i = 0; i < n_rule; i++)
        if (f->lacking[i] == 0)
            f->queue[f->n++] = i;
    for (uint32_t at = 0; at < f->n && g->failure.code == WEFT_OK; at++) {
        const uint32_t index = f->queue[at];
        if (!fold_rule(g, index))
            continue;
        for (uint32_t k = f->uses.at[index]; k < f->uses.at[index + 1]; k++) {
            const uint32_t user = production_at(g, f->uses.user[k])->rule;
            if (user != index)
                one_less(f, user);
        }
        for (uint32_t r = f->repeated[index]; r != NEVER; r = f->next[r])
            one_less(f, r);
    }
}

/* Replaces folded rules by their lexemes, and joins lexemes that stand beside each other. */
static void join_lexemes(grammar *g, production *p)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < p->n; i++) {
        symbol s = *symbol_at(g, p->at + i);
        if (kind_of(s) == SYMBOL_RULE && rule_at(g, symbol_index(s))->as != NO_SYMBOL)
            s = rule_at(g, symbol_index(s))->as;
        symbol *before = n > 0 ? symbol_at(g, p->at + n - 1) : NULL;
        if (before && kind_of(*before) == SYMBOL_LEXEME && kind_of(s) == SYMBOL_LEXEME) {
            const rx a = lexeme_at(g, symbol_index(*before)), b = lexeme_at(g, symbol_index(s));
            if (rx_size(g->pool, a) + rx_size(g->pool, b) <= FOLD_MOST) {
                const symbol both = grammar_lexeme(g, rx_seq(g->pool, a, b));
                if (both == NO_SYMBOL)
                    return;
                *before = both;
                continue;
            }
        }
        *symbol_at(g, p->at + n++) = s;
    }
    p->n = n;
}

void grammar_fold(grammar *g)
{
    folding f = { 0 };
    if (g->failure.code != WEFT_OK || !uses_find(&f.uses, g))
        return;
    const size_t n = (size_t)g->rules.n + 1;
    f.lacking = mem_zalloc(g->mem, 4 * n, sizeof *f.lacking, "a grammar", &g->failure);
    if (f.lacking) {
        f.queue = f.lacking + n;
        f.repeated = f.queue + n;
        f.next = f.repeated + n;
        fold_all(&f, g);
    }
    for (uint32_t i = 0; i < g->productions.n && g->failure.code == WEFT_OK; i++)
        join_lexemes(g, production_at(g, i));
    for (uint32_t i = 0; i < g->rules.n; i++) {
        rule *r = rule_at(g, i);
        if (r->repeats != NO_SYMBOL && kind_of(r->repeats) == SYMBOL_RULE &&
            rule_at(g, symbol_index(r->repeats))->as != NO_SYMBOL)
            r->repeats = rule_at(g, symbol_index(r->repeats))->as;
    }
    mem_free(g->mem, f.lacking);
    uses_free(&f.uses, g);
}
