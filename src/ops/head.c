/* head: the end of a model: the logits of the wanted rows, or in training the loss of their
 * targets.
 *
 * With a reader, the logits are computed for part of the rows at a time, in the same memory. All of
 * them could be the largest tensor of a step: 256 rows of a vocabulary of 128256 are 131 MB. The op
 * returns the last part. */
#include "ops/ops.h"

#include <assert.h>

/* Rows [first, first + count) of x. */
static tensor head_part(run *r, const tensor *x, int64_t first, int64_t count)
{
    tensor part = *x;
    part.shape[0] = count;
    part.id = ++r->n_tensor;
    part.of.first += first;
    part.data = is_dry(r) ? NULL : row(x, first);
    return part;
}

static tensor *logits_of(run *r, tensor *x, const weight *w, real cap)
{
    tensor *z = linear(r, x, w);
    return cap > 0 ? softcap(r, z, cap) : z;
}

static tensor *head_in_parts(run *r, tensor *x, const weight *w, real cap)
{
    assert(!r->tape && "parts overwrite each other");
    const int64_t at_once = logits_at_once(r, rows(w->w));
    const arena_mark meta = arena_at(&r->meta), data = arena_at(&r->data);
    tensor *z = NULL;
    int64_t first = 0;
    do {
        const int64_t left = rows(x) - first, count = left < at_once ? left : at_once;
        arena_reset(&r->meta, meta);
        arena_reset(&r->data, data);
        tensor part = head_part(r, x, first, count);
        z = logits_of(r, &part, w, cap);
        if (!is_dry(r))
            r->read(r->read_ud, z, first);
        first += count;
    } while (first < rows(x));
    return z;
}

tensor *head_capped(run *r, tensor *x, const weight *w, real cap)
{
    if (r->training)
        return linear_cross_entropy_capped(r, x, w, r->smoothing, cap);
    return r->read ? head_in_parts(r, x, w, cap) : logits_of(r, x, w, cap);
}

tensor *head(run *r, tensor *x, const weight *w)
{
    return head_capped(r, x, w, 0);
}
