/* generation.h - one text as it is generated: draws a token, and turns it into text until something
 * ends it. The loop around it is generate.c's for one session, scheduler.c's for many.
 *
 *     token -> bytes -> stop strings -> whole code points -> the caller
 *
 * Stop strings and code points hold bytes back, so the caller gets text later than tokens, but
 * never text that a stop string takes away again. */
#ifndef WEFT_ENGINE_GENERATION_H
#define WEFT_ENGINE_GENERATION_H

#include "engine/sampler.h"
#include "engine/session.h"
#include "text/scratch.h"
#include "text/sources/pieces.h"
#include "text/stop.h"
#include "text/tokenizer.h"

#define FORCED_MOST 256 /* bytes, and tokens, that are forced at a time */

/* Tokens that follow without a draw: see forced.h. */
typedef struct forced_tokens {
    int32_t id[FORCED_MOST];
    int n, next;
} forced_tokens;

typedef struct generation {
    /* set by the owner */
    mem *mem;
    int64_t n_vocab;
    sampler *sampler;                 /* NULL: greedy */
    const tokenizer *tokenizer;       /* where the bytes of tokens come from; NULL: */
    const pieces *pieces;             /* the model's file */
    const weft_generate_options *opt; /* checked; ends are set */
    constraint *constraint;           /* or NULL */
    weft_generate_fn *fn;             /* or NULL */
    void *ud;
    weft_error *err; /* of all calls; lives as long as the generation */

    stop stop;
    buffer held;       /* bytes that await the rest of their code point, then those shown last */
    size_t shown;      /* bytes of `held` that the last call showed */
    scratch piece;     /* bytes of a token of the model's file */
    weft_logprob *top; /* [1 + n_top]; NULL: not requested */
    forced_tokens forced;
    scratch allowed;    /* a mask, if a greedy choice was refused */
    weft_generation to; /* what the caller learns at the end; finish ends the text */
} generation;

/* Stop strings are copied. On error, generation_end frees the rest. */
weft_status generation_begin(generation *g);
void generation_end(generation *g);

/* The next token after a session with logits, and its log-probabilities. It is drawn, unless it is
 * forced. Several generations may draw at a time. */
weft_status generation_draw(generation *g, session *s, int32_t *id);

/* A forced token that needs no logits, to be put and then evaluated together with the one before it.
 * False: there is none. */
bool generation_skip_draw(generation *g, int32_t *id);

static inline bool is_listed(const int32_t *list, int n, int32_t id)
{
    for (int i = 0; i < n; i++)
        if (list[i] == id)
            return true;
    return false;
}

/* Does this token end the text? */
static inline bool generation_ends(const generation *g, int32_t id)
{
    const weft_generate_options *o = g->opt;
    return (!o->ignore_end && is_listed(o->ends, o->n_end, id)) ||
           is_listed(o->stop_ids, o->n_stop_id, id);
}

/* Counts a token and passes it to the caller, unless it ends the text. */
weft_status generation_put(generation *g, int32_t id);

/* At the end: passes on what is held back. */
weft_status generation_rest(generation *g);

#endif
