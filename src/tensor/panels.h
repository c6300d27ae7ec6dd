/* panels.h - a weight in panels (kernels.h), the layout for products. */
#ifndef WEFT_TENSOR_PANELS_H
#define WEFT_TENSOR_PANELS_H

#include "base/pool.h"
#include "tensor/tensor.h"

/* Bytes of its panels; 0 for a weight that is not repacked. */
size_t panels_bytes(const tensor *t);

/* Makes the panels of t in `to`, which is aligned, on all threads. */
void panels_make(tensor *t, const kernels *kern, void *to, pool *threads);

#endif
