/* forced.h - text about which a constraint leaves no choice.
 *
 *     drawn   {"         ":"  Paris ...
 *     forced      city               '":' follows, too, but is held back: '":"' is one token
 *
 * After a token that was drawn, the bytes that every continuation begins with are encoded as any
 * text is, and all of their tokens but the last follow without a draw. The last is held back, because
 * what follows might be part of it: it is drawn. So which texts are possible does not change, nor
 * does a draw, which depends on the seed and its position alone; but the tokens of such a part are the
 * tokenizer's, not those that the model would have chosen, and the rest of the text may differ.
 *
 * Tokens are the same whether they are evaluated together, or one by one for their
 * log-probabilities. */
#ifndef WEFT_ENGINE_FORCED_H
#define WEFT_ENGINE_FORCED_H

#include "engine/generation.h"

/* After a drawn token: what is forced then. */
weft_status forced_find(generation *g);

/* The next forced token, or false if there is none. */
bool forced_next(generation *g, int32_t *id);

#endif
