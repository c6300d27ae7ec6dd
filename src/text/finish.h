/* finish.h - what every loader does at the end. */
#ifndef WEFT_TEXT_FINISH_H
#define WEFT_TEXT_FINISH_H

#include "text/tokenizer.h"

/* Vocabulary, added tokens and steps are there: makes what finds added tokens in a text, and, unless
 * the loader has done so, the bytes of every token. */
weft_status tokenizer_finish(tokenizer *t, weft_error *err);

#endif
