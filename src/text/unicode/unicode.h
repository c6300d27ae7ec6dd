/* unicode.h - properties of code points, as Hugging Face's tokenizers see them.
 *
 * Their normalizers and pre-tokenizers use several libraries, each with its own Unicode version.
 * The tables hold the answers of those libraries, code point by code point (tools/unicode.py
 * generates them), not those of the newest standard: a trained tokenizer must not change.
 * docs/TEXT.md lists the versions.
 *
 * All functions take any uint32_t; a value that is not a code point is in no class. */
#ifndef WEFT_TEXT_UNICODE_UNICODE_H
#define WEFT_TEXT_UNICODE_UNICODE_H

#include "base/mem.h"

bool unicode_is_space(uint32_t c);   /* White_Space: Rust's char::is_whitespace, regex's \s */
bool unicode_is_numeric(uint32_t c); /* Nd, Nl, No: Rust's char::is_numeric */
bool unicode_is_word(uint32_t c);    /* \w of Rust's regex: pre-tokenizer Whitespace, single_word */
bool unicode_is_control(uint32_t c); /* BertNormalizer removes it: Other, but not \t \n \r */
bool unicode_is_punctuation(uint32_t c); /* ASCII punctuation or category P */
bool unicode_is_han(uint32_t c);         /* BertNormalizer puts spaces around it */
bool unicode_is_accent(uint32_t c);      /* Mn: BertNormalizer with strip_accents removes it */
bool unicode_is_mark(uint32_t c);        /* M: normalizer StripAccents removes it */

/* The script of pre-tokenizer UnicodeScripts, after it merges Hiragana and Katakana into Han. Equal
 * numbers are equal scripts; 0 is "any" (a space), which joins its neighbours. */
int unicode_script(uint32_t c);

/* The lower case of one code point without context (a final sigma is a sigma), as Rust's
 * char::to_lowercase. Writes up to three code points and returns how many. */
int unicode_lower(uint32_t c, uint32_t to[3]);

/* The length in bytes of the extended grapheme cluster at the start of valid UTF-8; 0 for none. */
size_t unicode_grapheme(const char *text, size_t n);

/* Text derived from another text. Begins as { .mem = m }; reusable for many texts: it keeps its
 * memory. */
typedef struct unicode_text {
    char *text;     /* [n], valid UTF-8, not terminated */
    uint32_t *from; /* [n] for each byte, where its code point begins in the input */
    size_t n, room;
    mem *mem;
} unicode_text;

typedef enum unicode_form { UNICODE_NFC, UNICODE_NFD, UNICODE_NFKC, UNICODE_NFKD } unicode_form;

/* Replaces the contents of `to` by text[0..n), valid UTF-8 below 4 GiB, in a normal form. */
weft_status unicode_normalize(unicode_form form, const char *text, size_t n, unicode_text *to,
                              weft_error *err);
void unicode_text_free(unicode_text *t);

/* Is all of it in the form already? Yes is always right; no may be wrong. */
bool unicode_is_normal(unicode_form form, const char *text, size_t n);

#endif
