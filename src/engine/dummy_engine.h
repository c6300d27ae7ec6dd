/* dummy_engine.h - an engine that computes nothing and decides how long that takes: for simulators.
 *
 * It is a real engine with a model of its own, whose forward writes zeros. Sessions, pages, cached
 * prefixes and the checks of a step are the real ones; a page holds next to nothing. The model's
 * vocabulary is small, so that a greedy choice, always token 0, costs little. */
#ifndef WEFT_ENGINE_DUMMY_ENGINE_H
#define WEFT_ENGINE_DUMMY_ENGINE_H

#include "engine/engine.h"
#include "engine/step_cost.h"

#define DUMMY_VOCAB 256

/* What a forward of this shape does instead: it advances a clock. n_wanted: rows with logits. */
typedef void dummy_forward_fn(void *ud, const step_shape *shape, int64_t n_wanted);

typedef struct dummy_engine {
    host host;
    model model;
    engine *engine;
    dummy_forward_fn *forward;
    void *forward_ud;
} dummy_engine;

/* options: n_session, n_batch, n_ctx and n_cache. The memory is the caller's; d must not move. */
weft_status dummy_engine_init(dummy_engine *d, const engine_options *options, mem *within,
                              dummy_forward_fn *fn, void *ud, weft_error *err);
void dummy_engine_free(dummy_engine *d);

#endif
