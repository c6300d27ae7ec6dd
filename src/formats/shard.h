/* shard.h - tokenized text in a file that is mapped and used in place.
 *
 *      0   8  "weft ids"
 *      8   4  version: 1; 2 if some ids have no loss
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
 * Numbers are little-endian. Documents are contiguous and cover all ids. In version 2 ids have four
 * bytes, and the top bit of one says that it has no loss: of a conversation only the answers are
 * learned. */
#ifndef WEFT_FORMATS_SHARD_H
#define WEFT_FORMATS_SHARD_H

#include "base/save.h"

#define SHARD_MAGIC   "weft ids"
#define SHARD_VERSION 2
#define SHARD_HEAD    64
#define SHARD_NO_LOSS 0x80000000u

/* The file's layout. */
typedef struct document {
    uint64_t end;      /* of its ids, counted from the first id of the shard */
    uint64_t n_prompt; /* ids of its prompt, which is only read; later ids are trained on */
} document;

typedef struct shard {
    const void *ids; /* uint16_t or uint32_t */
    uint32_t width;  /* bytes of an id */
    bool marked;     /* SHARD_NO_LOSS may be set in them */
    uint32_t n_vocab;
    uint64_t n_id, n_document;
    const document *document;
} shard;

static inline uint32_t shard_id(const shard *s, uint64_t i)
{
    if (s->width == 2)
        return ((const uint16_t *)s->ids)[i];
    return ((const uint32_t *)s->ids)[i] & (s->marked ? ~SHARD_NO_LOSS : UINT32_MAX);
}

static inline bool shard_has_loss(const shard *s, uint64_t i)
{
    return !s->marked || !(((const uint32_t *)s->ids)[i] & SHARD_NO_LOSS);
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

/* Writes n shards as one, of the widest ids. */
weft_status shard_save(const shard *const *s, int64_t n, uint32_t n_vocab, const char *path,
                       host *h, weft_error *err);

#endif
