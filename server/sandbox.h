/* sandbox.h - what a running server can no longer do, whoever makes it try.
 *
 *     Landlock   opens files only for reading, and only those that the command line names, with
 *                their neighbours; no TCP connections or ports; no signals to other processes
 *     seccomp    the system calls of syscalls.c: no new programs, processes or sockets. Neither
 *                refuses datagrams to other Unix sockets, where there is one for NOTIFY_SOCKET
 *     dumps      no core files, no debugger: prompts and keys stay inside
 *
 * It begins when sockets, logs and libraries are open and before the first thread, as all threads
 * inherit it. */
#ifndef WEFT_SERVER_SANDBOX_H
#define WEFT_SERVER_SANDBOX_H

#include "memory.h"
#include "serve_options.h"

/* Of the running process; zero where there is none. */
typedef struct sandbox {
    int landlock; /* version of its interface */
    bool seccomp;
} sandbox;

/* Prints what is missing. False: it is required, or a path is wrong. unlinks: a path that will be
 * removed in the end, or NULL; other files in its directory can be removed, too. */
bool sandbox_begin(sandbox *s, const serve_options *o, const char *unlinks);

/* For /metrics. */
void sandbox_write(const sandbox *s, bytes *to);

#endif
