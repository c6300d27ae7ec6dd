/* trust.c - text that may not spell special tokens, next to text that may.
 *
 * A chat prompt is one text, because merges cross the borders between what the template wrote and
 * what a user wrote. But a user who writes <|im_end|> must not end a turn. So the caller names the
 * spans that the template wrote, and the encoder asks here before it accepts a special or gated
 * token. */
#include "text/encoder.h"

/* The number of trusted spans that begin at or before `at`. */
static size_t spans_until(const encode_options *o, uint32_t at)
{
    size_t low = 0, high = o->n_trusted;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (o->trusted[middle].from <= at)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool is_gated(const encoder *e, uint32_t id)
{
    const encode_options *o = e->trust;
    if (id < e->t->vocab.n && e->t->special[id])
        return true;
    for (size_t i = 0; i < o->n_gated; i++)
        if ((uint32_t)o->gated[i] == id)
            return true;
    return false;
}

bool encoder_forges(const encoder *e, uint32_t id, uint32_t from, uint32_t to)
{
    if (!e->trust || !is_gated(e, id))
        return false;
    const size_t n = spans_until(e->trust, from);
    return n == 0 || e->trust->trusted[n - 1].to < to;
}

bool encoder_straddles(const encoder *e, uint32_t id, uint32_t from, uint32_t to)
{
    if (to <= from || !encoder_forges(e, id, from, to))
        return false;
    const size_t n = spans_until(e->trust, to - 1);
    return n > 0 && e->trust->trusted[n - 1].to > from;
}
