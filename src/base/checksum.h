/* checksum.h - XXH64 (Collet, 2014), the 64-bit sum that `xxhsum -H1` prints, and checksums of a
 * file's chunks, so that an error can name the damaged chunk. Not cryptographic. */
#ifndef WEFT_BASE_CHECKSUM_H
#define WEFT_BASE_CHECKSUM_H

#include "base/buffer.h"

typedef struct xxh64 {
    uint64_t lane[4];
    uint8_t rest[32];
    uint64_t n; /* bytes so far */
} xxh64;

void xxh64_begin(xxh64 *x);
void xxh64_add(xxh64 *x, const void *data, size_t size);
uint64_t xxh64_end(const xxh64 *x);
uint64_t xxh64_of(const void *data, size_t size);

#define CHUNK_BYTES ((size_t)4 << 20)

/* Computes the checksums of a file's chunks as its bytes pass. Errors stick. */
typedef struct chunk_sums {
    xxh64 now;
    buffer sums; /* checksums of whole chunks */
    uint64_t bytes;
} chunk_sums;

void chunk_sums_begin(chunk_sums *c, mem *m, weft_error *err);
void chunk_sums_add(chunk_sums *c, const void *data, size_t size);

/* The last chunk may be short. Returns *n checksums; NULL if an allocation failed. */
const uint64_t *chunk_sums_end(chunk_sums *c, uint64_t *n);
void chunk_sums_free(chunk_sums *c);

#endif
