/* trie.h - strings as paths of bytes, to find all strings that match at a place, or the longest. */
#ifndef WEFT_TEXT_TRIE_H
#define WEFT_TEXT_TRIE_H

#include "text/scratch.h"
#include "text/vocab.h"

typedef struct trie_edge {
    uint32_t node; /* << 8 | byte; NO_ID: a free slot */
    uint32_t child;
} trie_edge;

/* Edges are hashed, except the root's, which are indexed by byte because most walks end there. Node
 * 0 is the root. */
typedef struct trie {
    trie_edge *edge;
    uint64_t mask;
    hash_secret secret;
    uint32_t n;          /* nodes */
    uint32_t first[256]; /* children of the root, 0 if there is none */
    uint32_t *value;     /* [n] NO_ID if no string ends here */
    uint32_t longest;
} trie;

typedef struct trie_entry {
    const char *text;
    uint32_t length, value;
} trie_entry;

/* The last of equal strings counts; empty strings are skipped. */
weft_status trie_init(trie *t, arena *store, const trie_entry *entry, size_t n, weft_error *err);

#define TRIE_MAX_NODE ((uint32_t)1 << 24)

/* The node one byte further, or 0. */
static inline uint32_t trie_step(const trie *t, uint32_t from, uint8_t byte)
{
    if (from == 0)
        return t->first[byte];
    const uint32_t key = from << 8 | byte;
    uint64_t i = hash_number(&t->secret, key) & t->mask;
    while (t->edge[i].node != NO_ID) {
        if (t->edge[i].node == key)
            return t->edge[i].child;
        i = (i + 1) & t->mask;
    }
    return 0;
}

/* The longest string that is a prefix of text, continuing from `node`: its length, 0 if none. */
size_t trie_longest(const trie *t, uint32_t node, const char *text, size_t n, uint32_t *value);

#endif
