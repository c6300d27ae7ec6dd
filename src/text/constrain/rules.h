/* rules.h - the inside of a grammar: what front ends added, and the flat form that rows run on.
 *
 * grammar_finish writes every production that can be used into one array, each followed by the rule
 * that it completes:
 *
 *     right:   "[" list "]" END(array)  item END(list)  list "," item END(list)  ...
 *                   ^dot
 *
 * So one number, the dot, says which production an item belongs to and how far it is. */
#ifndef WEFT_TEXT_CONSTRAIN_RULES_H
#define WEFT_TEXT_CONSTRAIN_RULES_H

#include "base/arena.h"
#include "text/constrain/grammar.h"
#include "text/scratch.h"

/* The two high bits of a symbol. */
typedef enum symbol_kind { SYMBOL_RULE, SYMBOL_LEXEME, SYMBOL_TOKEN, SYMBOL_END } symbol_kind;

#define SYMBOL_INDEX ((symbol)0x3FFFFFFF)

static inline symbol_kind kind_of(symbol s)
{
    return (symbol_kind)(s >> 30);
}

static inline uint32_t symbol_index(symbol s)
{
    return s & SYMBOL_INDEX;
}

static inline symbol symbol_of(symbol_kind kind, uint32_t index)
{
    return (symbol)kind << 30 | index;
}

#define NO_PRODUCTION UINT32_MAX

typedef struct rule {
    const char *name;
    uint32_t first, last; /* productions as they were added, linked; NO_PRODUCTION: none */
    symbol repeats;       /* the rule is repeats{min,max}; NO_SYMBOL: it has productions */
    uint32_t min, max;
    symbol as;      /* the lexeme that the rule was folded into; NO_SYMBOL: none */
    bool finishes;  /* matches some text */
    bool empty;     /* matches the empty text */
    bool reached;   /* from the start rule */
    uint32_t start; /* where its dots are in `start`, after grammar_finish */
    uint32_t n_start;
} rule;

typedef struct production {
    uint32_t rule, next;
    uint32_t at, n; /* its symbols */
    bool finishes, empty;
} production;

typedef struct token_symbol {
    uint32_t id;
    bool negated;
} token_symbol;

/* A growing array of `n` entries. */
typedef struct list {
    scratch room;
    uint32_t n;
} list;

struct grammar {
    mem *mem;
    arena names;
    grammar_limits limits;
    rx_pool *pool;
    list rules, productions, symbols; /* rule, production, symbol */
    list lexemes, tokens;             /* rx, token_symbol */
    weft_error failure;               /* the first */

    /* after grammar_finish */
    list right;     /* symbol: productions with their ends */
    list start;     /* uint32_t: dots at the beginning of productions, by rule */
    symbol text;    /* what grammar_finish was given */
    uint32_t first; /* the dot at which everything begins */
    uint32_t whole; /* the rule of the whole text */
};

static inline rule *rule_at(const grammar *g, uint32_t i)
{
    return (rule *)g->rules.room.data + i;
}

static inline production *production_at(const grammar *g, uint32_t i)
{
    return (production *)g->productions.room.data + i;
}

static inline symbol *symbol_at(const grammar *g, uint32_t i)
{
    return (symbol *)g->symbols.room.data + i;
}

static inline rx lexeme_at(const grammar *g, uint32_t i)
{
    return ((const rx *)g->lexemes.room.data)[i];
}

static inline const token_symbol *token_at(const grammar *g, uint32_t i)
{
    return (const token_symbol *)g->tokens.room.data + i;
}

/* Room for one more entry, which counts from now on. NULL: the grammar has failed. */
void *grammar_append(grammar *g, list *to, size_t size);

/* Appends to `symbols`, which grammar_add does for a whole production. */
void grammar_symbol(grammar *g, symbol s);

/* Notes the first failure. */
void grammar_failed(grammar *g, weft_status code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Turns rules that are regular and small into lexemes; see fold.c. */
void grammar_fold(grammar *g);

/* Where each rule is used: the productions whose symbols it is among, one entry for each time.
 * Entries of rule r are user[at[r]] to user[at[r + 1]]. */
typedef struct uses {
    uint32_t *at, *user;
} uses;

bool uses_find(uses *u, grammar *g);
void uses_free(uses *u, grammar *g);

#endif
