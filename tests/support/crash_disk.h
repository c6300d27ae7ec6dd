/* crash_disk.h - a simulated disk that loses unsynced data in a crash.
 *
 * For every file it tracks cached and synced bytes, and for every directory the names created,
 * renamed or removed since its last sync. A crash makes another disk from it: unsynced sectors are
 * kept, lost or garbage, files have any length in between, and any of the directory's changes may
 * have happened. As in POSIX, the order of changes is not preserved. */
#ifndef WEFT_TESTS_CRASH_DISK_H
#define WEFT_TESTS_CRASH_DISK_H

#include "base/host.h"

typedef struct crash_disk crash_disk;

/* Called before every change. */
typedef void crash_fn(void *ud, crash_disk *d);

crash_disk *crash_disk_new(void);
void crash_disk_free(crash_disk *d);

void crash_disk_watch(crash_disk *d, crash_fn *fn, void *ud);

/* If true, syncs succeed without doing anything. */
void crash_disk_lie(crash_disk *d, bool lies);

/* A host whose files are on the disk. */
void host_crash_disk(host *h, crash_disk *d);

/* The disk after the restart. seed 0: only synced data; 1: everything; others: random. */
crash_disk *crash_disk_crash(const crash_disk *d, uint64_t seed);

#endif
