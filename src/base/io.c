/* io.c - the system calls behind io.h, and files read through them. */
#include "base/io.h"

#include "base/host.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* A host that closed its standard output may still print, so no file of ours may get a standard
 * descriptor. */
static int above_standard(int fd)
{
    if (fd < 0 || fd > STDERR_FILENO)
        return fd;
    const int above = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    const int why = errno;
    close(fd);
    errno = why;
    return above;
}

static int system_open(void *ud, const char *path)
{
    (void)ud;
    return above_standard(open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)); /* so that a FIFO cannot
                                                                           * block us */
}

static int system_size(void *ud, int fd, uint64_t *size)
{
    (void)ud;
    struct stat st;
    if (fstat(fd, &st) != 0)
        return -1;
    if (!S_ISREG(st.st_mode)) {
        errno = S_ISDIR(st.st_mode) ? EISDIR : ENOTSUP;
        return -1;
    }
    *size = (uint64_t)st.st_size;
    return 0;
}

static ssize_t system_read(void *ud, int fd, void *to, size_t size)
{
    (void)ud;
    return read(fd, to, size);
}

static void *system_map(void *ud, int fd, size_t size)
{
    (void)ud;
    void *at = mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0);
    return at == MAP_FAILED ? NULL : at;
}

static void system_unmap(void *ud, void *at, size_t size)
{
    (void)ud;
    munmap(at, size);
}

static void system_rest(void *ud, void *at, size_t size)
{
    (void)ud;
    madvise(at, size, MADV_DONTNEED); /* if it fails, they stay */
}

static void system_close(void *ud, int fd)
{
    (void)ud;
    close(fd);
}

/* Copies the mode and, if permitted, the owner of the file to be replaced. If the group cannot be
 * kept, our own group does not get the old group's rights. */
static void take_mode(int fd, const struct stat *old)
{
    const bool group = fchown(fd, old->st_uid, old->st_gid) == 0 ||
                       fchown(fd, (uid_t)-1, old->st_gid) == 0;
    fchmod(fd, old->st_mode & (group ? 0777 : 0707)); /* if it fails, only the owner may read it */
}

/* A sweep may run between creation and lock; the file then has no name. On file systems without
 * locks nothing is swept. */
static bool lock_new(int fd)
{
    struct stat st;
    if (flock(fd, LOCK_EX | LOCK_NB) != 0)
        return errno != EWOULDBLOCK;
    return fstat(fd, &st) != 0 || st.st_nlink > 0;
}

static int system_create(void *ud, const char *path, const char *like)
{
    (void)ud;
    struct stat old;
    const bool replaces = stat(like, &old) == 0;
    if (replaces && !S_ISREG(old.st_mode)) /* a rename would replace a device */
        return errno = S_ISDIR(old.st_mode) ? EISDIR : ENOTSUP, -1;
    const int fd = above_standard(
        open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, replaces ? 0600 : 0666));
    if (fd < 0)
        return -1;
    if (replaces)
        take_mode(fd, &old);
    if (lock_new(fd))
        return fd;
    close(fd);
    errno = EEXIST;
    return -1;
}

static int system_append(void *ud, const char *path)
{
    (void)ud;
    return above_standard(open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK, 0666));
}

static int system_truncate(void *ud, int fd, uint64_t size)
{
    (void)ud;
    int rc;
    do
        rc = ftruncate(fd, (off_t)size);
    while (rc != 0 && errno == EINTR);
    return rc;
}

static ssize_t system_write(void *ud, int fd, const void *from, size_t size)
{
    (void)ud;
    return write(fd, from, size);
}

static int system_sync(void *ud, int fd)
{
    (void)ud;
    return fsync(fd);
}

static int system_rename(void *ud, const char *from, const char *to)
{
    (void)ud;
    return rename(from, to);
}

static int system_remove(void *ud, const char *path)
{
    (void)ud;
    return remove(path);
}

static int system_mkdir(void *ud, const char *path)
{
    (void)ud;
    return mkdir(path, 0777);
}

static int system_link(void *ud, const char *from, const char *to)
{
    (void)ud;
    return link(from, to);
}

static int system_list(void *ud, const char *path, io_name_fn *name, void *name_ud)
{
    (void)ud;
    DIR *d = opendir(path);
    if (!d)
        return -1;
    errno = 0;
    for (const struct dirent *e = readdir(d); e; errno = 0, e = readdir(d))
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            name(name_ud, e->d_name);
    const int why = errno;
    closedir(d);
    errno = why;
    return why ? -1 : 0;
}

static int system_lock(void *ud, int fd)
{
    (void)ud;
    return flock(fd, LOCK_EX | LOCK_NB);
}

/* A part with two names is about to replace a link, and is not locked (save_link). */
static bool is_abandoned(int fd)
{
    struct stat st;
    return fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_nlink == 1 &&
           flock(fd, LOCK_EX | LOCK_NB) == 0;
}

static void system_sweep(void *ud, const char *directory)
{
    (void)ud;
    DIR *d = opendir(directory);
    for (const struct dirent *e = d ? readdir(d) : NULL; e; e = readdir(d)) {
        if (part_stem(e->d_name) == 0)
            continue;
        const int fd = openat(dirfd(d), e->d_name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
        if (fd >= 0 && is_abandoned(fd))
            unlinkat(dirfd(d), e->d_name, 0);
        if (fd >= 0)
            close(fd);
    }
    if (d)
        closedir(d);
}

bool part_name(char *to, size_t size, const char *path, uint64_t token)
{
    return (size_t)snprintf(to, size, "%s.weft-%016" PRIx64 ".part", path, token) < size;
}

size_t part_stem(const char *name)
{
    const size_t n = strlen(name);
    const char *tail = name + n - PART_TAIL;
    if (n <= PART_TAIL || strncmp(tail, ".weft-", 6) != 0 || strcmp(tail + 22, ".part") != 0 ||
        strspn(tail + 6, "0123456789abcdef") != 16)
        return 0;
    return n - PART_TAIL;
}

const io_hooks io_system = {
    .open = system_open,
    .size = system_size,
    .read = system_read,
    .map = system_map,
    .unmap = system_unmap,
    .rest = system_rest,
    .close = system_close,
    .create = system_create,
    .append = system_append,
    .truncate = system_truncate,
    .write = system_write,
    .sync = system_sync,
    .rename = system_rename,
    .remove = system_remove,
    .mkdir = system_mkdir,
    .link = system_link,
    .list = system_list,
    .lock = system_lock,
    .sweep = system_sweep,
};

static weft_status fail_errno(weft_error *err, const char *path, const char *verb)
{
    return weft_fail(err, WEFT_EIO, "%s: cannot %s: %s", path, verb,
                     errno == ENOTSUP ? "not a regular file" : strerror(errno));
}

static weft_status io_read_all(const io_hooks *io, int fd, uint8_t *to, size_t size,
                               const char *path, weft_error *err)
{
    for (size_t at = 0; at < size;) {
        ssize_t n = io->read(io->ud, fd, to + at, size - at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return fail_errno(err, path, "read");
        if (n == 0)
            return weft_fail(err, WEFT_EIO, "%s: ended after %zu of %zu bytes while being read",
                             path, at, size);
        at += (size_t)n;
    }
    return WEFT_OK;
}

static weft_status copy_in(file *f, int fd, host *h, weft_error *err)
{
    uint8_t *copy = mem_alloc(&h->mem, f->size, f->path, err);
    if (!copy)
        return WEFT_ENOMEM;
    if (io_read_all(&h->io, fd, copy, f->size, f->path, err) != WEFT_OK) {
        mem_free(&h->mem, copy);
        return WEFT_EIO;
    }
    f->data = copy;
    return WEFT_OK;
}

static weft_status file_fill(file *f, int fd, weft_load load, host *h, weft_error *err)
{
    uint64_t size;
    if (h->io.size(h->io.ud, fd, &size) != 0)
        return fail_errno(err, f->path, "read");
    if (size == 0)
        return weft_fail(err, WEFT_EFORMAT, "%s: the file is empty", f->path);
    if (size > SIZE_MAX)
        return weft_fail(err, WEFT_ENOMEM, "%s: too large for this address space", f->path);
    f->size = (size_t)size;

    if (load == WEFT_LOAD_COPY)
        return copy_in(f, fd, h, err);
    f->data = h->io.map(h->io.ud, fd, f->size);
    f->mapped = true;
    return f->data ? WEFT_OK : fail_errno(err, f->path, "map");
}

weft_status file_open(file *f, const char *path, weft_load load, host *h, weft_error *err)
{
    *f = (file){ .path = mem_strdup(&h->mem, path, err) };
    if (!f->path)
        return WEFT_ENOMEM;

    int fd = h->io.open(h->io.ud, path);
    weft_status status = fd < 0 ? fail_errno(err, path, "open") : file_fill(f, fd, load, h, err);
    if (fd >= 0)
        h->io.close(h->io.ud, fd);
    if (status != WEFT_OK)
        file_close(f, h);
    return status;
}

weft_status reader_open(reader *r, const char *path, host *h, weft_error *err)
{
    *r = (reader){ .host = h, .path = path };
    r->fd = h->io.open(h->io.ud, path);
    if (r->fd < 0)
        return fail_errno(err, path, "open");
    if (h->io.size(h->io.ud, r->fd, &r->left) == 0)
        return WEFT_OK;
    const weft_status status = fail_errno(err, path, "read");
    reader_close(r);
    return status;
}

void reader_close(reader *r)
{
    r->host->io.close(r->host->io.ud, r->fd);
}

weft_status reader_get(reader *r, void *to, size_t size, weft_error *err)
{
    assert(size <= r->left);
    r->left -= size;
    return io_read_all(&r->host->io, r->fd, to, size, r->path, err);
}

bool path_is_directory(const char *path, host *h)
{
    uint64_t size;
    const int fd = h->io.open(h->io.ud, path);
    if (fd < 0)
        return false;
    errno = 0;
    const bool is = h->io.size(h->io.ud, fd, &size) != 0 && errno == EISDIR;
    h->io.close(h->io.ud, fd);
    return is;
}

bool path_exists(const char *path, host *h)
{
    errno = 0;
    const int fd = h->io.open(h->io.ud, path);
    if (fd < 0)
        return errno != ENOENT && errno != ENOTDIR;
    h->io.close(h->io.ud, fd);
    return true;
}

bool path_join(char *to, size_t size, const char *directory, const char *name)
{
    return (size_t)snprintf(to, size, "%s/%s", directory, name) < size;
}

void path_name(const char *path, const char *otherwise, char *to, size_t size)
{
    size_t n = strlen(path);
    while (n > 0 && path[n - 1] == '/')
        n--;
    size_t begin = n;
    while (begin > 0 && path[begin - 1] != '/')
        begin--;
    snprintf(to, size, "%.*s", (int)(n - begin), path + begin);
    if (!to[0] || strcmp(to, ".") == 0 || strcmp(to, "..") == 0)
        snprintf(to, size, "%s", otherwise);
}

void file_release_pages(const file *f, const host *h)
{
    if (f->data && f->mapped)
        h->io.rest(h->io.ud, (void *)f->data, f->size);
}

void file_close(file *f, host *h)
{
    if (f->data && f->mapped)
        h->io.unmap(h->io.ud, (void *)f->data, f->size);
    else
        mem_free(&h->mem, (void *)f->data);
    mem_free(&h->mem, (void *)f->path);
    *f = (file){ 0 };
}
