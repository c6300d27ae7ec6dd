/* corpus.h - documents as ids, and the kinds of files that hold them.
 *
 *     text    a file is a document, or what lies between separators is
 *     JSONL   a line is a document: { "text": ... }, or { "prompt": ..., "completion": ... }, which
 *             is one text of which only the second part is learned
 *     TSV     a line is a document: a source, a tab and a target, which is learned
 *     ids     as shard.h has them; mapped, nothing is done
 *     raw16   ids of two bytes and nothing else, as nanoGPT writes them
 *
 * Where labels are read, a document is a text that has one: see labelled.h. Its prompt is then the
 * first of two texts, or nothing. */
#ifndef WEFT_TRAIN_CORPUS_H
#define WEFT_TRAIN_CORPUS_H

#include "formats/shard.h"
#include "text/tokenizer.h"

typedef enum data_kind {
    DATA_BY_NAME, /* ids by what the file begins with, JSONL by .jsonl, TSV by .tsv, all others are
                     text; of those with labels CSV by .csv */
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
    const tokenizer *tokenizer; /* or NULL, where all files hold ids */
    data_kind kind;
    const char *separator; /* of documents in text: these bytes, and line breaks beside them; "":
                              empty lines; NULL: a file is a document */
    bool parse_special;    /* special tokens written in the text become those tokens */
    bool pairs; /* for an encoder-decoder: a prompt and what follows are texts of their own */
    const struct label_set *labels; /* texts have labels, all of which are among these; or NULL */
    const struct columns *columns;  /* of tables, then */
    const char *apart; /* a file whose documents come last, and are kept for validation; or NULL */
    int32_t eos;       /* goes behind every document; -1: none does */
    uint32_t n_vocab;  /* of the model; 0: the tokenizer's */
    int n_thread;      /* 0: one per processor */
    weft_load load;
    weft_progress_fn *progress; /* bytes of all files; or NULL */
    void *progress_ud;
} corpus_options;

/* Ids in memory or in a map. */
typedef struct source {
    shard shard;
    int64_t first_id, first_document; /* among those of the corpus */
    file file;                        /* empty where memory is owned: */
    void *ids;
    document *document;
    int32_t *label; /* of each document; or NULL */
} source;

typedef struct corpus {
    host *host;
    source *source;
    int64_t n_source;
    scratch room; /* of sources */
    int64_t n_id, n_document;
    int64_t id_apart, document_apart; /* the first of the file that is kept apart */
    int64_t n_empty;                  /* documents without text, which are left out */
    int64_t n_prompt;                 /* documents of which a part is only read */
    int64_t
        n_straddling; /* of these, those in which a token begins in the prompt and ends behind */
    uint32_t n_vocab;
    int32_t eos;
} corpus;

void corpus_close(corpus *c);

/* All of it as one file of ids. */
weft_status corpus_save(const corpus *c, const char *path, weft_error *err);

/* The source that has id `at`. */
const source *corpus_find(const corpus *c, int64_t at);

/* Takes a source in, memory and file, or frees it. */
weft_status corpus_add(corpus *c, source *s, weft_error *err);
void source_free(source *s, host *h);

#endif
