/* pack.h - a model's weights in panels, the layout that matrix products read. */
#ifndef WEFT_MODELS_PACK_H
#define WEFT_MODELS_PACK_H

#include "base/pool.h"
#include "models/arch.h"

/* Called when a model is opened and closed. */
weft_status pack_init(model *m, weft_error *err);
void pack_free(model *m);

/* Call after opening: weights stay as stored. */
void pack_never(model *m);

/* Are they packed, or will they be if memory allows? */
bool pack_expected(const model *m);

/* Bytes that pack_weights would allocate now. */
size_t pack_plan(const model *m);

/* Packs the weights on the first call, unless packing is off or the memory cap has no room for them
 * and `spare` more bytes. Trainable weights stay as they are. Several threads may call it. */
void pack_weights(const model *m, pool *threads, size_t spare);

#endif
