/* wordpiece.h - greedy: the longest piece that begins the word, then the longest that continues it,
 * spelled with a prefix ("##"). A word that cannot be completed is unknown as a whole. Also
 * WordLevel, which matches whole words only. */
#ifndef WEFT_TEXT_WORDPIECE_H
#define WEFT_TEXT_WORDPIECE_H

#include "text/trie.h"

typedef struct wordpiece {
    trie trie;
    uint32_t inner; /* node after the prefix; NO_ID if no piece has it */
    uint32_t unk;   /* or NO_ID */
    size_t longest; /* maximum characters of a word; longer words are unknown */
} wordpiece;

/* The node after the prefix. */
uint32_t wordpiece_inner(const trie *t, const char *prefix, size_t n);

bool wordpiece_encode(const wordpiece *m, const char *word, size_t n, ids *out, weft_error *err);

typedef struct wordlevel {
    const vocab *vocab;
    uint32_t unk; /* or NO_ID */
} wordlevel;

bool wordlevel_encode(const wordlevel *m, const char *word, size_t n, ids *out, weft_error *err);

#endif
