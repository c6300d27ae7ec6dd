/* merger.h - learns a byte pair encoding: which two neighbours merge, and in which order. */
#ifndef WEFT_TEXT_TRAIN_MERGER_H
#define WEFT_TEXT_TRAIN_MERGER_H

#include "text/train/words.h"

/* Tokens by number. */
typedef struct token_list {
    scratch text_room, at_room;
    char *text;
    size_t *at; /* [n + 1] */
    uint32_t n;
    uint32_t *slot; /* hash table of numbers */
    uint64_t size;
    hash_secret secret;
    mem *mem;
} token_list;

/* The number of a token, which is added if missing; NO_ID with err filled if memory runs out. */
uint32_t tokens_add(token_list *t, const char *s, size_t n, weft_error *err);
uint32_t tokens_find(const token_list *t, const char *s, size_t n);
const char *tokens_get(const token_list *t, uint32_t id, size_t *n);
void tokens_free(token_list *t);

typedef struct merge {
    uint32_t a, b, made;
} merge;

/* Words as token numbers, and the merges learned from them. */
typedef struct merger {
    token_list tokens;

    scratch symbol_room, word_room, merge_room;
    uint32_t *symbol;
    size_t n_symbol;
    struct merger_word *word;
    uint32_t n_word;
    merge *merges;
    size_t n_merge;

    uint32_t n_vocab;       /* stop at this many tokens */
    uint64_t min_frequency; /* or when no pair is this frequent */
    bool by_bytes;          /* ties go to the greatest bytes; otherwise to the smallest numbers */
    const char
        *prefix; /* of tokens inside a word, dropped when one is joined to the left; or NULL */
    mem *mem;
} merger;

/* Put symbols one by one, then end the word with its count. */
bool merger_put(merger *l, uint32_t symbol, weft_error *err);
bool merger_end_word(merger *l, uint64_t count, weft_error *err);

weft_status merger_run(merger *l, weft_error *err);
void merger_free(merger *l);

#endif
