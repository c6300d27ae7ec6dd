/* attention_backward.h - the gradient of attention (ops.h). */
#ifndef WEFT_OPS_ATTENTION_BACKWARD_H
#define WEFT_OPS_ATTENTION_BACKWARD_H

#include "tensor/run.h"

void attention_backward(run *r, const node *n);

#endif
