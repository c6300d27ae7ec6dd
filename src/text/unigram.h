/* unigram.h - cuts a text into the pieces with the largest sum of scores (Viterbi).
 *
 *     best[e] = max over pieces p that end at e of  best[e - |p|] + score(p)
 *
 * The pass runs from left to right, and the first of equal sums wins. A character that is not a
 * piece by itself may be unknown, with a score below all others. Hugging Face sums in double,
 * SentencePiece in float; this code matches both. */
#ifndef WEFT_TEXT_UNIGRAM_H
#define WEFT_TEXT_UNIGRAM_H

#include "text/trie.h"
#include "text/vocab.h"

typedef struct unigram {
    trie trie;
    double *score; /* [n_vocab] */
    uint8_t *user; /* [n_vocab] SentencePiece: user-defined pieces always win; or NULL */
    double min_score;
    uint32_t unk;       /* or NO_ID */
    const vocab *names; /* Marian: where to look up a run of unknown letters; or NULL */
    bool in_float;
    bool fallback;
    uint32_t spell[256];
} unigram;

typedef struct unigram_scratch {
    scratch nodes;
} unigram_scratch;

bool unigram_encode(const unigram *m, unigram_scratch *s, const char *word, size_t n, ids *out,
                    weft_error *err);

#endif
