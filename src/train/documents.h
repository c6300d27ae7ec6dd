/* documents.h - cuts files into documents and encodes them, many at a time, on all threads. */
#ifndef WEFT_TRAIN_DOCUMENTS_H
#define WEFT_TRAIN_DOCUMENTS_H

#include "base/pool.h"
#include "train/chat_data.h"
#include "train/corpus.h"

/* A text and its ids. */
typedef struct job {
    const char *text;
    size_t n;
    size_t prompt;   /* bytes without a loss */
    bool has_prompt; /* may be empty */
    size_t gap;      /* trailing bytes of the prompt that belong to neither side of a pair: the
                      * tab */
    int32_t label;   /* label of the text, if labels are read; the prompt is then the first of two
                      * texts */
    const chat_document *chat; /* a conversation, whose text this is; or NULL */

    bool straddles;
    int worker; /* the worker that holds the ids [at, at + n_id) */
    size_t at, n_id, n_prompt;
    int64_t n_endless; /* of a conversation */
} job;

/* State of one thread. */
typedef struct worker {
    struct documents *documents;
    encoder *encoder;
    scratch room;
    uint32_t *id;
    size_t n;
    weft_error err;
    bool failed;
} worker;

typedef struct documents {
    corpus *corpus; /* receives the ids */
    const corpus_options *o;
    mem *mem;
    const char *path; /* file being read */
    pool *pool;
    worker *worker;
    int n_worker;

    scratch job_room;
    job *job; /* the round: texts to be encoded */
    size_t n_job, bytes;
    _Atomic size_t next; /* job */
    arena store;         /* texts of JSONL and tables, until the round ends */
    arena_mark empty;

    chat_reader chat; /* if the options have a template */

    uint64_t done, total; /* bytes of all files */
} documents;

weft_status documents_begin(documents *d, corpus *c, const corpus_options *o, uint64_t total,
                            weft_error *err);
void documents_end(documents *d);

weft_status documents_text(documents *d, const file *f, weft_error *err);
weft_status documents_tsv(documents *d, const file *f, weft_error *err);
weft_status documents_jsonl(documents *d, const file *f, weft_error *err);
weft_status documents_labelled(documents *d, const file *f, data_kind kind, weft_error *err);

#endif
