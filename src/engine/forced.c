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

/* Where the text begins: at 0, or after the token of the line end before it. */
static size_t first_token(const tokenizer *t, const encoding *from)
{
    for (size_t i = 0; i < from->n && i < 2 && !t->byte_level; i++) {
        const char *spelled;
        const int64_t n = tokenizer_piece(t, from->id[i], &spelled);
        if (n > 0 && spelled[n - 1] == '\n')
            return i + 1;
    }
    return t->byte_level ? 0 : from->n;
}

/* Takes tokens as long as they spell the text, all but the last: what follows might be part of
 * it. A tokenizer may change a text that it encodes. */
static void take_tokens(generation *g, const encoding *from, const char *text, size_t n)
{
    size_t at = 0;
    for (size_t i = first_token(g->tokenizer, from); i + 1 < from->n; i++) {
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

/* A tokenizer of words may begin every text with a blank: it encodes a line end first. */
static weft_status encode_text(generation *g, const char *line, size_t n)
{
    const encode_options o = { .no_template = true };
    const bool plain = g->tokenizer->byte_level;
    encoding out;
    encoder *e = encoder_new(g->tokenizer, g->mem, g->err);
    if (!e)
        return g->err->code;
    if (encoder_encode(e, line + plain, n - plain, NULL, 0, &o, &out, g->err) == WEFT_OK)
        take_tokens(g, &out, line + 1, n - 1);
    encoder_free(e);
    return g->err->code;
}

/* An encoder is made for each text: most texts have few forced parts, and its cache is large. */
weft_status forced_find(generation *g)
{
    char line[1 + FORCED_MOST] = "\n";
    g->forced.n = g->forced.next = 0;
    if (!may_force(g))
        return WEFT_OK;
    const size_t n = constraint_forced(g->constraint, line + 1, FORCED_MOST, g->err);
    return n < 2 || g->err->code != WEFT_OK ? g->err->code : encode_text(g, line, 1 + n);
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
