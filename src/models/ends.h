/* ends.h - the tokens that end a text. A chat model has several: one for the text, one for a turn. */
#ifndef WEFT_MODELS_ENDS_H
#define WEFT_MODELS_ENDS_H

#include "models/arch.h"

#define MAX_END 32

typedef struct ends {
    int32_t id[MAX_END]; /* the model's own first */
    int n;
} ends;

/* All that the model's file names, and the generation_config.json that belongs to it: beside
 * config.json, or kept in a GGUF file. */
weft_status ends_read(ends *e, const model *m, weft_error *err);

#endif
