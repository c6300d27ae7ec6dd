/* data.h - training data: samples of at most n_ctx rows, each a pure function of the seed and its
 * number.
 *
 *     windows     the ids of all documents are one stream; a sample is n_ctx of them from any place
 *                 on, one sequence
 *     documents   a sample is packed with documents, each a sequence of its own, so that none sees
 *                 another; longer ones are cut and go on in the next piece with the id that was the
 *                 last target, or, where a part is only read or a label given, lose their end
 *     images      a sample is an image, one sequence
 *
 * rows.h defines the targets of a sequence: the next id, a masked one, a class.
 *
 * Sample numbers never wrap: sample i of n is in epoch i / n, and every epoch has its own
 * permutation. The seed and the number of the next sample determine everything, so there is no
 * state to save. */
#ifndef WEFT_TRAIN_DATA_H
#define WEFT_TRAIN_DATA_H

#include "tensor/batch.h"
#include "train/corpus.h"
#include "train/image_set.h"
#include "train/mask.h"
#include "train/pairs.h"
#include "train/rows.h"

typedef enum data_style {
    DATA_STYLE_BY_KIND, /* windows if every file is one document, otherwise documents */
    DATA_WINDOWS,
    DATA_DOCUMENTS,
} data_style;

typedef struct data_options {
    corpus_options corpus;
    data_style style;
    int64_t n_ctx;     /* most rows in a sample */
    pairing pairing;   /* for encoder-decoders */
    double validation; /* share held out for validation: the last ids of the stream, or documents
                          spread over the corpus, the same for every seed; 0: none. The corpus may
                          have a held-out file instead */
    int32_t mask_id;   /* above 0: masked language model. Randomly chosen rows are masked and
                          predicted, instead of each row predicting the next */
} data_options;

struct dataset;

/* Samples for training, or for validation. */
typedef struct data_part {
    const struct dataset *set;
    int64_t n_sample;     /* in an epoch; 0: this part is empty */
    int64_t n_in_order;   /* samples in order; for windows those that do not overlap */
    int64_t begin, end;   /* windows: its ids in the stream */
    data_piece *piece;    /* documents: by sample; */
    int64_t *first;       /* [n_sample + 1] the first piece of each */
    int64_t *image_index; /* images: [n_sample] their indices */
    int32_t most_seq;     /* most sequences in a sample */
    data_counts counts;
} data_part;

typedef struct dataset {
    corpus corpus;
    bool windows;
    const row_maker *make;
    image_set *images;              /* for rows_image: the corpus is then unused, except its host */
    int64_t d_feature;              /* floats in a row of an image */
    pairing pairing;                /* for rows_paired, with the chosen objective */
    masking mask;                   /* of rows_masked */
    const struct label_set *labels; /* for rows_labelled, owned by the caller; or NULL */
    int64_t n_ctx;
    data_part train, validation;
} dataset;

/* d must not move: its parts point to it. */
weft_status data_open(dataset *d, const char *const *path, int n_path, const data_options *o,
                      host *h, weft_error *err);
void data_close(dataset *d);

/* The same for loaded images and a model; the caller keeps both alive. */
weft_status data_open_images(dataset *d, image_set *p, const model *m, double validation,
                             weft_error *err);

/* Allocates room for n samples of either part, and fills it with the largest possible batch. */
weft_status data_room(batch *b, const dataset *d, int32_t n, weft_error *err);
void data_room_free(batch *b, const dataset *d);

/* Fills in samples [i, i + n) of the seed's order. Rows with a target are wanted, so b->n_wanted
 * counts the targets. Fails only if a mapped file was changed meanwhile. */
weft_status data_fill(batch *b, const data_part *p, uint64_t seed, int64_t i, int32_t n,
                      weft_error *err);

/* What decides the masks of the first piece of sample i. */
chance data_chance(uint64_t seed, int64_t i);

/* Fills in samples [i, i + n) unshuffled, i + n <= n_in_order: for validation, which uses every
 * target once. */
weft_status data_fill_in_order(batch *b, const data_part *p, int64_t i, int32_t n, weft_error *err);

/* Counts the targets of samples [i, i + n) of the seed's order without building them. The count is
 * the weight of a part in a step. */
int64_t data_targets(const data_part *p, uint64_t seed, int64_t i, int64_t n);

/* The tokens of a filled batch with their text, for printing: the ids of every sequence, including
 * the last target. A pair has its source first; a text is followed by its label. */
typedef struct data_token {
    int32_t seq, id;  /* -1: the label, not a token */
    const char *text; /* the text it adds to its sequence; for special tokens their spelling in the
                       * file */
    size_t length;
    bool special;
    bool target; /* it has a loss */
} data_token;

typedef void data_token_fn(void *ud, const data_token *t);
weft_status data_show(const batch *b, const dataset *d, const tokenizer *t, data_token_fn *fn,
                      void *ud, weft_error *err);

#endif
