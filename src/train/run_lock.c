/* run_lock.c - takes a run's directory, and gives it back. */
#include "train/run_lock.h"

#include "formats/manifest.h"
#include "train/checkpoint.h"

#include <errno.h>
#include <string.h>

weft_status run_lock_take(run_lock *l, const char *root, host *h, weft_error *err)
{
    const io_hooks *io = &h->io;
    *l = (run_lock){ .root = root, .fd = -1, .host = h };
    l->made = io->mkdir(io->ud, root) == 0;
    if (!l->made && errno != EEXIST)
        return weft_fail(err, WEFT_EIO, "%s: cannot create: %s", root, strerror(errno));
    if (!path_is_directory(root, h))
        return weft_fail(err, WEFT_EIO, "%s: not a directory; a run needs one", root);
    l->fd = io->open(io->ud, root);
    if (l->fd < 0)
        return weft_fail(err, WEFT_EIO, "%s: cannot open: %s", root, strerror(errno));
    if (io->lock(io->ud, l->fd) == 0)
        checkpoint_sweep(root, h);
    else if (errno == EWOULDBLOCK)
        return weft_fail(err, WEFT_EIO,
                         "%s: another process is training here; wait for it, or give another "
                         "directory",
                         root);
    else
        log_write(&h->log, WEFT_LOG_WARN,
                  "%s: cannot lock: %s; make sure that no other process trains here", root,
                  strerror(errno));
    return WEFT_OK;
}

void run_lock_drop(run_lock *l)
{
    const io_hooks *io = &l->host->io;
    if (l->made)
        io->remove(io->ud, l->root); /* fails if the directory is not empty, as it should */
    if (l->fd >= 0)
        io->close(io->ud, l->fd);
}
