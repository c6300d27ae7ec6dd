/* rows.h - turns a piece of the data into rows of a batch, with their targets.
 *
 *     next       every id is the target of the one before it
 *     masked     some are masked, and are targets at their own rows: see mask.h
 *     paired     a source and a target, for an encoder-decoder: see pairs.h
 *     image      an image, whose first row has its class as target: see image_set.h
 *     labelled   a text, whose first row has its label as target: see labelled.h
 *     preferred  as next; sequences are pairs, of which the first is preferred: see preference.h
 *
 * Each has a row_maker, and a dataset uses one of them. */
#ifndef WEFT_TRAIN_ROWS_H
#define WEFT_TRAIN_ROWS_H

#include "tensor/batch.h"

/* A sequence of a sample: ids [at, at + n) of the corpus, n - ahead rows; or image `at`. */
typedef struct data_piece {
    int64_t at;
    int32_t n, n_prompt; /* the first of its ids that is a target; with two texts, the start of the
                       * second */
    int32_t label;       /* -1: none; preferred: the document's number */
    int32_t left_out;    /* ids dropped before the last one, if a text is too long */
} data_piece;

typedef struct data_counts {
    int64_t n_sample;
    int64_t n_document;  /* windows: the documents of the corpus */
    int64_t n_cut;       /* documents cut into several sequences */
    int64_t n_truncated; /* documents that lost their end; */
    int64_t n_skipped;   /* documents without a target, which are skipped */
    int64_t n_row;       /* over all samples, once each. Windows: those in order */
    int64_t n_target;    /* rows with a loss */
    int64_t n_eos;       /* targets that are the end-of-text token */
} data_counts;

/* Determines all random changes to a piece. */
typedef struct chance {
    uint64_t key, number;
    bool learned; /* training, not validation */
} chance;

struct dataset;

typedef struct row_maker {
    int64_t ahead; /* ids from a row to its target */

    /* Appends a piece to the batch. Fails only if a mapped file was changed meanwhile. */
    weft_status (*fill)(batch *b, const struct dataset *d, const data_piece *q, chance c,
                        weft_error *err);

    /* The number of its targets, without building it; preferred: of pairs that begin here. */
    int64_t (*targets)(const struct dataset *d, const data_piece *q, chance c);

    /* Adds its rows, targets and end-of-text tokens, or their expected numbers. */
    void (*count)(data_counts *n, const struct dataset *d, const data_piece *q);
} row_maker;

extern const row_maker rows_next, rows_masked, rows_paired, rows_image, rows_labelled,
    rows_preferred;

#endif
