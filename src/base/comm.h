/* comm.h - the interface through which ops reduce over several processes without knowing how.
 * A run carries one; NULL means this process is alone. */
#ifndef WEFT_BASE_COMM_H
#define WEFT_BASE_COMM_H

#include "base/err.h"
#include "base/real.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct comm {
    int rank, size;

    /* Starts to sum x[0..n) over all ranks, in rank order, into x on every rank, so that backward
     * can continue meanwhile. The comm owns x until its ticket has been waited for. */
    weft_status (*start)(struct comm *c, real *x, int64_t n, int *ticket, weft_error *err);
    bool (*poll)(struct comm *c, int ticket); /* true: waiting would not block */
    weft_status (*wait)(struct comm *c, int ticket, weft_error *err);
} comm;

#endif
