/* think.c - lets a text think before the grammar begins.
 *
 *     blanks "<think>" anything without "</think>" "</think>" blanks    the text itself
 *
 * A fence may be spelled in bytes or be one special token, which has none. */
#include "text/constrain/rules.h"
#include "text/tokenizer.h"

#include <string.h>

/* A rule for a fence. */
static symbol fence(grammar *g, const char *text, const tokenizer *t)
{
    const symbol s = grammar_rule(g, "fence");
    const symbol spelled = grammar_lexeme(g, rx_literal(g->pool, text, strlen(text)));
    grammar_add(g, s, &spelled, 1);
    const uint32_t id = t ? tokenizer_find(t, text, strlen(text)) : NO_ID;
    if (id != NO_ID && id < t->vocab.n && t->special[id]) {
        const symbol token = grammar_token(g, id, false);
        grammar_add(g, s, &token, 1);
    }
    return s;
}

weft_status grammar_think(grammar *g, const char *begin, const char *end, bool inside,
                          const tokenizer *t, weft_error *err)
{
    static const uint32_t blank[][2] = {
        { ' ', ' ' }, { '\n', '\n' }, { '\t', '\t' }, { '\r', '\r' }
    };
    rx_pool *p = g->pool;
    const rx stop = rx_literal(p, end, strlen(end));
    const rx thought = rx_not(p, rx_seq(p, RX_ALL, rx_seq(p, stop, RX_ALL)));
    const symbol blanks = grammar_lexeme(g, rx_repeat(p, rx_points(p, blank, 4), 0, 16));
    const symbol free_text = grammar_lexeme(g, thought), close = fence(g, end, t);
    const symbol start = grammar_rule(g, "thinking, then the text");
    const symbol then[] = { free_text, close, blanks, g->text };
    if (!inside)
        grammar_add(g, start, &g->text, 1);
    if (inside)
        grammar_add(g, start, then, 4);
    else if (begin) {
        const symbol all[] = { blanks, fence(g, begin, t), free_text, close, blanks, g->text };
        grammar_add(g, start, all, 6);
    }
    return grammar_finish(g, start, err);
}
