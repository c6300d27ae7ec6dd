/* hand.h - what a reader needs to compute a few columns of a product y = x W^T + b by hand: rows of
 * W, numbers of b, and the tensors x and y of the forward. */
#ifndef WEFT_EXPLAIN_HAND_H
#define WEFT_EXPLAIN_HAND_H

#include "explain/subject.h"

/* Columns first, first + step, ...: n of them. */
typedef struct columns {
    int64_t first, step, n;
} columns;

/* Rows of a weight, one after the other; nothing if the model has none of this name. */
void put_weight_rows(const subject *s, document *d, const char *key, const char *name, columns c);

/* The product that a tensor was made by, itself or on the way to it (slices, norms, rotations);
 * *read is the first tensor that was made of the product, or the product. NULL: there is none. */
const seen *product_behind(const record *s, const seen *t, const seen **read);

/* An object with the weight, its type and compute class, x, and rows and bias of the columns; y is
 * written too if it is not NULL. Nothing if made was not made by a product whose weight is known,
 * or its input was not kept. */
void put_product(const subject *s, document *d, const char *key, const seen *made, const seen *y,
                 columns c);

#endif
