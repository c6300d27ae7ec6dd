/* lens.h - the end of a model applied to rows of its residual stream, as if the layers that made
 * them were the last ones. All rows go through the head at once, which is read only once. */
#ifndef WEFT_ENGINE_LENS_H
#define WEFT_ENGINE_LENS_H

#include "models/arch.h"

/* x: [n, d_model]; logits: [n, n_out]. For models that generate. */
weft_status lens_logits(const model *m, pool *threads, const float *x, int64_t n, float *logits,
                        weft_error *err);

#endif
