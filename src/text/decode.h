/* decode.h - streaming decoder: ids to text. */
#ifndef WEFT_TEXT_DECODE_H
#define WEFT_TEXT_DECODE_H

#include "text/tokenizer.h"

/* Ids in, bytes out. The output is always whole code points and is never taken back. */
typedef struct decode_stream {
    const tokenizer *t;
    bool keep_special;
    bool begun;
    uint32_t last;    /* the previous id, for CTC */
    bool space_due;   /* DECODE_SUFFIX: a space, if anything follows */
    size_t strip;     /* spaces still to be stripped from the start */
    writer a, b, out; /* out: bytes not yet returned */
    growth growth;    /* for the current token */
    regex_scratch *regex;
    mem *mem;
} decode_stream;

weft_status decode_begin(decode_stream *d, const tokenizer *t, bool keep_special, mem *m,
                         weft_error *err);

/* Adds one id. *bytes, *n are the new whole code points, valid until the next call. */
weft_status decode_push(decode_stream *d, uint32_t id, const char **bytes, size_t *n,
                        weft_error *err);

/* Returns the bytes held back, even if they are not whole code points. */
void decode_flush(decode_stream *d, const char **bytes, size_t *n);
void decode_end(decode_stream *d);

/* The bytes of a token as the decoder's steps leave them in the middle of a text. The caller has
 * begun d->growth and d->regex. */
weft_status decode_token(decode_stream *d, uint32_t id, piece *result, weft_error *err);

#endif
