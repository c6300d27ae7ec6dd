/* forced.c - text about which a constraint leaves no choice, such as the keys of a schema; see
 * forced.h. */
#include "engine/forced.h"

#include <string.h>

/* A bias may forbid a token: where some have one, every token is drawn. */
static bool may_force(const generation *g)
{
    const sampler *s = g->sampler;
    return g->constraint && g->tokenizer && !g->opt->draw_all && !(s && s->opt.n_bias > 0);
}

/* Takes tokens as long as they spell the text, all but the last: what follows might be part of it. A
 * tokenizer may change a text that it encodes, or put a blank before it. */
static void take_tokens(generation *g, const encoding *from, const char *text, size_t n)
{
    size_t at = 0;
    for (size_t i = 0; i + 1 < from->n; i++) {
        const char *spelled;
        const int64_t length = tokenizer_piece(g->tokenizer, from->id[i], &spelled);
        const int32_t id = (int32_t)from->id[i];
        if (length <= 0 || (size_t)length > n - at ||
            memcmp(text + at, spelled, (size_t)length) != 0 || id >= g->n_vocab ||
            generation_ends(g, id))
            return;
        at += (size_t)length;
        g->forced.id[g->forced.n++] = id;
    }
}

/* An encoder is made for each text: most texts have few forced parts, and its cache is large. */
weft_status forced_find(generation *g)
{
    char text[FORCED_MOST];
    encoding out;
    g->forced.n = g->forced.next = 0;
    if (!may_force(g))
        return WEFT_OK;
    const size_t n = constraint_forced(g->constraint, text, sizeof text, g->err);
    if (n < 2 || g->err->code != WEFT_OK)
        return g->err->code;
    encoder *e = encoder_new(g->tokenizer, g->mem, g->err);
    if (!e)
        return g->err->code;
    const encode_options o = { .no_template = true };
    if (encoder_encode(e, text, n, NULL, 0, &o, &out, g->err) == WEFT_OK)
        take_tokens(g, &out, text, n);
    encoder_free(e);
    return g->err->code;
}

bool forced_next(generation *g, int32_t *id)
{
    if (g->forced.next == g->forced.n)
        return false;
    *id = g->forced.id[g->forced.next];
    if (!constraint_allows(g->constraint, *id, g->err)) {
        g->forced.n = g->forced.next;
        return false;
    }
    g->forced.next++;
    return true;
}
