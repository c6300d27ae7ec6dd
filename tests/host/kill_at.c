/* kill_at.c - loaded before other libraries (LD_PRELOAD), it kills its process at one of the system
 * calls that touch files below a directory.
 *
 *     KILL_DIR    the directory, without links
 *     KILL_AT     before call k / 2 for odd k, after it for even k; 0: never
 *     KILL_COUNT  the file that gets the number of edges so far, at every edge
 *
 * MPI's own calls go elsewhere, and are not counted: the count is the same in each run. */
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static long n_edge, at = -1;

static bool below(const char *path)
{
    const char *dir = getenv("KILL_DIR");
    const size_t n = dir ? strlen(dir) : 0;
    char whole[PATH_MAX];
    if (n == 0)
        return false;
    if (path[0] != '/' && getcwd(whole, sizeof whole / 2)) {
        snprintf(whole + strlen(whole), sizeof whole / 2, "/%s", path);
        path = whole;
    }
    return strncmp(path, dir, n) == 0 && (path[n] == '/' || path[n] == '\0');
}

static bool is_below(int fd)
{
    char link[64], path[PATH_MAX];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    const ssize_t n = readlink(link, path, sizeof path - 1);
    path[n > 0 ? n : 0] = '\0';
    return below(path);
}

/* Found when it is first needed: libraries loaded before this one may already call it. */
static void *real_of(const char *name)
{
    void *to = dlsym(RTLD_NEXT, name);
    if (!to)
        abort();
    return to;
}

static void edge(void)
{
    static int fd = -1;
    char text[32];
    if (at < 0)
        at = getenv("KILL_AT") ? atol(getenv("KILL_AT")) : 0;
    if (fd < 0 && getenv("KILL_COUNT"))
        fd = open(getenv("KILL_COUNT"), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    const int n = snprintf(text, sizeof text, "%ld\n", ++n_edge);
    if (fd >= 0 && pwrite(fd, text, (size_t)n, 0) != n)
        abort();
    if (n_edge == at)
        kill(getpid(), SIGKILL);
}

/* A call of libc's whose path or descriptor `counts`. */
#define WATCH(type, name, parameters, arguments, counts)                                           \
    type name parameters;                                                                          \
    type name parameters                                                                           \
    {                                                                                              \
        type(*real) parameters;                                                                    \
        *(void **)&real = real_of(#name);                                                          \
        const bool watched = counts;                                                               \
        if (watched)                                                                               \
            edge();                                                                                \
        const type result = real arguments;                                                        \
        if (watched)                                                                               \
            edge();                                                                                \
        return result;                                                                             \
    }

WATCH(ssize_t, write, (int fd, const void *from, size_t n), (fd, from, n), is_below(fd))
WATCH(int, fsync, (int fd), (fd), is_below(fd))
WATCH(int, fdatasync, (int fd), (fd), is_below(fd))
WATCH(int, ftruncate, (int fd, off_t n), (fd, n), is_below(fd))
WATCH(int, rename, (const char *from, const char *to), (from, to), below(to))
WATCH(int, link, (const char *from, const char *to), (from, to), below(to))
WATCH(int, unlink, (const char *path), (path), below(path))
WATCH(int, remove, (const char *path), (path), below(path))
WATCH(int, rmdir, (const char *path), (path), below(path))
WATCH(int, mkdir, (const char *path, mode_t mode), (path, mode), below(path))

/* Opened to write. */
#define WATCH_OPEN(name)                                                                           \
    int name(const char *path, int flags, ...);                                                    \
    int name(const char *path, int flags, ...)                                                     \
    {                                                                                              \
        int (*real)(const char *, int, ...);                                                       \
        va_list rest;                                                                              \
        va_start(rest, flags);                                                                     \
        const mode_t mode = flags & O_CREAT ? va_arg(rest, mode_t) : 0;                            \
        va_end(rest);                                                                              \
        *(void **)&real = real_of(#name);                                                          \
        const bool watched = (flags & O_ACCMODE) != O_RDONLY && below(path);                       \
        if (watched)                                                                               \
            edge();                                                                                \
        const int fd = real(path, flags, mode);                                                    \
        if (watched)                                                                               \
            edge();                                                                                \
        return fd;                                                                                 \
    }

WATCH_OPEN(open)
WATCH_OPEN(open64)
