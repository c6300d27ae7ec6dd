/* bpe.h - byte pair encoding: merge the adjacent pair of lowest rank, the leftmost of equals first,
 * until the table has no pair left to merge.
 *
 * All variants share the table (left, right) -> (rank, id). They differ in where it comes from, and
 * in the symbols a word starts as:
 *
 *   merges        Hugging Face, GGUF    rank = line of the merge
 *   ranks         tiktoken              every cut of a token into two tokens; rank = its number
 *   scores        SentencePiece         the same; rank = order of the score, highest first
 *
 *   bytes         byte level            every byte has an id
 *   characters    the others            known ones have an id, others fall back to bytes or unk */
#ifndef WEFT_TEXT_BPE_H
#define WEFT_TEXT_BPE_H

#include "text/scratch.h"
#include "text/vocab.h"

typedef struct pair {
    uint32_t left, right, rank, id; /* id NO_ID: a free slot */
} pair;

#define BPE_AFFIX 64 /* bytes of a prefix or suffix */

typedef struct bpe {
    const vocab *vocab; /* byte level: exact bytes */
    vocab extra;        /* characters that are part of tokens only; ids from vocab->n on */
    pair *pair;
    uint64_t mask;
    hash_secret secret;
    uint64_t n_pair;
    bool bytes;       /* byte level */
    bool whole_words; /* ignore_merges: a word that is itself a token becomes that token */
    bool fuse_unk;
    bool fallback;       /* unknown characters become bytes, if all of those have an id */
    bool piece_unk;      /* SentencePiece: unknown symbols are resolved after merging */
    bool cut_at_bar;     /* no token has U+2581 after a letter: words may be cut before it */
    uint32_t unk;        /* or NO_ID */
    const vocab *names;  /* Marian: where to look up a run of unknown letters; or NULL */
    uint32_t byte[256];  /* byte level: ids of bytes; otherwise of ASCII characters */
    uint32_t spell[256]; /* fallback: ids of "<0x00>" to "<0xFF>" */
    const char *prefix, *suffix; /* prefix of inner symbols, suffix of the last; NULL: none */
    size_t prefix_length, suffix_length;
} bpe;

/* An empty table for n pairs. */
weft_status bpe_init(bpe *m, const vocab *v, arena *store, uint64_t n, weft_error *err);

/* A pair that already exists keeps its rank, unless `last` is set: then the last one counts. */
void bpe_add(bpe *m, uint32_t left, uint32_t right, uint32_t rank, uint32_t id, bool last);

/* For ranks and scores: adds every cut of token id into two symbols. Characters that are not tokens
 * themselves get numbers from *n_symbol on and go into `extra`. */
typedef struct bpe_cuts {
    scratch pairs;
    size_t n;
    vocab extra; /* such characters; its ids count from vocab->n */
    mem *mem;
} bpe_cuts;

weft_status bpe_cut(bpe_cuts *c, const vocab *v, uint32_t id, uint32_t rank, bool characters,
                    weft_error *err);
weft_status bpe_from_cuts(bpe *m, bpe_cuts *c, const vocab *v, arena *store, weft_error *err);

/* The order of a score as a rank: the higher the score, the lower the rank. */
uint32_t bpe_rank_of_score(float score);

/* Builds the lookup tables, once all pairs have been added. */
void bpe_finish(bpe *m);

typedef struct bpe_scratch {
    scratch symbols, heap;
} bpe_scratch;

void bpe_scratch_free(bpe_scratch *s, mem *m);

/* Appends the ids of one word. */
bool bpe_encode(const bpe *m, bpe_scratch *s, const char *word, size_t n, ids *out,
                weft_error *err);

#endif
