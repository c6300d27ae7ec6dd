/* nearest.h - the rows of a table that point most nearly where some of its rows point.
 *
 * All rows are asked about in one pass, because reading the table is the cost: 28 million numbers
 * for a vocabulary of 49,152. */
#ifndef WEFT_EXPLAIN_NEAREST_H
#define WEFT_EXPLAIN_NEAREST_H

#include "base/pool.h"
#include "ops/ops.h"

#define MOST_ASKED 8
#define N_NEAR     8

typedef struct near {
    int64_t row;
    real cosine;
} near;

typedef struct nearest {
    int64_t asked[MOST_ASKED];
    int n;
    near best[MOST_ASKED][N_NEAR]; /* descending, without the row itself; ties by row */
    int n_best[MOST_ASKED];
} nearest;

/* Fills best for the rows in `asked`. */
weft_status nearest_find(nearest *q, const tensor *table, const kernels *k, pool *threads, mem *m,
                         weft_error *err);

#endif
