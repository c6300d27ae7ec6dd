/* documents.h - cuts files into documents and encodes them, many at a time, on all threads. */
#ifndef WEFT_TRAIN_DOCUMENTS_H
#define WEFT_TRAIN_DOCUMENTS_H

#include "base/pool.h"
#include "train/corpus.h"

/* A text and what became of it. */
typedef struct job {
    const char *text;
    size_t n;
    size_t prompt;   /* bytes that are only read */
    bool has_prompt; /* which may be empty */
    size_t gap;      /* its last bytes that belong to no part of a pair: the tab */
    int32_t label;   /* of the text, where labels are read; its prompt is the first of two texts */

    bool astride;
    int worker; /* whose ids [at, at + n_id) these are */
    size_t at, n_id, quiet;
} job;

/* One thread's share. */
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
    corpus *corpus; /* which gets the ids */
    const corpus_options *o;
    mem *mem;
    const char *path; /* of the file that is read */
    pool *pool;
    worker *worker;
    int n_worker;

    scratch job_room;
    job *job; /* a round: texts that wait to be encoded */
    size_t n_job, bytes;
    _Atomic size_t next; /* job */
    scratch text;        /* where those of JSONL and of tables lie */

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
