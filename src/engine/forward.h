/* forward.h - shared by engine and encoder: the memory plan of a forward, made by a dry run, and
 * the run that allocates it. */
#ifndef WEFT_ENGINE_FORWARD_H
#define WEFT_ENGINE_FORWARD_H

#include "models/arch.h"

/* Peaks of the two arenas, and of an op's scratch memory. */
typedef struct forward_plan {
    size_t meta, data, scratch;
} forward_plan;

/* Who looks into the forwards of an owner; every part may be absent. */
typedef struct trace_spec {
    trace_fn *trace;
    void *trace_ud;
    hook_fn *hook;
    void *hook_ud;
    observe_fn *observe;
    void *observe_ud;
    trace_parts show;
} trace_spec;

/* One forward; `how` is the owner's. */
typedef void forward_fn(run *r, const model *m, const void *how);

/* Predicts the memory of fn for this batch, of which only the positions are read. show may be
 * NULL. */
weft_status forward_predict(const model *m, const batch *b, forward_fn *fn, const void *how,
                            const trace_parts *show, forward_plan *plan, weft_error *err);

/* Replaces r by a run of a model for such forwards. On error r is unchanged. */
weft_status forward_make(run *r, const model *m, const forward_plan *plan, const trace_parts *show,
                         pool *threads, logits_fn *read, void *ud, weft_error *err);

#define MAX_ADAPTER_RANK 4096

/* Is this a largest rank of adapters? */
weft_status rank_check(int64_t rank, weft_error *err);

/* Can sequences have this adapter, in forwards that were made for ranks up to `rank`? */
weft_status adaption_check(adaption a, int64_t rank, weft_error *err);

/* Does the run have the memory for these parts? */
bool forward_shows(const run *r, const trace_parts *show);

/* From now on w looks into the run's forwards. */
void forward_watch(run *r, const trace_spec *w);

#endif
