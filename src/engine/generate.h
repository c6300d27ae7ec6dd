/* generate.h - generates text in one session: evaluates the prompt, draws tokens, and turns them
 * into text until something ends it.
 *
 *     token -> bytes -> stop strings -> whole code points -> the caller
 *
 * Stop strings and code points hold bytes back, so the caller gets text later than tokens, but
 * never text that a stop string takes away again. */
#ifndef WEFT_ENGINE_GENERATE_H
#define WEFT_ENGINE_GENERATE_H

#include "engine/sampler.h"
#include "engine/session.h"
#include "text/sources/pieces.h"
#include "text/tokenizer.h"

typedef struct generate_request {
    session *session;
    sampler *sampler;                 /* NULL: greedy */
    const tokenizer *tokenizer;       /* where the bytes of tokens come from; NULL: */
    const pieces *pieces;             /* the model's file */
    const weft_generate_options *opt; /* checked; ends are set */
    weft_generate_fn *fn;
    void *ud;
} generate_request;

/* Fills `to` on failure too, with what was done until then. */
weft_status generate(const generate_request *r, weft_generation *to, weft_error *err);

#endif
