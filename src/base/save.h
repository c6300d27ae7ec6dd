/* save.h - files, written whole and as a set: each beside its place first, as a part file (io.h),
 * then all moved where they belong.
 *
 *     create "model.gguf.weft-<token>.part"  ->  write  ->  fsync  ->  rename  ->  fsync of the directory
 *
 * So nobody ever sees half a file; what was there stays until the last byte of every new file has
 * reached the disk; and a file that is replaced while it is mapped stays as it was for those who
 * have it mapped. A failure, at any call, leaves no file behind that was not there before. A process
 * that is killed leaves part files, which the next save into the same directory removes. Only
 * between the first and the last rename of a set can a failure leave some files old and some new:
 * what a reader opens first is therefore put last into the set.
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
    int fd;        /* of the last one, while it is written; -1 otherwise */
    int n_held;    /* descriptors of parts that stay open until the end, for their locks */
    uint8_t *room; /* bytes that have not been written yet */
    size_t n;
    uint64_t bytes;               /* put into the last one so far */
    uint64_t total;               /* into all */
    chunk_sums *sums, *next_sums; /* of the last one and of the next, or NULL */
    weft_status status;
    weft_error *err;
} save;

/* err gets the first error, and outlives the set. */
void save_begin(save *s, host *h, weft_error *err);

/* The next file of the set; the one before it is finished. */
void save_file(save *s, const char *path);
void save_put(save *s, const void *data, size_t size);

/* Every byte of the next file goes through `sums` too; the caller begins, ends and frees them. */
void save_summed(save *s, chunk_sums *sums);

/* A file that gets a second name. Where there can be none, because the file system knows no such
 * thing, it is copied. */
void save_link(save *s, const char *from, const char *path);

/* A directory to save into; taken back if the set fails. One that is there already is fine. */
void save_directory(save *s, const char *path);

/* A file that does not belong to what is saved: removed after the set is in place. It need not
 * exist. */
void save_retire(save *s, const char *path);

/* Moves all files to where they belong, or none; frees the set. */
weft_status save_commit(save *s);

/* For errors that the caller found: keeps the first one. */
weft_status save_fail(save *s, weft_status code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* One file from memory. */
weft_status save_whole(const char *path, const void *data, size_t size, host *h, weft_error *err);

#endif
