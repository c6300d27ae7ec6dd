/* save.c - sets of files: see save.h. */
#include "base/save.h"

#include "base/rng.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define ROOM     (1 << 20)
#define MAX_PATH 4096
#define MAX_TRY  8   /* names for a part */
#define MAX_HELD 256 /* parts that stay locked; a sweep could remove further ones of a larger set */

typedef enum saved_kind { SAVED_FILE, SAVED_DIRECTORY, SAVED_RETIRED } saved_kind;

struct saved {
    saved *next, *before;
    char *path, *beside;
    saved_kind kind;
    int held;   /* descriptor that holds the lock of `beside`; -1: none */
    bool made;  /* `beside` exists, or the directory was created */
    bool moved; /* from there to `path` */
    bool linked;
};

void save_begin(save *s, host *h, weft_error *err)
{
    *s = (save){ .host = h, .fd = -1, .err = err };
}

weft_status save_fail(save *s, weft_status code, const char *format, ...)
{
    char text[sizeof s->err->message];
    if (s->status != WEFT_OK)
        return s->status;
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return s->status = weft_fail(s->err, code, "%s", text);
}

static void fail_errno(save *s, const char *path, const char *verb)
{
    save_fail(s, WEFT_EIO, "%.400s: cannot %s: %s", path, verb,
              errno == ENOTSUP ? "not a regular file" : strerror(errno));
}

static void save_write_all(save *s, const uint8_t *data, size_t size)
{
    const io_hooks *io = &s->host->io;
    while (size > 0 && s->status == WEFT_OK) {
        const ssize_t n = io->write(io->ud, s->fd, data, size);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            errno = n < 0 ? errno : ENOSPC; /* a write of 0 bytes would loop forever */
            fail_errno(s, s->last->path, "write");
            return;
        }
        data += n;
        size -= (size_t)n;
    }
}

static void flush_room(save *s)
{
    save_write_all(s, s->room, s->n);
    s->n = 0;
}

void save_put(save *s, const void *data, size_t size)
{
    assert(s->status != WEFT_OK || s->fd >= 0);
    if (s->status != WEFT_OK || size == 0) /* nothing may be NULL */
        return;
    if (s->sums)
        chunk_sums_add(s->sums, data, size);
    s->bytes += size;
    s->total += size;
    if (size <= ROOM - s->n) {
        memcpy(s->room + s->n, data, size);
        s->n += size;
        return;
    }
    flush_room(s);
    if (size >= ROOM) {
        save_write_all(s, data, size);
    } else {
        memcpy(s->room, data, size);
        s->n = size;
    }
}

/* The data reaches the disk before any name points to it. */
static void finish_file(save *s)
{
    const io_hooks *io = &s->host->io;
    if (s->fd < 0)
        return;
    flush_room(s);
    if (s->status == WEFT_OK && io->sync(io->ud, s->fd) != 0)
        fail_errno(s, s->last->path, "write");
    if (s->n_held < MAX_HELD) {
        s->last->held = s->fd;
        s->n_held++;
    } else {
        io->close(io->ud, s->fd);
    }
    s->fd = -1;
    s->bytes = 0;
    s->sums = NULL;
}

static saved *save_append(save *s, const char *path, saved_kind kind)
{
    saved *f = mem_zalloc(&s->host->mem, 1, sizeof *f, "saving", s->err);
    if (f)
        f->path = mem_strdup(&s->host->mem, path, s->err);
    if (!f || !f->path) {
        mem_free(&s->host->mem, f);
        s->status = WEFT_ENOMEM;
        return NULL;
    }
    f->kind = kind;
    f->held = -1;
    f->before = s->last;
    *(s->last ? &s->last->next : &s->first) = f;
    s->last = f;
    return f;
}

/* Compared with the slash: "/" is not ".". */
static bool same_directory(const char *a, const char *b)
{
    const char *x = strrchr(a, '/'), *y = strrchr(b, '/');
    const size_t n = x ? (size_t)(x - a) + 1 : 0, m = y ? (size_t)(y - b) + 1 : 0;
    return n == m && memcmp(a, b, n) == 0;
}

/* "d" of "d/name", "/" of "/name", "." of "name", in `to` of MAX_PATH bytes. */
static const char *directory_of(const char *path, char *to)
{
    const char *slash = strrchr(path, '/');
    const int n = slash ? (int)(slash - path) : 0;
    snprintf(to, MAX_PATH, "%.*s", n, path);
    return n > 0 ? to : slash ? "/" : ".";
}

/* Removes abandoned parts in the directory of the next file. */
static void sweep_before(const save *s, const char *path)
{
    const io_hooks *io = &s->host->io;
    char directory[MAX_PATH];
    for (const saved *f = s->first; f; f = f->next)
        if (f->kind == SAVED_FILE && same_directory(f->path, path))
            return;
    io->sweep(io->ud, directory_of(path, directory));
}

/* The next file, not created yet; NULL after an error. */
static saved *append_file(save *s, const char *path)
{
    finish_file(s);
    if (s->status != WEFT_OK)
        return NULL;
    if (strlen(path) + PART_TAIL >= MAX_PATH) {
        save_fail(s, WEFT_EINVAL, "%.200s...: the path is too long", path);
        return NULL;
    }
    sweep_before(s, path);
    saved *f = save_append(s, path, SAVED_FILE);
    if (f && !s->room)
        s->room = mem_alloc(&s->host->mem, ROOM, "saving", s->err);
    if (f && s->room) /* part_name() fills it */
        f->beside = mem_alloc(&s->host->mem, strlen(path) + PART_TAIL + 1, "saving", s->err);
    if (f && s->room && f->beside)
        return f;
    s->status = WEFT_ENOMEM;
    return NULL;
}

/* Another name for the part of f. */
static void rename_part(const saved *f)
{
    part_name(f->beside, strlen(f->path) + PART_TAIL + 1, f->path, rng_entropy());
}

static void create(save *s, saved *f)
{
    const io_hooks *io = &s->host->io;
    for (int i = 0; i < MAX_TRY && (i == 0 || (s->fd < 0 && errno == EEXIST)); i++) {
        rename_part(f);
        s->fd = io->create(io->ud, f->beside, f->path);
    }
    s->sums = s->next_sums;
    s->next_sums = NULL;
    f->made = s->fd >= 0;
    if (!f->made)
        fail_errno(s, f->path, "create");
}

void save_file(save *s, const char *path)
{
    saved *f = append_file(s, path);
    if (f)
        create(s, f);
}

void save_summed(save *s, chunk_sums *sums)
{
    s->next_sums = sums;
}

/* The buffer is empty: the file starts here. */
static void copy_from(save *s, const char *from)
{
    const io_hooks *io = &s->host->io;
    const int fd = io->open(io->ud, from);
    if (fd < 0)
        fail_errno(s, from, "open");
    while (s->status == WEFT_OK) {
        const ssize_t n = io->read(io->ud, fd, s->room, ROOM);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            fail_errno(s, from, "read");
        if (n <= 0)
            break;
        save_write_all(s, s->room, (size_t)n);
    }
    if (fd >= 0)
        io->close(io->ud, fd);
}

void save_link(save *s, const char *from, const char *path)
{
    const io_hooks *io = &s->host->io;
    saved *f = append_file(s, path);
    if (!f)
        return;
    rename_part(f);
    f->made = f->linked = io->link(io->ud, from, f->beside) == 0;
    if (f->made)
        return;
    if (errno != EPERM && errno != EOPNOTSUPP && errno != ENOSYS && errno != EMLINK) {
        fail_errno(s, path, "create");
        return;
    }
    create(s, f);
    if (f->made)
        copy_from(s, from);
}

void save_directory(save *s, const char *path)
{
    const io_hooks *io = &s->host->io;
    finish_file(s);
    saved *f = s->status == WEFT_OK ? save_append(s, path, SAVED_DIRECTORY) : NULL;
    if (!f)
        return;
    f->made = io->mkdir(io->ud, path) == 0;
    if (!f->made && errno != EEXIST)
        fail_errno(s, path, "create");
}

void save_retire(save *s, const char *path)
{
    finish_file(s);
    if (s->status == WEFT_OK)
        save_append(s, path, SAVED_RETIRED);
}

/* Syncs the directory's names to disk. Some file systems cannot do that, and return EINVAL. */
static void sync_directory_of(save *s, const char *path)
{
    const io_hooks *io = &s->host->io;
    char directory[MAX_PATH];
    const int fd = io->open(io->ud, directory_of(path, directory));
    if (fd < 0) {
        fail_errno(s, path, "reach the directory of");
        return;
    }
    if (io->sync(io->ud, fd) != 0 && errno != EINVAL)
        fail_errno(s, path, "write the directory of");
    io->close(io->ud, fd);
}

static void move_file(save *s, saved *f)
{
    const io_hooks *io = &s->host->io;
    f->moved = io->rename(io->ud, f->beside, f->path) == 0;
    if (!f->moved)
        fail_errno(s, f->path, "replace");
    else if (f->linked) /* if both are already names of one file, rename keeps both */
        io->remove(io->ud, f->beside);
}

static void move_files(save *s)
{
    const io_hooks *io = &s->host->io;
    for (saved *f = s->first; f && s->status == WEFT_OK; f = f->next) {
        if (f->kind == SAVED_FILE)
            move_file(s, f);
        else if (f->kind == SAVED_RETIRED && io->remove(io->ud, f->path) != 0 && errno != ENOENT)
            fail_errno(s, f->path, "remove");
    }
    for (const saved *f = s->first; f && s->status == WEFT_OK; f = f->next)
        if (!f->next || !same_directory(f->path, f->next->path))
            sync_directory_of(s, f->path);
}

/* Is f in a directory that this set created? */
static bool is_in_new(const save *s, const saved *f)
{
    for (const saved *d = s->first; d; d = d->next) {
        const size_t n = strlen(d->path);
        if (d->kind == SAVED_DIRECTORY && d->made && strncmp(f->path, d->path, n) == 0 &&
            (f->path[n] == '/' || d->path[n - 1] == '/'))
            return true;
    }
    return false;
}

static void save_undo(const save *s, const saved *f)
{
    const io_hooks *io = &s->host->io;
    if (f->made && !f->moved)
        io->remove(io->ud, f->beside ? f->beside : f->path);
    else if (f->moved && is_in_new(s, f))
        io->remove(io->ud, f->path);
}

/* In reverse, so that directories are empty when they are removed. */
static void take_back(save *s)
{
    for (const saved *f = s->last; f && s->status != WEFT_OK; f = f->before)
        save_undo(s, f);
    for (saved *f = s->last, *before; f; f = before) {
        before = f->before;
        if (f->held >= 0)
            s->host->io.close(s->host->io.ud, f->held);
        mem_free(&s->host->mem, f->beside);
        mem_free(&s->host->mem, f->path);
        mem_free(&s->host->mem, f);
    }
}

weft_status save_commit(save *s)
{
    finish_file(s);
    if (s->status == WEFT_OK)
        move_files(s);
    take_back(s);
    mem_free(&s->host->mem, s->room);
    s->first = s->last = NULL;
    s->room = NULL;
    s->n_held = 0;
    return s->status;
}

weft_status save_whole(const char *path, const void *data, size_t size, host *h, weft_error *err)
{
    save s;
    save_begin(&s, h, err);
    save_file(&s, path);
    save_put(&s, data, size);
    return save_commit(&s);
}
