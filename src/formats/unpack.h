/* unpack.h - data files compressed with gzip or zstd, as data sets are distributed: recognised by
 * their first bytes, whatever their name is, and decompressed whole into counted memory.
 *
 * The sizes that such files state are not trusted. A file is decompressed twice: first to count,
 * which keeps nothing, then into one block of that size. So a bomb takes no memory, no buffer grows by
 * copying, and every checksum has been verified before the first byte is used.
 *
 * gzip members and zstd frames may be concatenated, as cat, bgzip and pzstd write them; anything else
 * after the last one is an error, and so is an end before it. */
#ifndef WEFT_FORMATS_UNPACK_H
#define WEFT_FORMATS_UNPACK_H

#include "base/host.h"

/* The formats that this build can read, for weft_build_parts. */
#ifdef WEFT_ZLIB
#define UNPACK_GZIP " gzip"
#else
#define UNPACK_GZIP ""
#endif
#ifdef WEFT_ZSTD
#define UNPACK_ZSTD " zstd"
#else
#define UNPACK_ZSTD ""
#endif

/* The memory cap limits the decompressed size; so does this ratio to the file's size, for outputs above
 * UNPACK_FREE bytes. Text reaches 10, logs 50. gzip can reach 1032, zstd more than 10000. */
#define UNPACK_FREE  ((uint64_t)64 << 20)
#define UNPACK_RATIO 256

/* The largest zstd window, 128 MiB. It is also the default limit of `zstd -d`. */
#define UNPACK_WINDOW_LOG 27

bool is_packed(const uint8_t *data, size_t size);

/* Counts the decompressed bytes, and verifies all checksums. `expected` names the expected content in
 * errors: an archive inside is refused. */
weft_status unpack_count(const char *path, const uint8_t *data, size_t size, const char *expected,
                         mem *m, uint64_t *n, weft_error *err);

/* Decompresses into `to`. *n: on entry its size, on return the number of bytes. */
weft_status unpack_into(const char *path, const uint8_t *data, size_t size, uint8_t *to,
                        uint64_t *n, mem *m, weft_error *err);

/* Copies the first bytes of the content, at most `room`, and returns their number; 0 if decompression
 * fails. Data that is not compressed is its own content. */
size_t unpack_head(const uint8_t *data, size_t size, uint8_t *to, size_t room, mem *m);

/* file_open, with the content of a compressed file in place of its bytes. */
weft_status file_open_unpacked(file *f, const char *path, const char *expected, weft_load load,
                               host *h, weft_error *err);

/* Length of "data.jsonl" in "data.jsonl.gz": the name that tells the kind. */
size_t unpacked_name(const char *path);

/* ---- for the decoders ------------------------------------------------------------------------ */

typedef struct packed {
    const char *path;
    mem *mem;
    const uint8_t *in; /* the rest of the input */
    size_t n_in;
    uint8_t *out; /* where the next bytes go */
    size_t room;
    void *state;     /* the decoder's */
    const char *why; /* set by `step` with WEFT_EFORMAT: the damage */
} packed;

/* begin: starts the first or the next member. step: reads from in, writes to out and advances both;
 * *ended: the member is complete. A step that advances neither lacks input. end: frees the state. */
typedef struct unpacker {
    weft_status (*begin)(packed *p, weft_error *err);
    weft_status (*step)(packed *p, bool *ended, weft_error *err);
    void (*end)(packed *p);
} unpacker;

extern const unpacker unpack_gzip, unpack_zstd;

#endif
