/* ends.h - the tokens that end a text. A chat model has several: one for the text, one for a
 * turn. */
#ifndef WEFT_MODELS_ENDS_H
#define WEFT_MODELS_ENDS_H

#include "models/arch.h"

#define MAX_END 32

typedef struct ends {
    int32_t id[MAX_END]; /* the model's own first */
    int n;
} ends;

/* Collects all that the model's file names, and those of its generation_config.json: next to
 * config.json, or embedded in a GGUF file. */
weft_status ends_read(ends *e, const model *m, weft_error *err);

#endif
