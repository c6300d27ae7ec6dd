/* take.h - numbers out of a stored tensor, in the order in which a model has its rows. */
#ifndef WEFT_ADAPT_TAKE_H
#define WEFT_ADAPT_TAKE_H

#include "base/arena.h"
#include "base/checked.h"
#include "formats/container.h"

/* Which rows of a tensor with `all` rows: n from row0 on. */
typedef struct take_rows_of {
    int64_t all, row0, n;
    int64_t head;   /* rows of a rotary head whose pairs become neighbours, or ... */
    bool to_halves; /* ... come apart; 0: rows stay in order */
} take_rows_of;

/* The row of the tensor that becomes row i. */
int64_t take_source_row(const take_rows_of *r, int64_t i);

/* A tensor must be of this shape, in numbers that are not quantised. `path` is the adapter's, and
 * `base` what it calls its base model, or NULL. */
weft_status take_check(const stored *t, int n_dim, const int64_t *shape, const char *path,
                       const char *base, weft_error *err);

/* A matrix of the tensor's type: in place if it is in order and aligned, otherwise a copy. Only the
 * name is left to the caller. */
weft_status take_tensor(const stored *t, const take_rows_of *r, int64_t n_col, tensor *to,
                        arena *store, weft_error *err);

/* The same as reals, always a copy. NULL with err filled without memory. */
real *take_reals(const stored *t, const take_rows_of *r, int64_t n_col, arena *store,
                 weft_error *err);

/* A matrix with rows and columns exchanged. */
weft_status take_flipped(const stored *t, stored *to, arena *store, weft_error *err);

/* Are all values of b, which may be quantised, those of a? */
bool take_same(const tensor *a, const tensor *b);

#endif
