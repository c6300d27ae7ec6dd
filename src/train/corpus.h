/* corpus.h - documents as ids, and the kinds of files that hold them.
 *
 *     text    a file is a document, or the text between two separators is
 *     JSONL   a line is a document: { "text": ... }, or { "prompt": ..., "completion": ... }, which
 *             is one text; only its second part has a loss. Or a conversation: see chat_data.h.
 *             Or two documents, of which one is preferred: see preference.h
 *     TSV     a line is a document: a source, a tab and a target; the target has the loss
 *     ids     in the format of shard.h; mapped, not copied
 *     raw16   two-byte ids without a header, as nanoGPT writes them
 *
 * With labels, a document is a labelled text: see labelled.h. Its prompt is then the first of two
 * texts, or empty. */
#ifndef WEFT_TRAIN_CORPUS_H
#define WEFT_TRAIN_CORPUS_H

#include "formats/shard.h"
#include "text/tokenizer.h"
#include "train/chat_data.h"

typedef enum data_kind {
    DATA_BY_NAME, /* ids by the file's magic, JSONL by .jsonl, TSV by .tsv, with labels CSV by .csv;
                     all others are text */
    DATA_TEXT,
    DATA_JSONL,
    DATA_IDS,
    DATA_RAW16,
    DATA_TSV,
    DATA_CSV,
} data_kind;

/* DATA_JSONL, DATA_TSV, DATA_CSV, or DATA_TEXT for all others. */
data_kind kind_by_name(const char *path);

struct columns;
struct label_set;

typedef struct corpus_options {
    const tokenizer *tokenizer; /* or NULL if all files hold ids */
    data_kind kind;
    const char *separator; /* separator of documents in text: these bytes and the line breaks next
                              to them; "": empty lines; NULL: a file is a document */
    bool parse_special;    /* special tokens written in the text become those tokens */
    bool pairs;            /* encoder-decoders: prompt and completion are separate texts */
    const struct label_set *labels; /* texts have labels, all of them in this set; or NULL */
    const struct columns *columns;  /* column layout of labelled tables */
    const chat *chat;               /* the template of conversations; NULL: there is none, and */
    const weft_error *no_chat;      /* this is why; or NULL */
    const char *apart; /* a file held out for validation, whose documents come last; or NULL */
    int32_t eos;       /* appended to every document; -1: none */
    uint32_t n_vocab;  /* vocabulary of the model; 0: the tokenizer's */
    int n_thread;      /* 0: one per processor */
    weft_load load;
    weft_progress_fn *progress; /* bytes of all files; or NULL */
    void *progress_ud;
} corpus_options;

/* Ids in memory or in a mapped file. */
typedef struct source {
    shard shard;
    int64_t first_id, first_document; /* index of its first id and document in the corpus */
    file file;                        /* empty if the memory is owned: */
    void *ids;
    document *document;
    int32_t *label; /* label of each document; or NULL */
} source;

typedef struct corpus {
    host *host;
    source *source;
    int64_t n_source;
    scratch room; /* of sources */
    int64_t n_id, n_document;
    int64_t id_apart, document_apart; /* first id and document of the held-out file */
    int64_t n_empty;                  /* empty documents, which are skipped */
    int64_t n_prompt;                 /* documents with a prompt, which has no loss */
    int64_t n_straddling; /* of these, the ones with a token that straddles the end of the prompt */
    int64_t n_preference; /* pairs of documents, of which the first is preferred: preference.h */
    chat_counts chat;     /* of conversations */
    uint32_t n_vocab;
    int32_t eos;
} corpus;

void corpus_close(corpus *c);

/* Writes the whole corpus as one file of ids. */
weft_status corpus_save(const corpus *c, const char *path, weft_error *err);

/* The source that holds id `at`. */
const source *corpus_find(const corpus *c, int64_t at);

/* Takes ownership of a source, memory and file; frees it on failure. */
weft_status corpus_add(corpus *c, source *s, weft_error *err);
void source_free(source *s, host *h);

#endif
