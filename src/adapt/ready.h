/* ready.h - an adapter in the form that sessions compute with: found by parameter, gains divided by
 * the norms of the adapted weights. */
#ifndef WEFT_ADAPT_READY_H
#define WEFT_ADAPT_READY_H

#include "adapt/adapter.h"

typedef struct ready_adapter {
    lora_set set; /* the owner sets how it is released */
    adapter from;
} ready_adapter;

/* path: a directory as PEFT writes it. The model must be open for running and outlive the adapter.
 * After an error it must not be closed. */
weft_status ready_open(ready_adapter *to, const model *m, const char *path, weft_error *err);
void ready_close(ready_adapter *r);

#endif
