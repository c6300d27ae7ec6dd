/* head: the end of a model. What is asked of the wanted rows is their logits, or in training the
 * loss of their targets. */
#include "ops/ops.h"

tensor *head(run *r, tensor *x, const weight *w)
{
    return r->training ? linear_cross_entropy(r, x, w, r->smoothing) : linear(r, x, w);
}
