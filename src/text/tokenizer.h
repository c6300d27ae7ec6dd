/* tokenizer.h - text to ids and back, whatever file the tokenizer came from.
 *
 *     text -> added tokens -> normalizer -> added tokens -> splitters -> model -> template -> ids
 *             (as written)                  (normalised)
 *
 * Every loader fills this one type, which does not depend on the file format. A tokenizer never
 * changes after loading and may be shared between threads. Encoding writes to an encoder only, one
 * per thread. */
#ifndef WEFT_TEXT_TOKENIZER_H
#define WEFT_TEXT_TOKENIZER_H

#include "base/host.h"
#include "text/bpe.h"
#include "text/munch.h"
#include "text/split.h"
#include "text/steps.h"
#include "text/unigram.h"
#include "text/wordpiece.h"

/* ---- limits ---------------------------------------------------------------------------------- */

/* Maximum bytes of a token. The longest known have 1024 (512 spaces of GPT-NeoX, as letters). */
#define TOKEN_MOST 4096

/* Maximum bytes of a piece that is searched at every place of a text: Unigram, WordPiece,
 * user-defined pieces. The longest known have 93. */
#define PIECE_MOST 256

/* How many ids a file may leave out: TIMES the number of tokens that it has, plus MORE. */
#define HOLES_TIMES 8
#define HOLES_MORE  65536

/* ---- added tokens ---------------------------------------------------------------------------- */

/* Tokens that are cut out of the text before any other step. */
typedef struct added {
    const char *content; /* as written */
    size_t length;
    uint32_t id;
    bool special, single_word, left, right, normalized;
    bool first;         /* only at the start of the text */
    const char *folded; /* normalised: its decoded form; or NULL */
    size_t folded_length;
} added;

typedef struct added_set {
    munch munch; /* over the contents; the values index `added` */
    int n;
} added_set;

/* ---- the template ---------------------------------------------------------------------------- */

typedef enum slot_kind { SLOT_TOKEN, SLOT_A, SLOT_B } slot_kind;

/* A text, or a token that the template puts next to it. */
typedef struct slot {
    slot_kind kind;
    uint32_t id;
    int type; /* token type, 0 or 1 */
} slot;

#define MAX_SLOT 32

typedef struct template
{
    slot slot[MAX_SLOT];
    int n;
}
template;

/* ---- decoding -------------------------------------------------------------------------------- */

typedef enum decoder_kind {
    DECODE_REPLACE, /* a text or a pattern, in every token */
    DECODE_BYTE_FALLBACK,
    DECODE_BYTE_LEVEL,
    DECODE_METASPACE, /* `text` becomes a space, except at the start if `start` */
    DECODE_WORDPIECE, /* `text` joins; otherwise a space before each token but the first */
    DECODE_SUFFIX,    /* `text` becomes a space, except in the last token */
    DECODE_STRIP, /* strips `point` from both ends of a token, `start` and `stop` times at most */
    DECODE_CTC,
} decoder_kind;

typedef struct decoder_step {
    decoder_kind kind;
    const char *text, *content;
    size_t text_length, content_length;
    regex *pattern;
    uint32_t point;
    size_t start, stop;
    bool cleanup;
} decoder_step;

typedef struct decoder {
    decoder_step step[MAX_STEP];
    int n;
    size_t strip_start;   /* how often `strip_point` is stripped from the start of the whole text */
    uint32_t strip_point; /* (Strip after Fuse) */
    bool fused;           /* after Fuse: the remaining steps see the whole text */
    bool spaced;          /* no decoder: tokens are joined by spaces, as Hugging Face does */
} decoder;

/* ---- the tokenizer --------------------------------------------------------------------------- */

typedef enum model_kind { MODEL_BPE, MODEL_UNIGRAM, MODEL_WORDPIECE, MODEL_WORDLEVEL } model_kind;

typedef struct tokenizer {
    host *host;
    arena store;
    const char *path;
    vocab vocab;       /* tokens as the file spells them */
    vocab bytes;       /* exact bytes of each token; hashed only if text can become it */
    uint8_t *special;  /* [vocab.n] tokens that match no text */
    uint32_t n_id;     /* ids are below this */
    uint32_t n_silent; /* pieces after them that are not tokens: they encode as the unknown token */

    added *added;
    int n_added;
    vocab contents;  /* contents of `added`, by index; finds the first of equals */
    uint32_t *shown; /* [vocab.n] index in `added` that an id decodes as, or NO_ID; NULL: none */
    added_set plain, folded; /* matched in the text as written, and in the normalised text */

    normalizer normalizer;
    splitters splitters;
    model_kind kind;
    bpe bpe;
    unigram unigram;
    wordpiece wordpiece;
    wordlevel wordlevel;
    charsmap map;
    trie user; /* SentencePiece's user-defined pieces */
    bool has_user;
    const uint8_t *type; /* [vocab.n] types of SentencePiece's pieces, see source.h; or NULL */
    const float *score;  /* [vocab.n] their scores, or NULL */
    bool byte_level;     /* every byte string has ids, and ids have bytes: encoding is lossless */

    template single, pair;
    decoder decoder;

    /* The file's truncation and padding. Applied only on request. */
    struct {
        int64_t max_length; /* 0: none */
        bool from_left;
        int64_t pad_to, pad_multiple; /* pad_to 0: the text's own length */
        uint32_t pad_id, pad_type;
        bool pad_left;
    } fit;
    int32_t bos, eos;   /* -1: none */
    const char *source; /* "tokenizer.json" */
} tokenizer;

typedef struct encode_options {
    bool no_template;   /* the text's own ids only */
    bool parse_special; /* special tokens written in the text become those tokens */
    bool spans;
    bool fit; /* truncate and pad as the file specifies */

    /* Not NULL: parse_special holds only for tokens all of whose bytes are in one of these spans of
     * a, which are in order and do not touch. No other text becomes a special or a gated token,
     * whatever it spells. */
    const weft_span *trusted;
    size_t n_trusted;
    const int32_t *gated; /* [n_gated] */
    size_t n_gated;
    step_watch *steps; /* who watches; or NULL */
} encode_options;

/* One thread's working memory. */
typedef struct encoder encoder;

encoder *encoder_new(const tokenizer *t, mem *m, weft_error *err);
void encoder_free(encoder *e);

typedef struct encoding {
    size_t n;
    const uint32_t *id;
    const uint32_t *from, *to; /* span in the text, both 0 for tokens of the template; or NULL */
    const uint8_t *type;       /* token types, or NULL if all are 0 */
} encoding;

/* Encodes one text, or two if b is not NULL. `out` points to memory that is valid until the
 * encoder's next call. A byte-level tokenizer encodes invalid UTF-8 as bytes; all others replace
 * each invalid byte by U+FFFD. */
weft_status encoder_encode(encoder *e, const char *a, size_t a_length, const char *b,
                           size_t b_length, const encode_options *o, encoding *out,
                           weft_error *err);

/* The exact bytes of a token, as in the middle of a text; -1 if there is no such id. */
int64_t tokenizer_piece(const tokenizer *t, uint32_t id, const char **bytes);

/* The token for text that the model does not know, or NO_ID. */
uint32_t tokenizer_unknown(const tokenizer *t);
uint32_t tokenizer_find(const tokenizer *t, const char *text, size_t length);

/* The token that stands for a missing one: two spellings are in use. NO_ID for neither. */
uint32_t tokenizer_mask(const tokenizer *t);

static inline bool tokenizer_has(const tokenizer *t, uint32_t id)
{
    return id < t->vocab.n - t->n_silent && vocab_has(&t->vocab, id);
}

/* ---- for loaders ----------------------------------------------------------------------------- */

/* The first call of a loader; the last is in finish.h. */
weft_status tokenizer_begin(tokenizer *t, const char *path, const char *source, host *h,
                            weft_error *err);
void tokenizer_free(tokenizer *t);

/* "<0x0A>" gives 10; -1 for anything else. */
int byte_of_spelling(const char *text, size_t n);

/* Checks a filled vocabulary: no token is longer than TOKEN_MOST. */
weft_status check_tokens(const tokenizer *t, weft_error *err);

/* Call before allocating n ids, `count` of which the file defines. */
weft_status check_holes(const tokenizer *t, uint64_t n, uint64_t count, weft_error *err);

/* A trie of pieces, none longer than PIECE_MOST. */
weft_status pieces_trie(tokenizer *t, trie *to, const trie_entry *e, size_t n, weft_error *err);

/* Copies text into the tokenizer's store. */
const char *tokenizer_text(tokenizer *t, const char *text, size_t length, weft_error *err);

/* Adds a step; WEFT_EUNSUPPORTED if there are too many. */
weft_status add_splitter(tokenizer *t, const splitter *s, weft_error *err);
weft_status add_normalizer(tokenizer *t, const normalizer_step *s, weft_error *err);
weft_status add_decoder(tokenizer *t, const decoder_step *s, weft_error *err);
weft_status add_pattern(tokenizer *t, const char *pattern, weft_error *err); /* isolated */

/* [prefix ids] text [suffix ids]; an id of NO_ID is left out. */
void template_simple(tokenizer *t, uint32_t before, uint32_t after);

/* Byte-level models: the exact bytes of tokens that are spelled in stand-ins, hashed for
 * lookups. */
weft_status bytes_from_stand_ins(tokenizer *t, weft_error *err);

#endif
