/* comm.h - messages between the processes of one run, its ranks. What travels and in which order sums
 * are made is decided above (train/reduce.h); a comm only moves bytes.
 *
 * There are two: comm_loop.c for ranks that are threads of one process, which tests use, and
 * comm_mpi.c, a module of its own for each MPI, which is loaded when a run was started by mpirun or
 * srun (dist/load.h).
 *
 * All calls come from one thread of a rank. A transfer is started, gets a ticket, and owns its memory
 * until it is done. MPI makes progress only inside its calls, so a rank that computes must poll.
 * Two messages with the same tag between the same two ranks arrive in the order in which they were
 * sent. Tags are 0 to 1,023; messages are at most COMM_MOST bytes. */
#ifndef WEFT_BASE_COMM_H
#define WEFT_BASE_COMM_H

#include "base/err.h"
#include "base/real.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define COMM_VERSION 1 /* of this header, which a module must have been compiled with */
#define COMM_MOST    ((size_t)1 << 30)

typedef struct comm comm;

struct comm {
    int rank, size;
    char name[64];         /* "Open MPI 4.1.4", for reports */
    uint64_t sent, n_sent; /* bytes and messages that this rank has sent; sums are not counted */

    weft_status (*send)(comm *c, const void *at, size_t bytes, int to, int tag, int *ticket,
                        weft_error *err);
    weft_status (*receive)(comm *c, void *at, size_t bytes, int from, int tag, int *ticket,
                           weft_error *err);

    /* Starts x = the sum of x over all ranks, in an order of the library's choice: not the same bits
     * for another number of ranks. All ranks start their sums in the same order. */
    weft_status (*sum)(comm *c, real *x, int64_t n, int *ticket, weft_error *err);

    /* Moves all transfers along. *done: this one is over, and its ticket may be used again. Never
     * waits. */
    weft_status (*poll)(comm *c, int ticket, bool *done, weft_error *err);

    /* Ends all ranks at once, with this exit code. Does not return if it can be avoided. */
    void (*stop)(comm *c, int code);
    void (*close)(comm *c);
};

/* What a module exports under this name: the ranks of the job that this process is part of. */
#define COMM_OPEN "weft_comm_open"
typedef weft_status comm_open_fn(int version, comm **to, weft_error *err);

#endif
