/* corpus_open.h - splits text files into documents and encodes them to ids.
 *
 * A document is encoded as `weft run` would encode it, with the special tokens that the tokenizer's
 * template adds. The end-of-text token follows, if there is one and the template has not added it.
 * All threads encode documents; the result does not depend on their number. */
#ifndef WEFT_TRAIN_CORPUS_OPEN_H
#define WEFT_TRAIN_CORPUS_OPEN_H

#include "train/corpus.h"

weft_status corpus_open(corpus *c, const char *const *path, int n_path, const corpus_options *o,
                        host *h, weft_error *err);

#endif
