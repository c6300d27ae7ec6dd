/* pattern.c - a grammar of one regular expression. */
#include "text/constrain/rules.h"

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
