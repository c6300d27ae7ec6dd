/* adapt.h - products and tables with what the adapters of sequences add.
 *
 *     y = W x + b, then for the rows of each adapter        y += s B (A x)
 *
 *     dx = dy W + s (dy B) A        dA = s (dy B)^T x        dB = s dy^T (x A^T)
 *
 * With gains (DoRA), y = g (W x + s B (A x)) + b, where g = m / |W + s B A|. The norm counts as a
 * constant, as in the paper (Liu et al., 2024) and in PEFT, so dy above is g dy, and
 *
 *     dm = sum over rows of dy (y - b) / m
 *
 * which needs nothing but y. An output whose m is 0 has lost its product, and keeps its m.
 *
 * The product with W takes all rows together. A and B are multiplied in class f32, with x as it is.
 * A row's sums do not depend on the rows beside it, so neither do its bits. Backward computes A x
 * again.
 *
 * Where an adapter is trained with dropout (run.lora_dropout), A is multiplied with x m / (1 - p):
 * the mask m is a function of the step's key, the weight, the row and the column. */
#ifndef WEFT_OPS_ADAPT_H
#define WEFT_OPS_ADAPT_H

#include "ops/product.h"

/* Call from an op that will multiply n rows by W, in either direction. */
void product_plan(run *r, int64_t n_row, const tensor *w);

/* The same for an op that computes dx = dy W even without a tape. */
void product_plan_both(run *r, int64_t n_row, const tensor *w);

/* Call it when a node is made: A and B of an adapter that is trained are inputs too. */
void adapt_inputs(run *r, node *n, const tensor *w, bool table);

/* y = x W^T + b */
void product(run *r, matrix y, matrix x, const tensor *w, const tensor *bias);

/* Does an adapter of the batch scale what W gives? Then product_back needs y, and changes dy. */
bool product_has_gain(const run *r, const tensor *w);

/* Do the adapters that are trained with two weights have one A, as those of a fused matrix do? */
bool product_shares_a(const run *r, const tensor *w, const tensor *other);

/* Its gradients: those of x (stored, or added), W, b, A, B and m; only of those that learn. W and
 * b may be rows of larger ones; `more`: another product of this op, with the same A, came before. */
void product_back(run *r, const tensor *x, bool add, matrix y, matrix dy, const tensor *w,
                  const tensor *b, bool more);

/* Changes rows that were taken from a table: index_of(r, ctx, i) is row i's. `table_plan` first. */
typedef int64_t index_fn(const run *r, const void *ctx, int64_t i);
void table_plan(run *r, int64_t n_row, const tensor *table);
void adapt_table(run *r, matrix y, const tensor *table, index_fn *index_of, const void *ctx);
void adapt_table_back(run *r, matrix dy, const tensor *table, index_fn *index_of, const void *ctx);

#endif
