/* new_head.h - turns a pretrained model into a classifier: body and tokenizer stay, the head is
 * new. */
#ifndef WEFT_TRAIN_NEW_HEAD_H
#define WEFT_TRAIN_NEW_HEAD_H

#include "train/init_model.h"

/* Can m become a classifier? It must be an encoder without labels. */
bool new_head_fits(const model *m);

/* Writes the classifier into a directory. `from`: a Hugging Face directory or a GGUF file. */
weft_status new_head_write(const char *directory, const char *from, const char *const *label,
                           int64_t n_label, const init_model_source *source, weft_load load,
                           host *h, weft_error *err);

#endif
