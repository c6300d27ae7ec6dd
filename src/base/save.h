/* save.h - writes a set of files atomically: each to a part file (io.h) in its directory first,
 * then renames all to their final names.
 *
 *     create "model.gguf.weft-<token>.part"  ->  write  ->  fsync  ->  rename  ->  fsync of the directory
 *
 * So no reader ever sees half a file. Old files stay until the last byte of every new file has
 * reached the disk, and a file that is replaced while mapped stays unchanged for those who map it.
 * A failure, at any call, leaves no new file. A killed process leaves part files, which the next
 * save into the same directory removes. Only between the first and the last rename of a set can a
 * failure leave some files old and some new, so the file that readers open first goes last into the
 * set.
 *
 * Errors stick: the first is kept, later calls do nothing, and commit returns it. */
#ifndef WEFT_BASE_SAVE_H
#define WEFT_BASE_SAVE_H

#include "base/checksum.h"
#include "base/host.h"

typedef struct saved saved; /* one file of the set */

typedef struct save {
    host *host;
    saved *first, *last;
    int fd;        /* descriptor of the last one while it is written; -1 otherwise */
    int n_held;    /* parts kept open until the end, for their locks */
    uint8_t *room; /* bytes not yet written */
    size_t n;
    uint64_t bytes;               /* bytes in the last one so far */
    uint64_t total;               /* into all */
    chunk_sums *sums, *next_sums; /* checksums of the last file and of the next, or NULL */
    weft_status status;
    weft_error *err;
} save;

/* err gets the first error, and must outlive the set. */
void save_begin(save *s, host *h, weft_error *err);

/* Starts the next file of the set; finishes the one before it. */
void save_file(save *s, const char *path);
void save_put(save *s, const void *data, size_t size);

/* Every byte of the next file also goes through `sums`, which the caller begins, ends and frees. */
void save_summed(save *s, chunk_sums *sums);

/* Adds a hard link to a file. If the file system does not support links, copies the file. */
void save_link(save *s, const char *from, const char *path);

/* Creates a directory to save into; removed again if the set fails. It may already exist. */
void save_directory(save *s, const char *path);

/* A file to remove after the set is in place. It need not exist. */
void save_retire(save *s, const char *path);

/* Renames all files to their final names, or none; frees the set. */
weft_status save_commit(save *s);

/* Records an error that the caller found, unless there is one already. */
weft_status save_fail(save *s, weft_status code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Saves one file from memory. */
weft_status save_whole(const char *path, const void *data, size_t size, host *h, weft_error *err);

#endif
