/* wordpiece.h - greedy: the longest piece that the word begins with, then the longest that goes on
 * from there, spelled with a prefix ("##"). A word that cannot be finished is unknown as a whole.
 * Also the whole word or nothing (WordLevel). */
#ifndef WEFT_TEXT_WORDPIECE_H
#define WEFT_TEXT_WORDPIECE_H

#include "text/trie.h"

typedef struct wordpiece {
    trie trie;
    uint32_t inner; /* node behind the prefix; NO_ID if no piece has it */
    uint32_t unk;   /* or NO_ID */
    size_t longest; /* characters of a word; longer ones are unknown */
} wordpiece;

/* The node behind the prefix. */
uint32_t wordpiece_inner(const trie *t, const char *prefix, size_t n);

bool wordpiece_encode(const wordpiece *m, const char *word, size_t n, ids *out, weft_error *err);

typedef struct wordlevel {
    const vocab *vocab;
    uint32_t unk; /* or NO_ID */
} wordlevel;

bool wordlevel_encode(const wordlevel *m, const char *word, size_t n, ids *out, weft_error *err);

#endif
