/* comm.h - the interface through which ops reduce over several processes without knowing how.
 * A run carries one; NULL means this process is alone. */
#ifndef WEFT_BASE_COMM_H
#define WEFT_BASE_COMM_H

#include "base/err.h"
#include "base/real.h"

#include <stdint.h>

typedef struct comm {
    int rank, size;
    /* Sums x[0..n) over all ranks, in rank order, into x on every rank. */
    weft_status (*sum)(struct comm *c, real *x, int64_t n, weft_error *err);
} comm;

#endif
