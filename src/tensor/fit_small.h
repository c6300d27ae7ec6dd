/* fit_small.h - codes of Q4_0 and Q5_0 for columns of unequal importance. */
#ifndef WEFT_TENSOR_FIT_SMALL_H
#define WEFT_TENSOR_FIT_SMALL_H

#include "tensor/blocks.h"

/* Codes from 0 to 2 half - 1 of x = d (q - half); writes d. */
void fit_small(uint8_t *q, uint8_t *at, const real *x, const float *importance, int half);

#endif
