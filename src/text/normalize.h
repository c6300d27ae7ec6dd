/* normalize.h - the normalizers of Hugging Face's tokenizers and of SentencePiece, each a pass over
 * the text. */
#ifndef WEFT_TEXT_NORMALIZE_H
#define WEFT_TEXT_NORMALIZE_H

#include "text/charsmap.h"
#include "text/regex/regex.h"
#include "text/text.h"
#include "text/trie.h"
#include "text/unicode/unicode.h"

typedef enum normalizer_kind {
    NORM_FORM, /* NFC, NFD, NFKC, NFKD */
    NORM_LOWERCASE,
    NORM_STRIP,
    NORM_STRIP_ACCENTS,
    NORM_NMT,
    NORM_PREPEND,
    NORM_REPLACE, /* a text or a pattern */
    NORM_BERT,
    NORM_PRECOMPILED,
    NORM_BYTE_LEVEL,
    NORM_SENTENCEPIECE,
} normalizer_kind;

typedef struct normalizer_step {
    normalizer_kind kind;
    unicode_form form;
    bool left, right;                      /* STRIP */
    bool clean, han, strip_accents, lower; /* BERT */
    bool prefix, suffix, squeeze,
        escape;                 /* SENTENCEPIECE: where to add a space; merge spaces; use U+2581 */
    const char *text, *content; /* PREPEND, REPLACE: for a pattern, its source */
    size_t text_length, content_length;
    regex *pattern;      /* REPLACE, or NULL */
    const charsmap *map; /* PRECOMPILED, SENTENCEPIECE, or NULL */
    const trie *user;    /* SENTENCEPIECE: pieces that stay unchanged, or NULL */
} normalizer_step;

typedef struct normalizer {
    normalizer_step step[MAX_STEP];
    int n;
} normalizer;

typedef struct normalize_scratch {
    writer writer[2], stage[2];
    unicode_text form;
    growth growth;        /* the caller begins it, once for each text */
    regex_scratch *regex; /* borrowed; the caller begins it too */
} normalize_scratch;

/* Normalises p. Afterwards p lies in the scratch, or where it was if nothing changed. p is valid
 * UTF-8. */
bool normalize(const normalizer *z, normalize_scratch *s, piece *p, bool maps, mem *m,
               weft_error *err);
void normalize_scratch_free(normalize_scratch *s, mem *m);

/* GPT-2's printable stand-in for a byte, and back; -1 for a code point that is not one. */
uint32_t byte_stand_in(uint8_t byte);
int byte_of_stand_in(uint32_t point);

#endif
