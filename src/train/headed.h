/* headed.h - a model that classifies, made of one that does something else: its body and its tokenizer
 * stay, its head is new. */
#ifndef WEFT_TRAIN_HEADED_H
#define WEFT_TRAIN_HEADED_H

#include "train/fresh.h"

/* Can one be made of it? It reads texts as wholes, and has no labels yet. */
bool headed_can_be(const model *m);

/* Writes it into a directory. `from`: a Hugging Face directory or a GGUF file. */
weft_status headed_write(const char *directory, const char *from, const char *const *label,
                         int64_t n_label, const fresh_source *source, weft_load load, host *h,
                         weft_error *err);

#endif
