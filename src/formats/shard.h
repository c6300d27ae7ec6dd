/* shard.h - tokenized text in a file that is mapped and used in place.
 *
 *      0   8  "weft ids"
 *      8   4  version: 1
 *     12   4  bytes of an id: 2 or 4
 *     16   4  n_vocab; every id is below it
 *     20   4  0
 *     24   8  n_id
 *     32   8  n_document
 *     40   8  XXH64 of the file, these eight bytes as zeros
 *     48  16  0
 *     64      ids [n_id], and zeros up to a multiple of 8
 *             documents [n_document], 8 + 8 bytes each: end, n_prompt
 *
 * Numbers are little-endian. Documents are contiguous and cover all ids. */
#ifndef WEFT_FORMATS_SHARD_H
#define WEFT_FORMATS_SHARD_H

#include "base/save.h"

#define SHARD_MAGIC   "weft ids"
#define SHARD_VERSION 1
#define SHARD_HEAD    64

/* The file's layout. */
typedef struct document {
    uint64_t end;      /* of its ids, counted from the first id of the shard */
    uint64_t n_prompt; /* ids of its prompt, which is only read; later ids are trained on */
} document;

typedef struct shard {
    const void *ids; /* uint16_t or uint32_t */
    uint32_t width;  /* bytes of an id */
    uint32_t n_vocab;
    uint64_t n_id, n_document;
    const document *document;
} shard;

static inline uint32_t shard_id(const shard *s, uint64_t i)
{
    return s->width == 2 ? ((const uint16_t *)s->ids)[i] : ((const uint32_t *)s->ids)[i];
}

/* Where document i begins. */
static inline uint64_t shard_begin(const shard *s, uint64_t i)
{
    return i > 0 ? s->document[i - 1].end : 0;
}

bool shard_is(const uint8_t *data, uint64_t size);

/* Points into data, which must be aligned to 8 bytes, as maps and copies are. Reads all of it: on
 * success the checksum matches and every id is in the vocabulary. */
weft_status shard_parse(shard *s, const uint8_t *data, uint64_t size, const char *path,
                        weft_error *err);

/* The correct checksum for a file of these bytes, at least a header. */
uint64_t shard_sum(const uint8_t *data, uint64_t size);

/* The first id that is not below n_vocab, or n_id. */
uint64_t shard_find_unknown_id(const shard *s, uint32_t n_vocab);

/* Writes n shards of one width as one. */
weft_status shard_save(const shard *const *s, int64_t n, uint32_t n_vocab, const char *path,
                       host *h, weft_error *err);

#endif
