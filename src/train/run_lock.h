/* run_lock.h - one process at a time writes to the directory of a run. */
#ifndef WEFT_TRAIN_RUN_LOCK_H
#define WEFT_TRAIN_RUN_LOCK_H

#include "base/host.h"

/* The lock that lets one process write to a run. The system releases it when the process ends, even
 * by a crash. */
typedef struct run_lock {
    const char *root;
    bool made; /* the directory; removed again if it stays empty */
    int fd;    /* -1: not locked */
    host *host;
} run_lock;

/* Creates the directory if needed, locks it, and removes temporary files that a killed process
 * left. Fails if another process holds the lock. On a file system without locks it only warns. */
weft_status run_lock_take(run_lock *l, const char *root, host *h, weft_error *err);
void run_lock_drop(run_lock *l);

#endif
