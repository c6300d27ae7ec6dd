/* api_train.h - what training and looking at its data share. */
#ifndef WEFT_API_TRAIN_H
#define WEFT_API_TRAIN_H

#include "api.h"
#include "text/train.h"
#include "train/data.h"
#include "train/fresh.h"

weft_status take_train_options(weft_train_options *to, const weft_train_options *from,
                               weft_error *err);

/* Learns a tokenizer from the data of a run; t gets how. */
weft_status learn_tokenizer(trained *made, train_options *t, const weft_train_options *o, host *h,
                            weft_error *err);

/* Makes a model that has learned nothing, in a directory of its own inside the run's, where it may
 * break off at any time: what an earlier one has left is no obstacle. */
weft_status begin_fresh(const weft_train_options *o, const char *in, host *h, weft_error *err);

/* The shape of a new model that was asked for, but for its vocabulary. */
weft_status shape_of(const weft_train_options *o, fresh_shape *s, weft_error *err);

/* What the data has to know of the model. */
typedef struct data_reader {
    int64_t n_vocab, n_ctx;
    bool encodes;
    int32_t start; /* of what a decoder says */
} data_reader;

/* How such a model reads the data. */
data_options data_of(const weft_train_options *o, const tokenizer *t, const data_reader *m);

#endif
