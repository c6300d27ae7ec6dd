/* cgroup.h - resource limits of this process by its control groups. */
#ifndef WEFT_BASE_CGROUP_H
#define WEFT_BASE_CGROUP_H

#include <stdint.h>

/* The smallest value of a limit ("memory.max": bytes; "cpu.max": CPUs, rounded up) over the group
 * in `groups` (/proc/self/cgroup, version 2) and all its parents, read from files under root
 * (/sys/fs/cgroup). INT64_MAX: no limit, or unreadable. */
int64_t cgroup_limit(const char *groups, const char *root, const char *limit);

#endif
