/* alignment.h - where a decoder looked in its source while it made a text, as a picture. */
#ifndef WEFT_EXPLAIN_ALIGNMENT_H
#define WEFT_EXPLAIN_ALIGNMENT_H

#include "base/buffer.h"

/* Tokens along one side of the picture, and who writes them as bytes. */
typedef struct alignment_side {
    const int32_t *ids;
    int64_t n;
    size_t (*spell)(const void *speller, int32_t id, char *to, size_t size);
    const void *speller;
} alignment_side;

typedef struct alignment {
    alignment_side source, target;
    const float *sum; /* [target.n, source.n] probabilities, added over heads and layers */
    int64_t n_sum;    /* heads that were added */
} alignment;

/* An SVG: a row for each token of the text, a column for each of the source. */
void alignment_svg(const alignment *a, buffer *b);

#endif
