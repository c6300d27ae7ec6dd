/* stop.h - ends a text at the first of several stop strings, however the text is cut into pieces.
 *
 * Each string is matched by Knuth, Morris and Pratt: its first `matched` bytes are the end of the
 * text so far. The longest such match is held back: it may become a stop string, and no earlier
 * byte can. So the cuts affect when text is emitted, but not which text. */
#ifndef WEFT_TEXT_STOP_H
#define WEFT_TEXT_STOP_H

#include "base/buffer.h"

typedef struct stop_string {
    const char *text;
    size_t n, matched;
    size_t *shorter; /* [n]: after i + 1 bytes, the longest proper suffix that is also a prefix */
} stop_string;

typedef struct stop {
    mem *mem;
    stop_string *string;
    int n_string;
    int hit;    /* which string, or -1 */
    buffer out; /* the bytes that the last call emitted, then those held back */
    size_t given;
} stop;

weft_status stop_init(stop *s, mem *m, const char *const *strings, int n, weft_error *err);
void stop_free(stop *s);

/* The emitted text is valid until the next call. */
weft_status stop_push(stop *s, const char *bytes, size_t n, const char **out, size_t *out_length,
                      weft_error *err);

/* At the end: emits the bytes held back, and resets for a new text. */
void stop_flush(stop *s, const char **out, size_t *out_length);

#endif
