/* sampler_constrain.c - leaves out tokens that a constraint refuses.
 *
 * Refused tokens get the score -inf before anything is ordered, so they have no place, and no step
 * needs to know. But a whole mask is only needed where a step looks at all tokens. Greedy decoding
 * and top_k look at the best k: those are asked one by one, in order, until k are allowed, and all
 * that tie with the last; whatever is worse is cut anyway. The result is the same, bit for bit. Where
 * the stages of a pick are watched, the mask is always whole, so that the stage after it is. */
#include "engine/sampler.h"

#include <math.h>

#define ASKED_MOST 32 /* tokens that are asked one by one; a mask costs about as much */

/* How many of the best tokens the first cutting step keeps; 0: it needs all. */
static int64_t best_wanted(const sampler *s)
{
    for (int i = 0; i < s->n_step; i++) {
        if (s->chain[i]->scores)
            continue;
        if (strcmp(s->chain[i]->name, "temperature") != 0)
            return strcmp(s->chain[i]->name, "top_k") == 0 ? s->opt.top_k : 0;
        if (s->opt.temperature == 0)
            return 1;
    }
    return 0;
}

static weft_status apply_mask(sampler *s, weft_error *err)
{
    if (constraint_mask(s->constraint, s->allowed, s->n_vocab, err) != WEFT_OK)
        return err->code;
    for (int64_t at = 0; at < s->n_vocab; at += 64) {
        const int64_t n = s->n_vocab - at < 64 ? s->n_vocab - at : 64;
        const uint64_t word = s->allowed[at / 64];
        for (int64_t i = 0; word != UINT64_MAX && i < n; i++)
            s->z[at + i] = word >> i & 1 ? s->z[at + i] : -INFINITY;
    }
    order_begin(&s->order, s->z, s->n_vocab, s->places);
    return WEFT_OK;
}

/* Asks for the best tokens in order. False if that takes too long. */
static bool ask_best(sampler *s, int64_t wanted, weft_error *err)
{
    int32_t refused[ASKED_MOST];
    int64_t n_refused = 0, found = 0;
    float last = 0;
    for (int64_t i = 0; i < s->order.n; i++) {
        order_lead(&s->order, i + 1);
        if (found >= wanted && order_score(&s->order, i) != last)
            break;
        const int32_t id = order_id(&s->order, i);
        if (i == ASKED_MOST)
            return false;
        if (constraint_allows(s->constraint, id, err)) {
            found++;
            last = order_score(&s->order, i);
        } else {
            refused[n_refused++] = id;
        }
        if (err->code != WEFT_OK)
            return true;
    }
    for (int64_t i = 0; i < n_refused; i++)
        s->z[refused[i]] = -INFINITY;
    if (n_refused > 0)
        order_begin(&s->order, s->z, s->n_vocab, s->places);
    return true;
}

weft_status sampler_order(sampler *s, weft_error *err)
{
    const int64_t wanted = s->constraint ? best_wanted(s) : 0;
    order_begin(&s->order, s->z, s->n_vocab, s->places);
    if (s->order.n == 0)
        return weft_fail(err, WEFT_ENUMERIC, "all logits are -inf; no token can be sampled");
    if (!s->constraint)
        return WEFT_OK;
    if (s->watch || wanted == 0 || wanted > ASKED_MOST / 2 || !ask_best(s, wanted, err))
        apply_mask(s, err);
    if (err->code == WEFT_OK && s->order.n == 0)
        return weft_fail(err, WEFT_EUNSUPPORTED,
                         "no token of the vocabulary continues the text as the constraint demands");
    return err->code;
}
