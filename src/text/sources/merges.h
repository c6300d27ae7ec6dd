/* merges.h - what writers of vocabularies share: how a token is spelled, and the pairs of a BPE model
 * in the order in which they are merged. */
#ifndef WEFT_TEXT_SOURCES_MERGES_H
#define WEFT_TEXT_SOURCES_MERGES_H

#include "base/buffer.h"
#include "text/tokenizer.h"

/* A token as files spell it, in place of what the buffer had: of tiktoken's bytes the letters that
 * stand for them. */
void token_spelling(const tokenizer *t, uint32_t id, buffer *to);

typedef struct merge_list {
    const pair **at;
    size_t n;
    bool
        tied; /* two different tokens have the same rank: SentencePiece takes the leftmost of all */
    mem *mem;
} merge_list;

/* Without those that make user-defined pieces, which are cut out of the text before. A pair of which
 * one half is no token (a letter that only longer pieces have) is an error that names the piece: no
 * list of merges can say it. */
weft_status merges_begin(merge_list *l, const tokenizer *t, mem *m, weft_error *err);
void merges_end(merge_list *l);

/* Would scores do as well as the list? They do where every cut of a token into two is a merge, and
 * all merges that make one token follow each other. */
bool merges_are_scores(const merge_list *l, const tokenizer *t);

#endif
