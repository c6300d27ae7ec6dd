/* finish.h - the last stage of every loader. */
#ifndef WEFT_TEXT_FINISH_H
#define WEFT_TEXT_FINISH_H

#include "text/tokenizer.h"

/* Call once vocabulary, added tokens and steps are loaded. Builds the automata that find added
 * tokens in a text and, unless the loader has done so, the bytes of every token. */
weft_status tokenizer_finish(tokenizer *t, weft_error *err);

#endif
