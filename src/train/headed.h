/* headed.h - turns a pretrained model into a classifier: body and tokenizer stay, the head is
 * new. */
#ifndef WEFT_TRAIN_HEADED_H
#define WEFT_TRAIN_HEADED_H

#include "train/fresh.h"

/* Can m become a classifier? It must be an encoder without labels. */
bool headed_can_be(const model *m);

/* Writes the classifier into a directory. `from`: a Hugging Face directory or a GGUF file. */
weft_status headed_write(const char *directory, const char *from, const char *const *label,
                         int64_t n_label, const fresh_source *source, weft_load load, host *h,
                         weft_error *err);

#endif
