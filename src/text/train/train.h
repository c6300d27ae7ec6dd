/* train.h - trains a tokenizer from text: byte-level BPE, WordPiece or single characters, written
 * as a tokenizer.json. */
#ifndef WEFT_TEXT_TRAIN_TRAIN_H
#define WEFT_TEXT_TRAIN_TRAIN_H

#include "base/buffer.h"
#include "base/host.h"
#include "text/train/merger.h"

typedef struct train_options {
    bool wordpiece;         /* default byte-level BPE; or: */
    bool characters;        /* every code point of the text is a token, with no other tokens */
    uint32_t n_vocab;       /* tokens, special ones included */
    uint64_t min_frequency; /* a pair that occurs less often is not merged */
    bool by_bytes;          /* ties go to the greatest bytes; otherwise to the smallest ids */
    bool lines; /* every line is a text, as in Hugging Face's trainers; otherwise every file */
    bool cased; /* WordPiece: keep case and accents */
    const char *pattern; /* BPE: the splitting pattern; NULL is GPT-2's */
    const char *const *special;
    int n_special;
    const char *const
        *first; /* tokens that get the next ids, even if they never occur; for tests */
    int n_first;
    int n_thread; /* 0: one for each processor */
    weft_load load;
} train_options;

/* The trained vocabulary, in counted memory. */
typedef struct trained {
    merger merger;
    uint64_t n_word;       /* distinct words */
    uint64_t n_occurrence; /* words in all */
} trained;

weft_status train_tokenizer(trained *t, const char *const *path, int n_path, const train_options *o,
                            host *h, weft_error *err);
void trained_free(trained *t);

/* Writes its tokenizer.json. */
void trained_put(const trained *t, const train_options *o, buffer *to);
weft_status trained_save(const trained *t, const train_options *o, const char *path, host *h,
                         weft_error *err);

#endif
