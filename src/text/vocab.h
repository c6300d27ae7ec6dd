/* vocab.h - the strings of a model and their ids, both ways. Ids may have holes; a string has one
 * id, and an id one string. */
#ifndef WEFT_TEXT_VOCAB_H
#define WEFT_TEXT_VOCAB_H

#include "base/arena.h"
#include "text/hash.h"

#define VOCAB_MAX ((uint64_t)1 << 24) /* maximum number of ids */

typedef struct vocab {
    char *pool;
    size_t used, room;     /* of the pool */
    uint32_t *at, *length; /* [n] in the pool; length NO_ID if there is no such token */
    uint32_t *slot;        /* ids by hash; NO_ID if free */
    uint64_t mask;
    hash_secret secret;
    uint32_t n;     /* the largest id, plus one */
    uint32_t count; /* number of strings */
    uint32_t longest;
} vocab;

typedef enum vocab_added { VOCAB_OK, VOCAB_SAME_TEXT, VOCAB_SAME_ID } vocab_added;

/* Room for ids below n whose strings have `bytes` bytes in all. */
weft_status vocab_init(vocab *v, arena *store, uint64_t n, uint64_t bytes, weft_error *err);

/* Adds nothing if the text or the id already exists. */
vocab_added vocab_add(vocab *v, uint32_t id, const char *text, size_t length);

/* Adds a token that cannot be found by its text. */
void vocab_name(vocab *v, uint32_t id, const char *text, size_t length);

/* NO_ID if there is none. */
uint32_t vocab_find(const vocab *v, const char *text, size_t length);

/* Looks up an unknown text in another vocabulary, which may be NULL. */
static inline uint32_t vocab_find_or(const vocab *v, const char *text, size_t length, uint32_t unk)
{
    const uint32_t id = v && length <= v->longest ? vocab_find(v, text, length) : NO_ID;
    return id != NO_ID ? id : unk;
}

static inline bool vocab_has(const vocab *v, uint32_t id)
{
    return id < v->n && v->length[id] != NO_ID;
}

static inline const char *vocab_text(const vocab *v, uint32_t id)
{
    return v->pool + v->at[id];
}

#endif
