/* generate.h - generates text in one session: evaluates the prompt, then draws tokens until something
 * ends the text. */
#ifndef WEFT_ENGINE_GENERATE_H
#define WEFT_ENGINE_GENERATE_H

#include "engine/generation.h"

/* g: its owner's fields are set. g->to is filled on failure too, with what was done until then. */
weft_status generate(session *s, generation *g);

#endif
