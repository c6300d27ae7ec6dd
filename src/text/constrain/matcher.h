/* matcher.h - a grammar and a vocabulary: which tokens may follow a row.
 *
 * What a row allows is the union of what its scan items allow. For one item:
 *
 *     t o k e n                      stays inside its lexeme: depends on the state alone
 *     t o k | e n                    the lexeme may end here; then what follows it decides
 *
 * So a *slice* is kept for each state of the automaton: the tokens that stay inside, and the nodes
 * of the trie where the lexeme may end before the token does. Only below those do rows step. Masks
 * of rows that took long are kept too. Both caches have a limit and are emptied beyond it; that
 * costs time and changes no mask. */
#ifndef WEFT_TEXT_CONSTRAIN_MATCHER_H
#define WEFT_TEXT_CONSTRAIN_MATCHER_H

#include "text/constrain/rows.h"
#include "text/constrain/token_trie.h"

typedef struct token_slice {
    uint32_t n_id, n_cross;
    uint64_t *bits;  /* [words]; NULL: few tokens, in */
    uint32_t *id;    /* [n_id] */
    uint32_t *cross; /* [n_cross] nodes of: */
    const token_nodes *nodes;
} token_slice;

typedef struct matcher {
    mem *mem;
    grammar *grammar; /* owned */
    earley rows;
    const token_trie *trie;
    size_t words;      /* of a mask: a bit for each id */
    uint64_t *special; /* [words] tokens that end the text */

    list slices; /* token_slice *, by state */
    size_t slice_bytes;
    uint32_t *mask_row; /* [MASKS] which row's mask is kept here; NO_ROW: none */
    uint64_t **mask;    /* [MASKS] */
    uint32_t n_mask;

    list next_plain; /* uint32_t, by state: the state after any plain code point */
    uint64_t *found; /* [words] a slice that is being made */
    uint32_t *path;  /* [depth + 1] states or rows from the root to a node */
    list crosses;    /* uint32_t: nodes of the same */
    list marked;     /* uint32_t: states, by the mask that looked at them last */
    uint32_t mark;
} matcher;

/* Takes the grammar, also on failure. The trie must outlive the matcher. ends: tokens that end the
 * text, and are nothing else. */
weft_status matcher_init(matcher *m, grammar *g, const token_trie *tokens, const int32_t *ends,
                         int n_end, mem *in, weft_error *err);
void matcher_free(matcher *m);

static inline bool matcher_ends(const matcher *m, uint32_t id)
{
    return id < m->trie->n_id && (m->special[id / 64] >> id % 64 & 1);
}

/* The row after a token that does not end the text, or NO_ROW. */
uint32_t matcher_token(matcher *m, uint32_t row, uint32_t id);

/* bits [words]: the tokens that may follow a row. */
weft_status matcher_mask(matcher *m, uint32_t row, uint64_t *bits);

/* Rows have changed their numbers: masks are forgotten. */
void matcher_forget(matcher *m);

#endif
