/* encoder.h - what an encoder keeps between its stages (encode.c), and its last stages, which work on
 * ids (encode_template.c). */
#ifndef WEFT_TEXT_ENCODER_H
#define WEFT_TEXT_ENCODER_H

#include "text/tokenizer.h"

typedef struct cached cached; /* a word that was seen before, and its ids */

struct encoder {
    const tokenizer *t;
    mem *mem;
    cached *cache;
    uint64_t cache_mask; /* of lines of two */
    ids ids;             /* of the word; or all, where no spans are wanted */
    scratch from, to, type;
    scratch due[2]; /* walks for added tokens: in the text as written, and normalised */
    size_t n_span;
    bpe_scratch bpe;
    unigram_scratch unigram;
    normalize_scratch normalize;
    regex_scratch *regex;
    writer writer[MAX_STEP];
    writer clean; /* text whose bad bytes were replaced */
    split_run run;
    growth growth;
    bool spans;
    bool parse_special;
    uint32_t *span_from, *span_to;
    weft_error *err;
};

/* One more place in the text, for the next id. */
bool encoder_put_span(encoder *e, uint32_t from, uint32_t to);

/* Tokens that the template adds, and whether it tells types apart. */
int template_count(const template *m);
bool template_has_types(const template *m);

/* Longest first, as Hugging Face cuts: the shorter of two keeps what it has while there is room. */
void template_truncate(encoder *e, size_t *n_a, size_t *n_b, size_t most);

/* Puts the template's tokens around the ids of a and b, and tells their types. */
bool template_apply(encoder *e, const template *m, size_t n_a, size_t n_b, bool tokens);

/* As one text that is the longest of its batch. */
bool encoder_pad(encoder *e);

#endif
