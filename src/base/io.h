/* io.h - files, read whole: mapped, or copied into counted memory.
 *
 * A map costs nothing until it is touched and is shared between processes, but a file that shrinks
 * under it kills the process with SIGBUS; a copy cannot be hurt from outside. The program maps, the
 * library copies unless asked. The hooks are the seam through which tests fail the k-th call. */
#ifndef WEFT_BASE_IO_H
#define WEFT_BASE_IO_H

#include "base/mem.h"

#include <sys/types.h>

/* Each returns -1 or NULL with errno set on failure, as the system calls do. */
typedef struct io_hooks {
    int (*open)(void *ud, const char *path);
    int (*size)(void *ud, int fd, uint64_t *size); /* fails for anything but a regular file */
    ssize_t (*read)(void *ud, int fd, void *to, size_t size);
    void *(*map)(void *ud, int fd, size_t size);
    void (*unmap)(void *ud, void *at, size_t size);
    void (*close)(void *ud, int fd);
    void *ud;
} io_hooks;

extern const io_hooks io_system;

typedef struct file {
    const uint8_t *data;
    size_t size;
    const char *path; /* owned */
    bool mapped;
} file;

struct host;

weft_status file_open(file *f, const char *path, weft_load load, struct host *h, weft_error *err);
void file_close(file *f, struct host *h);

/* False also where there is nothing. */
bool path_is_directory(const char *path, struct host *h);

/* Writes a file whole: beside its place first, then moved there, so that nobody ever sees half of
 * it and a failure leaves what was there. */
weft_status file_write(const char *path, const void *data, size_t size, weft_error *err);

#endif
