/* attention_backward.h - the backward of attention's op, which is long enough for a file. */
#ifndef WEFT_OPS_ATTENTION_BACKWARD_H
#define WEFT_OPS_ATTENTION_BACKWARD_H

#include "tensor/run.h"

void attention_backward(run *r, const node *n);

#endif
