/* adapt.h - what adapters add to products and to rows of tables, for the sequences that have one.
 *
 *     y = W x + b, then for the rows of each adapter        y += s B (A x)
 *
 * The product with W takes all rows together. A and B are multiplied in class f32, with x as it is.
 * A row's sums do not depend on the rows beside it, so neither do its bits. */
#ifndef WEFT_OPS_ADAPT_H
#define WEFT_OPS_ADAPT_H

#include "ops/product.h"

/* Bytes of scratch memory for n rows of a product with w, or of a table of that width. */
size_t adapt_bytes(const run *r, int64_t n_row, const tensor *w);

/* Does any row of x have something for w? */
bool adapt_needed(const matrix *x, const tensor *w);

/* Changes y, which is the product without its bias if there is a gain, else with it; then adds the
 * bias that is missing. `room` has adapt_bytes. */
bool adapt_has_gain(const matrix *x, const tensor *w);
void adapt(run *r, matrix y, matrix x, const tensor *w, const tensor *bias, void *room);

/* Changes rows of a table: index_of(ctx, i) is row i's. */
typedef int64_t index_fn(const run *r, const void *ctx, int64_t i);
void adapt_table(run *r, matrix y, const tensor *table, index_fn *index_of, const void *ctx,
                 void *room);

#endif
