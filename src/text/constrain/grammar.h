/* grammar.h - what may be generated: rules over lexemes, each lexeme a regular expression.
 *
 * Three front ends build one: gbnf.c, schema.c, and a single lexeme for --regex. The language is
 * that of the context-free grammar, byte by byte; a lexeme is not matched greedily, so no order of
 * alternatives or lexemes ever changes what is allowed. Left recursion and empty rules are fine. */
#ifndef WEFT_TEXT_CONSTRAIN_GRAMMAR_H
#define WEFT_TEXT_CONSTRAIN_GRAMMAR_H

#include "text/constrain/rx.h"

typedef struct grammar grammar;
typedef uint32_t symbol; /* a rule, a lexeme or a token */

#define NO_SYMBOL UINT32_MAX

/* Limits of one grammar, a text that needs more is refused. 0: the default. */
typedef struct grammar_limits {
    size_t text;          /* bytes of source; 65,536 */
    uint32_t depth;       /* of nesting; 64 */
    uint32_t expressions; /* in the pool; 100,000 */
    uint32_t symbols;     /* on right-hand sides; 100,000 */
    uint32_t items;       /* in one Earley row; 10,000 */
} grammar_limits;

grammar *grammar_new(mem *m, const grammar_limits *limits, weft_error *err);
void grammar_free(grammar *g);

/* The same for a text of n bytes, unless that is too long. */
grammar *grammar_begin(mem *m, size_t n, const grammar_limits *limits, weft_error *err);

/* Where lexemes are built, and the budget of all of it. */
rx_pool *grammar_pool(grammar *g);
mem *grammar_mem(const grammar *g);
const grammar_limits *grammar_bounds(const grammar *g);

/* Like the pool's constructors these return NO_SYMBOL once something failed; grammar_finish reports
 * it. */
symbol grammar_rule(grammar *g, const char *name); /* without productions yet: matches nothing; the
                                                      name, for messages, is copied */
symbol grammar_lexeme(grammar *g, rx expression);
symbol grammar_token(grammar *g, uint32_t id, bool negated); /* GBNF's <[id]> and !<[id]> */
void grammar_add(grammar *g, symbol rule, const symbol *right, size_t n);

/* A rule for right{min,max}, made of left recursion; a lexeme becomes one lexeme. */
symbol grammar_repeat(grammar *g, symbol right, uint32_t min, uint32_t max);

/* WEFT_OK, or why something failed. */
weft_status grammar_check(const grammar *g, weft_error *err);

/* Sets the start rule, checks limits, finds empty rules and removes what cannot be finished. */
weft_status grammar_finish(grammar *g, symbol start, weft_error *err);

/* After grammar_finish: the text may first think, as in
 *
 *     blanks begin ... end blanks
 *
 * inside: it is thinking already, and must end that. A fence that is one token of the vocabulary may
 * also be that token. */
struct tokenizer;
weft_status grammar_think(grammar *g, const char *begin, const char *end, bool inside,
                          const struct tokenizer *t, weft_error *err);

/* Front ends. `text` in their syntax; NULL with err filled. */
/* t: finds <text> tokens; NULL: they are refused. */
grammar *gbnf_read(mem *m, const char *text, size_t n, const struct tokenizer *t,
                   const grammar_limits *limits, weft_error *err);

/* An expression as in rx_parse, for the whole text. */
grammar *pattern_read(mem *m, const char *text, size_t n, const grammar_limits *limits,
                      weft_error *err);

/* What a schema may leave open. */
typedef struct schema_options {
    bool lenient; /* ignore what is not supported and list it in `ignored`; otherwise refuse it */
    bool openai_strict; /* OpenAI's strict: additionalProperties must be false and all required */
    bool indent;        /* allow a newline and up to 8 blanks where white space may stand */
    void (*ignored)(void *user, const char *pointer, const char *keyword);
    void *user;
} schema_options;

grammar *schema_read(mem *m, const char *text, size_t n, const schema_options *o,
                     const grammar_limits *limits, weft_error *err);

/* The same for a schema inside a larger grammar (the arguments of a tool's call): a symbol of g. */
symbol schema_add(grammar *g, const char *text, size_t n, const schema_options *o, weft_error *err);

#endif
