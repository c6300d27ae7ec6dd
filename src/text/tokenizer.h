/* tokenizer.h - text to ids and back, whatever file the tokenizer came from.
 *
 *     text -> added tokens -> normalizer -> added tokens -> splitters -> model -> template -> ids
 *             (as written)                  (normalised)
 *
 * Every loader fills this one type; nothing here knows where it came from. A tokenizer never
 * changes after loading and may be shared between threads; what encoding writes lies in an encoder,
 * one per thread. */
#ifndef WEFT_TEXT_TOKENIZER_H
#define WEFT_TEXT_TOKENIZER_H

#include "base/host.h"
#include "text/bpe.h"
#include "text/munch.h"
#include "text/split.h"
#include "text/unigram.h"
#include "text/wordpiece.h"

/* ---- limits ---------------------------------------------------------------------------------- */

/* Bytes of a token. The longest known have 1024 (512 spaces of GPT-NeoX, as letters). */
#define TOKEN_MOST 4096

/* Bytes of a piece that is looked for at every place of a text: Unigram, WordPiece, user-defined
 * ones. The longest known have 93. */
#define PIECE_MOST 256

/* Ids that a file may leave out: so many for each that it has, and so many more. */
#define HOLES_TIMES 8
#define HOLES_MORE  65536

/* ---- added tokens ---------------------------------------------------------------------------- */

/* Tokens that are cut out of the text before anything else looks at it. */
typedef struct added {
    const char *content; /* as written */
    size_t length;
    uint32_t id;
    bool special, single_word, left, right, normalized;
    bool first;         /* only where the text begins */
    const char *folded; /* normalised: what it is decoded to; or NULL */
    size_t folded_length;
} added;

typedef struct added_set {
    munch munch; /* of contents; the values number `added` */
    int n;
} added_set;

/* ---- the template ---------------------------------------------------------------------------- */

typedef enum slot_kind { SLOT_TOKEN, SLOT_A, SLOT_B } slot_kind;

/* A text, or a token that is put beside it. */
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
    DECODE_REPLACE, /* text or a pattern, in every token */
    DECODE_BYTE_FALLBACK,
    DECODE_BYTE_LEVEL,
    DECODE_METASPACE, /* `text` becomes a space; none at the start, if `start` */
    DECODE_WORDPIECE, /* `text` joins; otherwise a space before each but the first */
    DECODE_SUFFIX,    /* `text` becomes a space, but not in the last */
    DECODE_STRIP,     /* up to `start` and `stop` times `point` from the ends of every token */
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
    size_t strip_start;   /* how often `strip_point` is taken from the start of the whole text */
    uint32_t strip_point; /* (Strip behind Fuse) */
    bool fused;           /* behind Fuse: what is left to do sees the whole text */
    bool spaced;          /* no decoder: tokens are joined by spaces, as Hugging Face does */
} decoder;

/* ---- the tokenizer --------------------------------------------------------------------------- */

typedef enum model_kind { MODEL_BPE, MODEL_UNIGRAM, MODEL_WORDPIECE, MODEL_WORDLEVEL } model_kind;

typedef struct tokenizer {
    host *host;
    arena store;
    const char *path;
    vocab vocab; /* tokens as the file spells them */
    vocab bytes; /* the exact bytes of each, without a hash entry where text cannot give them */
    uint8_t *special;  /* [vocab.n] tokens that stand for no text */
    uint32_t n_id;     /* ids are below this */
    uint32_t n_silent; /* pieces behind them that are no tokens: the unknown one stands for them */

    added *added;
    int n_added;
    vocab contents;  /* of `added`, by their number; of equals the first is found */
    uint32_t *shown; /* [vocab.n] which of `added` an id is decoded as, or NO_ID; NULL: none */
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
    const uint8_t
        *type;          /* [vocab.n] of SentencePiece's pieces, as source.h numbers them; or NULL */
    const float *score; /* [vocab.n] theirs, or NULL */
    bool byte_level;    /* every byte string has ids, and ids have bytes: encoding loses nothing */

    template single, pair;
    decoder decoder;

    /* What the file says of lengths. Applied only when asked for. */
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
    bool fit; /* truncate and pad as the file says */
} encode_options;

/* One thread's working memory. */
typedef struct encoder encoder;

encoder *encoder_new(const tokenizer *t, mem *m, weft_error *err);
void encoder_free(encoder *e);

typedef struct encoding {
    size_t n;
    const uint32_t *id;
    const uint32_t *from, *to; /* bytes of the text, both 0 for tokens of the template; or NULL */
    const uint8_t *type;       /* token types, or NULL where all are 0 */
} encoding;

/* Encodes one text, or two where b is not NULL. What `out` points to lives until the encoder's next
 * call. Bytes that are not UTF-8 are bytes to a byte-level tokenizer and U+FFFD, each of them, to
 * all others. */
weft_status encoder_encode(encoder *e, const char *a, size_t a_length, const char *b,
                           size_t b_length, const encode_options *o, encoding *out,
                           weft_error *err);

/* The exact bytes of a token, as they stand in running text; -1 for no such id. */
int64_t tokenizer_piece(const tokenizer *t, uint32_t id, const char **bytes);
uint32_t tokenizer_find(const tokenizer *t, const char *text, size_t length);

static inline bool tokenizer_has(const tokenizer *t, uint32_t id)
{
    return id < t->vocab.n - t->n_silent && vocab_has(&t->vocab, id);
}

/* ---- for loaders ----------------------------------------------------------------------------- */

/* How a loader begins; finish.h is how it ends. */
weft_status tokenizer_begin(tokenizer *t, const char *path, const char *source, host *h,
                            weft_error *err);
void tokenizer_free(tokenizer *t);

/* "<0x0A>" gives 10; -1 for anything else. */
int byte_of_spelling(const char *text, size_t n);

/* Of a vocabulary that is filled: no token is longer than TOKEN_MOST. */
weft_status check_tokens(const tokenizer *t, weft_error *err);

/* Before room is taken for n ids, `count` of which the file gives. */
weft_status check_holes(const tokenizer *t, uint64_t n, uint64_t count, weft_error *err);

/* A trie of pieces, none longer than PIECE_MOST. */
weft_status pieces_trie(tokenizer *t, trie *to, const trie_entry *e, size_t n, weft_error *err);

/* Copies text into the tokenizer's store. */
const char *tokenizer_text(tokenizer *t, const char *text, size_t length, weft_error *err);

/* Adds a step; WEFT_EUNSUPPORTED where there are too many. */
weft_status add_splitter(tokenizer *t, const splitter *s, weft_error *err);
weft_status add_normalizer(tokenizer *t, const normalizer_step *s, weft_error *err);
weft_status add_decoder(tokenizer *t, const decoder_step *s, weft_error *err);
weft_status add_pattern(tokenizer *t, const char *pattern, weft_error *err); /* isolated */

/* [prefix ids] text [suffix ids]; ids of NO_ID are left out. */
void template_simple(tokenizer *t, uint32_t before, uint32_t after);

/* Byte-level models: the exact bytes of tokens spelled in stand-ins, hashed for lookups. */
weft_status bytes_from_stand_ins(tokenizer *t, weft_error *err);

#endif
