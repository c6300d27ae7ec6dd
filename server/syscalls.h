/* syscalls.h - the system calls that a server may make once it runs. */
#ifndef WEFT_SERVER_SYSCALLS_H
#define WEFT_SERVER_SYSCALLS_H

#include <stdbool.h>

/* Refuses all other system calls of this process from now on, in every thread. unlinks: files may be
 * removed (Landlock says where). False, with errno, where the kernel has no seccomp, or the filter is
 * not known for this processor. */
bool syscalls_limit(bool unlinks);

#endif
