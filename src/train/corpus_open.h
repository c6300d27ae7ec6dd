/* corpus_open.h - files of text become documents, documents become ids.
 *
 * A document is encoded as `weft run` would encode it, with what its template puts around a text;
 * then comes the end-of-text token, where there is one and it is not there yet. Documents are
 * encoded by all threads, and what comes out depends on none of them. */
#ifndef WEFT_TRAIN_CORPUS_OPEN_H
#define WEFT_TRAIN_CORPUS_OPEN_H

#include "train/corpus.h"

weft_status corpus_open(corpus *c, const char *const *path, int n_path, const corpus_options *o,
                        host *h, weft_error *err);

#endif
