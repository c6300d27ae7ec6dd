/* unigram.h - the cut of a text into pieces whose scores have the largest sum (Viterbi).
 *
 *     best[e] = max over pieces p that end at e of  best[e - |p|] + score(p)
 *
 * From left to right, so that of equal sums the one found first stays. A character that no piece
 * covers alone may be unknown, at a score below all others. Hugging Face sums in double,
 * SentencePiece in float; both are done as they do. */
#ifndef WEFT_TEXT_UNIGRAM_H
#define WEFT_TEXT_UNIGRAM_H

#include "text/trie.h"
#include "text/vocab.h"

typedef struct unigram {
    trie trie;
    double *score; /* [n_vocab] */
    uint8_t *user; /* [n_vocab] SentencePiece: user-defined pieces win always; or NULL */
    double least;
    uint32_t unk;       /* or NO_ID */
    const vocab *names; /* Marian: where a run of unknown letters may have an id; or NULL */
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
