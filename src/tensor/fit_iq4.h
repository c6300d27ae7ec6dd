/* fit_iq4.h - codes of IQ4_NL and IQ4_XS: 16 values with uneven steps, closer together near zero,
 * where most weights are. */
#ifndef WEFT_TENSOR_FIT_IQ4_H
#define WEFT_TENSOR_FIT_IQ4_H

#include "tensor/blocks.h"

extern const int8_t iq4_values[16];

#define IQ4_FIRST 127 /* -value[0], the largest magnitude; the last value is 113 */

/* 32 values as floats, each with a weight of its error. */
typedef struct iq4_group {
    float x[GROUP], w[GROUP];
    float size; /* the largest magnitude; NaN if a value is not finite */
} iq4_group;

void iq4_take(iq4_group *g, const real *x, const float *importance);

/* The code of the value nearest to each x / a, unless `q` is NULL; returns the weighted squared
 * error. */
float iq4_round(uint8_t *q, const iq4_group *g, float a);

/* A scale for the group with a small error: about the best of all. */
float iq4_scale(const iq4_group *g);

/* A scale whose codes cover the group: the largest value becomes the first
 * code. Then no value is more than 14 / 127 of the size off. */
float iq4_cover(const iq4_group *g);

#endif
