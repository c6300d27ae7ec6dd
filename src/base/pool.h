/* pool.h - fork and join on a fixed team of threads.
 *
 * Work is cut into chunks that threads claim one by one. Callers cut by output, never by reduction,
 * so which thread takes which chunk cannot change a bit of the answer.
 *
 * A pool belongs to one calling thread at a time. It survives fork(): the child's first
 * pool_ready() finds the workers gone and starts new ones. A pool of one thread has no workers and
 * costs nothing. */
#ifndef WEFT_BASE_POOL_H
#define WEFT_BASE_POOL_H

#include "base/mem.h"

#include <stdint.h>

#define POOL_MAX_THREAD 1024

typedef struct pool pool;
typedef void pool_fn(void *arg, int64_t chunk);

pool *pool_new(int n_thread, mem *m, weft_error *err);
void pool_free(pool *p);
int pool_threads(const pool *p);

/* Makes sure the workers exist (after a fork they do not). Call before a step. */
weft_status pool_ready(pool *p, weft_error *err);

/* Runs fn(arg, 0) ... fn(arg, n_chunk - 1), in any order, and returns when all are done. */
void pool_run(pool *p, int64_t n_chunk, pool_fn *fn, void *arg);

#endif
