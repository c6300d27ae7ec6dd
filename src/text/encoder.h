/* encoder.h - the state an encoder keeps between its stages (encode.c), and its last stages, which
 * work on ids (encode_template.c). */
#ifndef WEFT_TEXT_ENCODER_H
#define WEFT_TEXT_ENCODER_H

#include "text/tokenizer.h"

typedef struct cached cached; /* a cached word and its ids */

struct encoder {
    const tokenizer *t;
    mem *mem;
    cached *cache;
    uint64_t cache_mask; /* of the first slot of a line */
    ids ids;             /* of the word; of the whole text, if no spans are wanted */
    scratch from, to, type;
    scratch due[2]; /* walks for added tokens: in the text as written, and in the normalised text */
    size_t n_span;
    bpe_scratch bpe;
    unigram_scratch unigram;
    normalize_scratch normalize;
    regex_scratch *regex;
    writer writer[MAX_STEP];
    writer clean; /* the text with invalid bytes replaced */
    split_run run;
    growth growth;
    bool spans;
    bool parse_special;
    const encode_options *trust; /* the options that name trusted spans; NULL: they name none */
    scratch cuts;                /* where words are cut that spell a gated token */
    size_t n_cut;
    uint32_t *span_from, *span_to;
    weft_error *err;
};

/* Adds the span of the next id. */
bool encoder_put_span(encoder *e, uint32_t from, uint32_t to);

/* Whether the bytes [from, to) of the input may not become this token. */
bool encoder_forges(const encoder *e, uint32_t id, uint32_t from, uint32_t to);

/* And whether some of them are trusted. */
bool encoder_straddles(const encoder *e, uint32_t id, uint32_t from, uint32_t to);

/* The number of tokens that the template adds, and whether it sets token types. */
int template_count(const template *m);
bool template_has_types(const template *m);

/* Longest first, as Hugging Face truncates: the shorter of two texts is not cut while there is
 * room. */
void template_truncate(encoder *e, size_t *n_a, size_t *n_b, size_t most);

/* Puts the template's tokens around the ids of a and b, and sets their types. */
bool template_apply(encoder *e, const template *m, size_t n_a, size_t n_b, bool tokens);

/* Pads as if this text were the longest of its batch. */
bool encoder_pad(encoder *e);

#endif
