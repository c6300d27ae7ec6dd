/* adapt.h - products and tables with what the adapters of sequences add.
 *
 *     y = W x + b, then for the rows of each adapter        y += s B (A x)
 *
 * The product with W takes all rows together. A and B are multiplied in class f32, with x as it is.
 * A row's sums do not depend on the rows beside it, so neither do its bits. */
#ifndef WEFT_OPS_ADAPT_H
#define WEFT_OPS_ADAPT_H

#include "ops/product.h"

/* Call from an op that will multiply n rows by W, in either direction. */
void product_plan(run *r, int64_t n_row, const tensor *w);

/* The same for an op that computes dx = dy W even without a tape. */
void product_plan_both(run *r, int64_t n_row, const tensor *w);

/* y = x W^T + b */
void product(run *r, matrix y, matrix x, const tensor *w, const tensor *bias);

/* Changes rows that were taken from a table: index_of(r, ctx, i) is row i's. `table_plan` first. */
typedef int64_t index_fn(const run *r, const void *ctx, int64_t i);
void table_plan(run *r, int64_t n_row, const tensor *table);
void adapt_table(run *r, matrix y, const tensor *table, index_fn *index_of, const void *ctx);

#endif
