/* merge.h - a model with an adapter merged into its weights, as tensors that a conversion writes in
 * place of the file's:
 *
 *     W' = g (W + s B A)        b' = b + s c        see adapter.h
 *
 * Rows are computed when they are read, in double from dequantised W, and are f32. */
#ifndef WEFT_ADAPT_MERGE_H
#define WEFT_ADAPT_MERGE_H

#include "adapt/ready.h"

typedef struct merge {
    model m;
    ready_adapter ready;
    double strength;
    int64_t tied;          /* the parameter that the head shares, or -1 */
    const stored **merged; /* [m.n_param] in the model's layout; NULL: it does not change */
    const stored *head;    /* of a head that shared the embedding and no longer does; or NULL */
    bool open;             /* the adapter is */
    arena store;
    weft_error *err;
} merge;

/* base, lora: paths of the model and the adapter. One thread at a time may read the tensors. Close
 * it in any case. */
weft_status merge_open(merge *g, const char *base, const char *lora, double strength,
                       weft_load load, host *h, weft_error *err);
void merge_close(merge *g);

#endif
