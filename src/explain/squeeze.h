/* squeeze.h - a script without what only its readers need: comments, indentation, blanks between
 * tokens. Names and strings stay. */
#ifndef WEFT_EXPLAIN_SQUEEZE_H
#define WEFT_EXPLAIN_SQUEEZE_H

#include "base/buffer.h"

/* Appends a script, which may end in the middle of no token. */
void squeeze_script(buffer *b, const char *at, size_t n);

#endif
