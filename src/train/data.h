/* data.h - what a model learns from: samples of at most n_ctx rows, each a pure function of the
 * seed and its number.
 *
 *     windows     the ids of all documents are one stream; a sample is n_ctx of them from any place
 *                 on, one sequence
 *     documents   a sample is packed with documents, each a sequence of its own, so that none sees
 *                 another; longer ones are cut and go on in the next piece with the id that was the
 *                 last target, or, where a part is only read or a label given, lose their end
 *     pictures    a sample is a picture, one sequence
 *
 * What a sequence asks of a model, the next id or another thing, is in rows.h.
 *
 * Numbers of samples go on for ever: sample i of n is in epoch i / n, and every epoch is a
 * permutation of its own. Whoever knows the seed and the number of the next sample knows
 * everything: there is no state to be saved. */
#ifndef WEFT_TRAIN_DATA_H
#define WEFT_TRAIN_DATA_H

#include "tensor/batch.h"
#include "train/corpus.h"
#include "train/mask.h"
#include "train/pairs.h"
#include "train/pictures.h"
#include "train/rows.h"

typedef enum data_style {
    DATA_STYLE_BY_KIND, /* windows where every file is one document, otherwise documents */
    DATA_WINDOWS,
    DATA_DOCUMENTS,
} data_style;

typedef struct data_options {
    corpus_options corpus;
    data_style style;
    int64_t n_ctx;     /* rows of a sample, at most */
    pairing pairing;   /* of encoder-decoders */
    double validation; /* share that is kept apart: the last ids of the stream, or documents here
                          and there, the same whatever the seed; 0: none. The corpus may have
                          a file that is kept apart instead */
    int32_t mask_id;   /* above 0: for a model that fills masks. Rows are hidden by chance and asked
                          for, instead of each asking for the next */
} data_options;

struct dataset;

/* Samples for training, or for validation. */
typedef struct data_part {
    const struct dataset *set;
    int64_t n_sample;   /* in an epoch; 0: there is no such part */
    int64_t n_in_order; /* samples in order: of windows those that follow each other */
    int64_t begin, end; /* windows: ids of the stream */
    data_piece *piece;  /* documents: by sample; */
    int64_t *first;     /* [n_sample + 1] the first piece of each */
    int64_t *picture;   /* pictures: [n_sample] which ones */
    int32_t most_seq;   /* sequences in a sample, at most */
    data_counts counts;
} data_part;

typedef struct dataset {
    corpus corpus;
    bool windows;
    const row_maker *make;
    pictures *pictures;             /* of rows_seen: then there is no corpus, but for its host */
    int64_t d_feature;              /* numbers of a row of a picture */
    pairing pairing;                /* of rows_paired, with the objective that was chosen */
    masking mask;                   /* of rows_masked */
    const struct label_set *labels; /* of rows_labelled, which outlive it; or NULL */
    int64_t n_ctx;
    data_part train, validation;
} dataset;

/* d stays where it is: its parts know it. */
weft_status data_open(dataset *d, const char *const *path, int n_path, const data_options *o,
                      host *h, weft_error *err);
void data_close(dataset *d);

/* The same of pictures that are loaded, for a model; they outlive d. */
weft_status data_open_pictures(dataset *d, pictures *p, const model *m, double validation,
                               weft_error *err);

/* Room for n samples of either part, at first filled with the largest there can be. */
weft_status data_room(batch *b, const dataset *d, int32_t n, weft_error *err);
void data_room_free(batch *b, const dataset *d);

/* Samples [i, i + n) of the seed's order. Rows with a target are wanted, so that b->n_wanted counts
 * the targets. Fails only where a mapped file was changed meanwhile. */
weft_status data_fill(batch *b, const data_part *p, uint64_t seed, int64_t i, int32_t n,
                      weft_error *err);

/* Samples [i, i + n) as they stand, i + n <= n_in_order: for validation, which sees every target
 * once. */
weft_status data_fill_in_order(batch *b, const data_part *p, int64_t i, int32_t n, weft_error *err);

/* How many targets samples [i, i + n) of the seed's order have, without making them: what weighs a
 * part of a step against the whole. */
int64_t data_targets(const data_part *p, uint64_t seed, int64_t i, int64_t n);

/* The tokens of a filled batch with their text, for eyes: the ids of every sequence as they are read,
 * the last target included; of pairs the source first; behind a text its label. */
typedef struct data_token {
    int32_t seq, id;  /* -1: no token, but the label */
    const char *text; /* what it adds to its sequence; of special tokens as the file spells them */
    size_t length;
    bool special;
    bool target; /* there is a loss on it */
} data_token;

typedef void data_token_fn(void *ud, const data_token *t);
weft_status data_show(const batch *b, const dataset *d, const tokenizer *t, data_token_fn *fn,
                      void *ud, weft_error *err);

#endif
