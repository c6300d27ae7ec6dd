/* merges.h - shared by the writers of vocabularies: how a token is spelled, and the pairs of a BPE
 * model in merge order. */
#ifndef WEFT_TEXT_SOURCES_MERGES_H
#define WEFT_TEXT_SOURCES_MERGES_H

#include "base/buffer.h"
#include "text/tokenizer.h"

/* Replaces the contents of the buffer by a token as files spell it: tiktoken's bytes become the
 * letters that stand for them. */
void token_spelling(const tokenizer *t, uint32_t id, buffer *to);

typedef struct merge_list {
    const pair **at;
    size_t n;
    bool
        tied; /* two different tokens have the same rank: SentencePiece takes the leftmost of all */
    mem *mem;
} merge_list;

/* Leaves out merges that make user-defined pieces, which are cut out of the text first. A pair with
 * one half that is not a token (a letter that only longer pieces contain) is an error that names
 * the piece: no list of merges can express it. */
weft_status merges_begin(merge_list *l, const tokenizer *t, mem *m, weft_error *err);
void merges_end(merge_list *l);

/* Can scores replace the list? They can if every cut of a token into two is a merge, and all merges
 * that make one token are adjacent. */
bool merges_are_scores(const merge_list *l, const tokenizer *t);

#endif
