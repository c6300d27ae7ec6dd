/* io.h - files, read whole: mapped, or copied into counted memory; and the calls by which they are
 * written (save.h).
 *
 * A map costs nothing until it is touched and is shared between processes, but a file that shrinks
 * under it kills the process with SIGBUS; a copy cannot be hurt from outside. The program maps, the
 * library copies unless asked. The hooks are the seam through which tests fail the k-th call. */
#ifndef WEFT_BASE_IO_H
#define WEFT_BASE_IO_H

#include "base/mem.h"

#include <sys/types.h>

typedef void io_name_fn(void *ud, const char *name);

/* Each returns -1 or NULL with errno set on failure, as the system calls do. */
typedef struct io_hooks {
    int (*open)(void *ud, const char *path);
    int (*size)(void *ud, int fd, uint64_t *size); /* fails for anything but a regular file */
    ssize_t (*read)(void *ud, int fd, void *to, size_t size);
    void *(*map)(void *ud, int fd, size_t size);
    void (*unmap)(void *ud, void *at, size_t size);
    void (*rest)(void *ud, void *at, size_t size); /* pages of a map go, until they are read */
    void (*close)(void *ud, int fd);

    /* A new file, locked while it is open. It gets the mode of `like`, which it will replace. Fails
     * with EEXIST where there is something already. */
    int (*create)(void *ud, const char *path, const char *like);
    int (*append)(void *ud, const char *path); /* opens, or makes; writes go to the end */
    int (*truncate)(void *ud, int fd, uint64_t size);
    ssize_t (*write)(void *ud, int fd, const void *from, size_t size);
    int (*sync)(void *ud, int fd); /* of a directory too, opened as a file */
    int (*rename)(void *ud, const char *from, const char *to);
    int (*remove)(void *ud, const char *path); /* a file or an empty directory */
    int (*mkdir)(void *ud, const char *path);
    int (*link)(void *ud, const char *from, const char *to); /* a second name of a file */

    /* Calls back with each name in a directory, "." and ".." left out. */
    int (*list)(void *ud, const char *path, io_name_fn *name, void *name_ud);

    /* For this process alone, until it is closed; EWOULDBLOCK where another one has it. */
    int (*lock)(void *ud, int fd);

    /* Removes the part files (below) in a directory whose writers are gone. */
    void (*sweep)(void *ud, const char *directory);
    void *ud;
} io_hooks;

extern const io_hooks io_system;

/* A file that is being written has the name "model.gguf.weft-0123456789abcdef.part" until it is
 * whole. Its writer holds a lock on it, so a part file that can be locked belongs to nobody: its
 * writer was killed. */
#define PART_TAIL 27 /* bytes after "model.gguf" */

/* The part of `path` with this token, in `to`; false where it is too long. */
bool part_name(char *to, size_t size, const char *path, uint64_t token);

/* Length of "model.gguf" in the name of its part; 0 where the name is not that of a part. */
size_t part_stem(const char *name);

typedef struct file {
    const uint8_t *data;
    size_t size;
    const char *path; /* owned */
    bool mapped;
    size_t packed; /* size of the compressed file if `data` is its content (unpack.h); or 0 */
} file;

struct host;

weft_status file_open(file *f, const char *path, weft_load load, struct host *h, weft_error *err);
void file_close(file *f, struct host *h);

/* Nobody will read it soon: pages of a map go back to the system, and return when they are read. */
void file_rest(const file *f, const struct host *h);

/* A file that is read from front to end, a part at a time, into memory that is there already. */
typedef struct reader {
    struct host *host;
    const char *path; /* the caller's */
    int fd;
    uint64_t left; /* bytes to come */
} reader;

weft_status reader_open(reader *r, const char *path, struct host *h, weft_error *err);
void reader_close(reader *r);

/* The next bytes, of which there must be so many left. */
weft_status reader_get(reader *r, void *to, size_t size, weft_error *err);

/* False also where there is nothing. */
bool path_is_directory(const char *path, struct host *h);

/* False where nothing is there; what is there but cannot be opened exists. */
bool path_exists(const char *path, struct host *h);

/* "directory/name" in `to`; false where it is too long for it. */
bool path_join(char *to, size_t size, const char *directory, const char *name);

/* The last name of a path, in `to`; `otherwise` for "/", "." and the like. */
void path_name(const char *path, const char *otherwise, char *to, size_t size);

/* Its bytes as text, which is not terminated. */
static inline const char *file_text(const file *f)
{
    return (const char *)f->data;
}

#endif
