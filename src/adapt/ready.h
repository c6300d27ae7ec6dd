/* ready.h - an adapter in the form that sessions compute with: found by parameter, gains divided by
 * the norms of the adapted weights. */
#ifndef WEFT_ADAPT_READY_H
#define WEFT_ADAPT_READY_H

#include "adapt/adapter.h"

typedef struct ready_adapter {
    lora_set set; /* the owner sets how it is released */
    adapter from;
} ready_adapter;

/* path: as of adapter_open. The model must be open for running and outlive the adapter.
 * After an error it must not be closed. */
weft_status ready_open(ready_adapter *to, const model *m, const char *path, weft_error *err);
void ready_close(ready_adapter *r);

/* For an adapter that is made in memory: a set over to->from, whose store exists, in which no weight
 * is adapted yet. */
weft_status ready_begin(ready_adapter *to, const model *m, weft_error *err);

/* Gives the set a new serial number, since its numbers have changed. */
void ready_renew(ready_adapter *r);

/* Can products with w be adapted? Experts and the parts of a latent's matrix are multiplied where
 * adapters have no place. */
bool ready_has_place(const tensor *w);

#endif
