/* token_trie.h - the exact bytes of a vocabulary as a trie, laid out for walks that skip.
 *
 * Nodes are in depth-first order, and each knows where its subtree ends, so that a walk is one loop
 * over an array and leaves out a dead branch by one jump. Ids are in the same order:
 *
 *     node    0 root  1 a   2 ab   3 abc   4 ac   5 b          ids   [ab, abc, ac, b]
 *     end     6       5     4      4       5      6
 *     first   0       0     0      1       2      3
 *
 * Special tokens and tokens without bytes are never text and have no node.
 *
 * Most tokens are *plain*: whole code points that a JSON string holds as they are. Inside a string it
 * only matters how many there are, so plain tokens are also kept as masks by length, and a second
 * trie has only the others. */
#ifndef WEFT_TEXT_CONSTRAIN_TOKEN_TRIE_H
#define WEFT_TEXT_CONSTRAIN_TOKEN_TRIE_H

#include "text/tokenizer.h"

typedef struct token_node {
    uint32_t end;   /* the first node after its subtree */
    uint32_t first; /* the first of its ids */
    uint16_t depth; /* bytes from the root */
    uint8_t byte;
    bool plain; /* all that follows it, in all its tokens, are plain code points */
} token_node;

typedef struct token_nodes {
    token_node *node; /* [n + 1]: the last only ends the ids of the one before */
    uint32_t n;
    uint32_t *id; /* [n_id] */
    uint32_t n_id;
} token_nodes;

#define PLAIN_MOST 32 /* code points of a plain token */

typedef struct token_trie {
    mem *mem;
    token_nodes all, rest; /* every token, and those that are not plain */
    uint64_t *plain; /* [PLAIN_MOST + 1, words]: plain tokens of at most so many code points */
    size_t words;
    uint32_t n_id;  /* ids are below this */
    uint32_t depth; /* bytes of the longest token */
    const tokenizer *tokenizer;
} token_trie;

/* Is this code point plain? */
static inline bool is_plain(uint32_t point)
{
    return point >= 0x20 && point != '"' && point != '\\' && point != 0x7F;
}

/* The tokenizer must outlive the trie. */
weft_status token_trie_init(token_trie *t, const tokenizer *of, mem *m, weft_error *err);
void token_trie_free(token_trie *t);

/* The bytes of a token that is text; 0 for any other. */
size_t token_text(const token_trie *t, uint32_t id, const char **bytes);

/* The ids of exactly this node. */
static inline const uint32_t *node_ids(const token_nodes *t, uint32_t at, uint32_t *n)
{
    *n = t->node[at + 1].first - t->node[at].first;
    return t->id + t->node[at].first;
}

#endif
