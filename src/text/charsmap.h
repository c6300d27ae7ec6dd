/* charsmap.h - SentencePiece's compiled normalisation: a double-array trie of the strings to
 * replace, and their replacements.
 *
 *     u32 bytes of the trie | u32 unit[] | text, each replacement ended by a NUL
 *
 *     unit    31      30 ........ 10    9     8     7 ... 0
 *             value?  offset           << 8  leaf?  label
 *
 * From node i, byte c leads to i ^ offset(i) ^ c, if the label there is c. */
#ifndef WEFT_TEXT_CHARSMAP_H
#define WEFT_TEXT_CHARSMAP_H

#include "base/arena.h"
#include "base/buffer.h"

typedef struct charsmap {
    const uint32_t *unit;
    size_t n_unit;
    const char *text;
    size_t n_text;
} charsmap;

/* Copies `blob`. */
weft_status charsmap_init(charsmap *c, arena *store, const uint8_t *blob, size_t n,
                          weft_error *err);

/* The table as it was read. */
void charsmap_put(const charsmap *c, buffer *to);

/* The longest key that is a prefix of text: its length, or 0. The replacement is *to, *length. */
size_t charsmap_longest(const charsmap *c, const char *text, size_t n, const char **to,
                        size_t *length);

/* As Hugging Face does: whether any key is a prefix of text, and the replacement of the
 * shortest. */
bool charsmap_shortest(const charsmap *c, const char *text, size_t n, const char **to,
                       size_t *length);

#endif
