/* stop.h - ends a text where one of several strings occurs, however it is cut into pieces.
 *
 * Each string is followed by Knuth, Morris and Pratt: `matched` bytes of it are the end of the text
 * so far. The longest such match is what is held back: it may become a stop string, and nothing
 * before it can. So what is given out does not depend on the cuts, apart from when it comes. */
#ifndef WEFT_TEXT_STOP_H
#define WEFT_TEXT_STOP_H

#include "base/buffer.h"

typedef struct stop_string {
    const char *text;
    size_t n, matched;
    size_t *shorter; /* [n]: after i + 1 bytes, the longest proper end that is also a beginning */
} stop_string;

typedef struct stop {
    mem *mem;
    stop_string *string;
    int n_string;
    int hit;    /* which string, or -1 */
    buffer out; /* given out by the last call, then what is held back */
    size_t given;
} stop;

weft_status stop_init(stop *s, mem *m, const char *const *strings, int n, weft_error *err);
void stop_free(stop *s);

/* What can be given out lives until the next call. */
weft_status stop_push(stop *s, const char *bytes, size_t n, const char **out, size_t *out_length,
                      weft_error *err);

/* At the end: what was held back. Then the text begins anew. */
void stop_flush(stop *s, const char **out, size_t *out_length);

#endif
