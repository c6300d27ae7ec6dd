/* rows.h - how a piece of the data becomes rows of a batch: what a model is asked of it.
 *
 *     next       every id is the target of the one before it
 *     masked     some are hidden, and asked for where they were: see mask.h
 *     paired     a source and a target, of an encoder-decoder: see pairs.h
 *     seen       a picture, the first row of which has its class as target: see pictures.h
 *     labelled   a text, the first row of which has its label as target: see labelled.h
 *
 * There is one row_maker for each, and a dataset has one of them. */
#ifndef WEFT_TRAIN_ROWS_H
#define WEFT_TRAIN_ROWS_H

#include "tensor/batch.h"

/* A sequence of a sample: ids [at, at + n) of the corpus, n - ahead rows; or picture `at`. */
typedef struct data_piece {
    int64_t at;
    int32_t n, quiet; /* the first of its ids that is a target; or of the second of two texts */
    int32_t label;    /* -1: none */
    int32_t left_out; /* ids before the last, of a text that is too long */
} data_piece;

typedef struct data_counts {
    int64_t n_sample;
    int64_t n_document;  /* windows: those of the corpus */
    int64_t n_cut;       /* documents that became several sequences */
    int64_t n_truncated; /* documents that lost their end; */
    int64_t n_skipped;   /* that have nothing to learn, and are left out */
    int64_t n_row;       /* of all samples, once each. Windows: of those in order */
    int64_t n_target;    /* rows that have a loss */
    int64_t n_eos;       /* targets that are the end-of-text token */
} data_counts;

/* All that chance does to a piece follows from these. */
typedef struct chance {
    uint64_t key, number;
    bool learned; /* and not only read, for validation */
} chance;

struct dataset;

typedef struct row_maker {
    int64_t ahead; /* ids from a row to its target */

    /* Appends a piece to the batch. Fails only where a mapped file was changed meanwhile. */
    weft_status (*fill)(batch *b, const struct dataset *d, const data_piece *q, chance c,
                        weft_error *err);

    /* How many targets it then has, without making it. */
    int64_t (*targets)(const struct dataset *d, const data_piece *q, chance c);

    /* Adds its rows, targets and ends of texts, or what is to be expected of them. */
    void (*count)(data_counts *n, const struct dataset *d, const data_piece *q);
} row_maker;

extern const row_maker rows_next, rows_masked, rows_paired, rows_seen, rows_labelled;

#endif
