/* crash_disk.h - a disk in memory that forgets what was not synced.
 *
 * It knows for every file what is in the cache and what has reached the plate, and for every
 * directory which names were made, moved or removed since it was last synced. A crash makes another
 * disk from it: of what was not synced, sectors are kept, lost or full of rubbish, files have any
 * length between, and any of the directory's changes happened or did not. The order is no order,
 * as POSIX has it. */
#ifndef WEFT_TESTS_CRASH_DISK_H
#define WEFT_TESTS_CRASH_DISK_H

#include "base/host.h"

typedef struct crash_disk crash_disk;

/* Before every call that changes something. */
typedef void crash_fn(void *ud, crash_disk *d);

crash_disk *crash_disk_new(void);
void crash_disk_free(crash_disk *d);

void crash_disk_watch(crash_disk *d, crash_fn *fn, void *ud);

/* With true, syncs say that all is well and do nothing. */
void crash_disk_lie(crash_disk *d, bool lies);

/* A host whose files are on the disk. */
void host_crash_disk(host *h, crash_disk *d);

/* What the machine finds when it starts again. seed 0: nothing but what was synced; 1: everything;
 * others: chance decides. */
crash_disk *crash_disk_crash(const crash_disk *d, uint64_t seed);

#endif
