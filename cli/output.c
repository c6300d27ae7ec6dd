/* output.c - files that commands write themselves: whole, or not at all.
 *
 * As the library does it (docs/FILES.md): a part file beside the place, locked while it is
 * written, which becomes the file once all went well. What is no regular file, such as /dev/stdout
 * or a pipe, is written as it is. */
#include "cli.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

/* The mode of what will be replaced, `old`; otherwise the usual one. */
static int create_part(out_file *o, const struct stat *old)
{
    uint64_t token = 0;
    if (getrandom(&token, sizeof token, 0) != (ssize_t)sizeof token)
        return -1;
    if ((size_t)snprintf(o->part, sizeof o->part, "%s.weft-%016" PRIx64 ".part", o->path, token) >=
        sizeof o->part)
        return errno = ENAMETOOLONG, -1;
    const int fd = open(o->part, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, old ? 0600 : 0666);
    if (fd >= 0 && old)
        fchmod(fd, old->st_mode & 0777);
    if (fd >= 0)
        flock(fd, LOCK_EX | LOCK_NB); /* so that no save sweeps it */
    return fd;
}

FILE *out_begin(out_file *o, const char *path)
{
    struct stat st;
    const bool there = stat(path, &st) == 0;
    *o = (out_file){ .path = path };
    if (there && !S_ISREG(st.st_mode))
        return o->f = fopen(path, "wb");
    const int fd = create_part(o, there ? &st : NULL);
    o->f = fd >= 0 ? fdopen(fd, "wb") : NULL;
    return o->f;
}

bool out_end(out_file *o, bool good)
{
    if (!o->f)
        return false;
    good = good && fflush(o->f) == 0 && !ferror(o->f);
    if (good && o->part[0])
        good = fsync(fileno(o->f)) == 0 && rename(o->part, o->path) == 0;
    const int why = errno;
    if (!good && o->part[0])
        unlink(o->part);
    good = fclose(o->f) == 0 && good;
    errno = why;
    o->f = NULL;
    return good;
}
