/* munch.h - cuts strings out of a text in linear time, from left to right, at each place the
 * longest match.
 *
 * A walk down a trie finds the longest match at a place, but may read far beyond its end and then
 * read the same bytes again. With "a" and "aaa...ab" it reads all of "aaa..." from every letter on.
 * Each node therefore stores what happens to the bytes that lead to it when no child fits:
 *
 *     pops(v)   the strings, and the single bytes between them, that are then certain
 *     fail(v)   the node that the bytes after those lead to
 *
 * This is Aho and Corasick's automaton for the rule "longest first, none overlap". Song et al.,
 * Fast WordPiece Tokenization, 2021, describe it. Here a text may contain bytes that are in no
 * string. Each byte of a text is read once and popped once. */
#ifndef WEFT_TEXT_MUNCH_H
#define WEFT_TEXT_MUNCH_H

#include "text/trie.h"

/* Lists of pops are long and overlap, so a node stores only what it adds to its parent's. That is
 * the pops of fail(parent), of its fail node and so on up to `stop`, then perhaps one byte that
 * begins no string. */
typedef struct munch_node {
    uint32_t parent, fail, stop;
    uint32_t home; /* this node, or the nearest ancestor that adds pops */
    uint32_t depth;
    bool byte;
} munch_node;

typedef struct munch {
    trie trie;
    munch_node *node;
} munch;

/* Same contract as trie_init. */
weft_status munch_init(munch *m, arena *store, const trie_entry *entry, size_t n, mem *room,
                       weft_error *err);

/* Pending pops: all of a node; all of a node and its fail nodes up to `stop`; or a byte. */
typedef struct munch_due {
    enum { DUE_NODE, DUE_CHAIN, DUE_BYTE } kind;
    uint32_t node, stop;
} munch_due;

typedef struct munch_walk {
    const munch *m;
    const char *s;
    size_t n;
    size_t at, read; /* the next pop begins at `at`; bytes not yet popped end at `read` */
    uint32_t node;   /* the state for the bytes after everything that is due */
    munch_due *due;  /* a stack */
    size_t n_due;
} munch_walk;

/* Bytes of `due` that a walk needs. */
static inline size_t munch_room(const munch *m)
{
    return ((size_t)m->trie.longest + 4) * sizeof(munch_due);
}

static inline munch_walk munch_begin(const munch *m, const char *s, size_t n, void *room)
{
    return (munch_walk){ .m = m, .s = s, .n = n, .due = room };
}

/* The next string: where it begins, its length, its value. False after the last. */
bool munch_next(munch_walk *w, size_t *at, size_t *length, uint32_t *value);

#endif
