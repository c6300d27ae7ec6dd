/* words.h - counts how often each word occurs. */
#ifndef WEFT_TEXT_TRAIN_WORDS_H
#define WEFT_TEXT_TRAIN_WORDS_H

#include "text/hash.h"
#include "text/scratch.h"

typedef struct word {
    size_t at; /* in `text` */
    size_t n;  /* bytes; 0: a free slot */
    uint64_t count;
} word;

typedef struct words {
    scratch text_room, slot_room;
    char *text;
    size_t n_text;
    word *slot;
    uint64_t size; /* slots, a power of two or 0 */
    uint64_t n;    /* words */
    hash_secret secret;
    mem *mem;
} words;

/* Counts a word that is not empty; false with err filled if memory runs out. */
bool words_add(words *w, const char *s, size_t n, uint64_t count, weft_error *err);
bool words_unite(words *w, const words *other, weft_error *err);
void words_free(words *w);

/* Pointers to all words, sorted by their bytes; mem_free frees the array. */
word **words_sorted(const words *w, weft_error *err);

#endif
