/* head: the end of a model. What is asked of the wanted rows is their logits.   [n, D] -> [n, V] */
#include "ops/ops.h"

tensor *head(run *r, tensor *x, const weight *w)
{
    return linear(r, x, w);
}
