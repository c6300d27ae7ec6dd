/* forward.h - what the engine and the encoder share: the plan of a forward's memory, made by a dry run,
 * and the run that takes it. */
#ifndef WEFT_ENGINE_FORWARD_H
#define WEFT_ENGINE_FORWARD_H

#include "models/arch.h"

/* Peaks of the two arenas, and of what an op takes while it runs. */
typedef struct forward_plan {
    size_t meta, data, scratch;
} forward_plan;

/* One forward; `how` is the owner's. */
typedef void forward_fn(run *r, const model *m, const void *how);

/* What fn takes for this batch, which need not exist beyond its positions. */
weft_status forward_predict(const model *m, const batch *b, forward_fn *fn, const void *how,
                            bool maps, forward_plan *plan, weft_error *err);

/* Makes the run of a model for such forwards, in place of the one that r has, if any. On error r is
 * as it was. */
weft_status forward_make(run *r, const model *m, const forward_plan *plan, bool maps, pool *threads,
                         logits_fn *read, void *ud, weft_error *err);

#endif
