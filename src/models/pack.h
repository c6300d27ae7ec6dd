/* pack.h - a model's weights in panels, as products want them. */
#ifndef WEFT_MODELS_PACK_H
#define WEFT_MODELS_PACK_H

#include "base/pool.h"
#include "models/arch.h"

/* Part of opening a model and of closing it. */
weft_status pack_init(model *m, weft_error *err);
void pack_free(model *m);

/* After opening: weights stay as they are stored. */
void pack_never(model *m);

/* Are they packed, or will they be if there is room? */
bool pack_expected(const model *m);

/* Bytes that pack_weights would take now. */
size_t pack_plan(const model *m);

/* The first time: packs the weights, unless the memory cap has no room for that and `spare` bytes
 * beside, or nobody wants it. Weights that learn stay as they are. Several threads may call
 * it. */
void pack_weights(const model *m, pool *threads, size_t spare);

#endif
