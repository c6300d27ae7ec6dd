/* source.h - the files a tokenizer can come from. Each loader fills a tokenizer after
 * tokenizer_begin; the bytes it reads from need not outlive the call. */
#ifndef WEFT_TEXT_SOURCES_SOURCE_H
#define WEFT_TEXT_SOURCES_SOURCE_H

#include "formats/container.h"
#include "text/sources/hf.h"

/* `pre` names the splitting of byte-level text if the file does not, with GGUF's names; NULL uses
 * the file's own. */
weft_status tokenizer_load(tokenizer *t, const char *path, const char *pre, weft_load load, host *h,
                           weft_error *err);

/* The same, for a model with two tokenizers: loads the one of this side. */
weft_status tokenizer_load_side(tokenizer *t, const char *path, weft_side side, const char *pre,
                                weft_load load, host *h, weft_error *err);

/* Which file of a directory is its tokenizer; WEFT_EIO if there is none. */
#define PATH_MOST 4096
weft_status tokenizer_file(char to[PATH_MOST], const char *directory, host *h, weft_error *err);

/* Without tokenizer_finish, for loaders and their tests: */
weft_status source_json(tokenizer *t, const uint8_t *data, size_t size, weft_error *err);
weft_status source_gguf(tokenizer *t, const container *c, const char *pre, weft_error *err);
weft_status source_sentencepiece(tokenizer *t, const uint8_t *data, size_t size, weft_error *err);
weft_status source_marian(tokenizer *t, const uint8_t *data, size_t size, const uint8_t *table,
                          size_t table_size, const char *table_path, weft_error *err);
weft_status source_tiktoken(tokenizer *t, const uint8_t *data, size_t size, const char *pre,
                            weft_error *err);
weft_status source_llama2c(tokenizer *t, const uint8_t *data, size_t size, weft_error *err);
weft_status source_bert(tokenizer *t, const uint8_t *data, size_t size, const char *pre,
                        weft_error *err);
weft_status source_letters(tokenizer *t, const uint8_t *data, size_t size, weft_error *err);
weft_status source_merges(tokenizer *t, const uint8_t *table, size_t table_size,
                          const uint8_t *merges, size_t merges_size, const char *pre,
                          weft_error *err);

/* ---- byte-level splitting by name (pre.c) ---------------------------------------------------- */

/* Adds the splitters that a name stands for; WEFT_EUNSUPPORTED if the name is unknown. */
weft_status pre_apply(tokenizer *t, const char *name, weft_error *err);

/* Further properties of a name; 0 if it is unknown. */
enum {
    PRE_WORDS = 1,   /* ignore_merges: a word that is itself a token becomes that token */
    PRE_BOS = 2,     /* BOS before every text, if the file does not say */
    PRE_LETTERS = 4, /* as in Gemma: spaces are U+2581, unknown letters become bytes */
};
int pre_flags(const char *name);

/* The name that files use for these n patterns in order, over bytes or PRE_LETTERS, with PRE_WORDS
 * or without; false if they have none. */
#define PRE_NAME 32
bool pre_of_patterns(const char *const *pattern, int n, int flags, char name[PRE_NAME]);

/* ---- SentencePiece's spaces, as patterns of a tokenizer.json --------------------------------- */

#define SPACES_FIRST "\\A +"
#define SPACES_RUN   " {2,}"
#define BARS_LAST    "\xE2\x96\x81+\\z"

/* ---- SentencePiece's pieces, from whichever file --------------------------------------------- */

/* Numbered as in the files. The last is weft's own: text never becomes it, but it decodes to
 * text. */
enum {
    PIECE_NORMAL = 1,
    PIECE_UNKNOWN,
    PIECE_CONTROL,
    PIECE_USER,
    PIECE_UNUSED,
    PIECE_BYTE,
    PIECE_FOREIGN,
};

typedef struct sp_spec {
    uint8_t *type; /* [n], in the tokenizer's store */
    float *score;  /* [n], likewise */
    bool unigram, fallback;
    bool prefix, suffix, squeeze, escape; /* as normalizer_step */
    const uint8_t *map;                   /* precompiled charsmap, or NULL */
    size_t map_size;
    uint32_t unk;
} sp_spec;

/* The vocabulary of n pieces, each given by `text`. */
typedef const char *piece_fn(void *ud, uint32_t i, size_t *length);
weft_status sp_vocab(tokenizer *t, uint64_t n, const uint8_t *type, piece_fn *text, void *ud,
                     weft_error *err);
weft_status sp_model(tokenizer *t, const sp_spec *s, weft_error *err);

/* Adds the tokens of these types, which are cut out of the text. */
weft_status sp_added(tokenizer *t, const uint8_t *type, bool user, weft_error *err);

/* WordPiece over the vocabulary already loaded, with BERT's decoder and template for pairs. */
weft_status bert_model(tokenizer *t, const uint8_t *type, weft_error *err);

#endif
