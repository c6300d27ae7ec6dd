/* stop_ids.h - the tokens that end a text. A chat model has several: one for the text, one for a
 * turn. */
#ifndef WEFT_MODELS_STOP_IDS_H
#define WEFT_MODELS_STOP_IDS_H

#include "models/arch.h"

#define MAX_STOP_ID 32

typedef struct stop_ids {
    int32_t id[MAX_STOP_ID]; /* the model's own first */
    int n;
} stop_ids;

/* Collects all that the model's file names, and those of its generation_config.json: next to
 * config.json, or embedded in a GGUF file. */
weft_status stop_ids_read(stop_ids *e, const model *m, weft_error *err);

#endif
