/* io.h - whole files, mapped or copied into counted memory; and the calls that save.h writes them
 * with.
 *
 * A map costs nothing until it is touched and is shared between processes, but a file that shrinks
 * under it kills the process with SIGBUS; a copy is safe from that. The program maps; the library
 * copies unless told to map. The hooks are the seam through which tests fail the k-th call. */
#ifndef WEFT_BASE_IO_H
#define WEFT_BASE_IO_H

#include "base/mem.h"

#include <sys/types.h>

typedef void io_name_fn(void *ud, const char *name);

/* Each returns -1 or NULL with errno set on failure, like the system calls. */
typedef struct io_hooks {
    int (*open)(void *ud, const char *path);
    int (*size)(void *ud, int fd, uint64_t *size); /* fails for anything but a regular file */
    ssize_t (*read)(void *ud, int fd, void *to, size_t size);
    void *(*map)(void *ud, int fd, size_t size);
    void (*unmap)(void *ud, void *at, size_t size);
    void (*rest)(void *ud, void *at, size_t size); /* drops the pages of a map until the next
                                                    * read */
    void (*close)(void *ud, int fd);

    /* Creates a file that is locked while open. It gets the mode of `like`, which it will replace.
     * Fails with EEXIST if the path exists. */
    int (*create)(void *ud, const char *path, const char *like);
    int (*append)(void *ud, const char *path); /* opens or creates; writes append */
    int (*truncate)(void *ud, int fd, uint64_t size);
    ssize_t (*write)(void *ud, int fd, const void *from, size_t size);
    int (*sync)(void *ud, int fd); /* also for a directory opened as a file */
    int (*rename)(void *ud, const char *from, const char *to);
    int (*remove)(void *ud, const char *path); /* a file or an empty directory */
    int (*mkdir)(void *ud, const char *path);
    int (*link)(void *ud, const char *from, const char *to); /* a hard link */

    /* Calls back with each name in a directory, except "." and "..". */
    int (*list)(void *ud, const char *path, io_name_fn *name, void *name_ud);

    /* Exclusive until closed; EWOULDBLOCK if another process holds it. */
    int (*lock)(void *ud, int fd);

    /* Removes the part files (below) in a directory whose writers are dead. */
    void (*sweep)(void *ud, const char *directory);
    void *ud;
} io_hooks;

extern const io_hooks io_system;

/* A file being written is called "model.gguf.weft-0123456789abcdef.part" until it is complete.
 * Its writer holds a lock on it, so a part file that can be locked is abandoned: its writer was
 * killed. */
#define PART_TAIL 27 /* bytes after "model.gguf" */

/* The part name of `path` with this token, in `to`; false if it is too long. */
bool part_name(char *to, size_t size, const char *path, uint64_t token);

/* Length of "model.gguf" in the name of its part; 0 if the name is not that of a part. */
size_t part_stem(const char *name);

typedef struct file {
    const uint8_t *data;
    size_t size;
    const char *path; /* owned */
    bool mapped;
    size_t packed; /* size of the compressed file if `data` was decompressed (unpack.h); or 0 */
} file;

struct host;

weft_status file_open(file *f, const char *path, weft_load load, struct host *h, weft_error *err);
void file_close(file *f, struct host *h);

/* The file will not be read soon: releases the pages of a map, which return on the next read. */
void file_release_pages(const file *f, const struct host *h);

/* A file read from start to end, in parts, into the caller's memory. */
typedef struct reader {
    struct host *host;
    const char *path; /* the caller's */
    int fd;
    uint64_t left; /* bytes to come */
} reader;

weft_status reader_open(reader *r, const char *path, struct host *h, weft_error *err);
void reader_close(reader *r);

/* Reads the next `size` bytes; fails if fewer are left. */
weft_status reader_get(reader *r, void *to, size_t size, weft_error *err);

/* False also if the path does not exist. */
bool path_is_directory(const char *path, struct host *h);

/* False if the path does not exist; a path that cannot be opened does exist. */
bool path_exists(const char *path, struct host *h);

/* "directory/name" in `to`; false if it does not fit. */
bool path_join(char *to, size_t size, const char *directory, const char *name);

/* The last component of a path, in `to`; `otherwise` for "/", "." and similar paths. */
void path_name(const char *path, const char *otherwise, char *to, size_t size);

/* Its bytes as text, without a terminating NUL. */
static inline const char *file_text(const file *f)
{
    return (const char *)f->data;
}

#endif
