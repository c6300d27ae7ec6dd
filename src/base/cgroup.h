/* cgroup.h - what the control groups of a container leave to this process. */
#ifndef WEFT_BASE_CGROUP_H
#define WEFT_BASE_CGROUP_H

#include <stdint.h>

/* The least of a limit ("memory.max": bytes; "cpu.max": processors, rounded up) over the group that
 * `groups` names (/proc/self/cgroup, version 2) and all groups above it, as files under root
 * (/sys/fs/cgroup). INT64_MAX: none is set, or nothing can be read. */
int64_t cgroup_limit(const char *groups, const char *root, const char *limit);

#endif
