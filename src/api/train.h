/* train.h - what training and looking at its data share. */
#ifndef WEFT_API_TRAIN_H
#define WEFT_API_TRAIN_H

#include "api/api.h"
#include "text/train.h"
#include "train/data.h"
#include "train/fresh.h"
#include "train/labelled.h"
#include "train/learner.h"

weft_status take_train_options(weft_train_options *to, const weft_train_options *from,
                               weft_error *err);

/* Learns a tokenizer from the data of a run; t gets how. */
weft_status learn_tokenizer(trained *made, train_options *t, const weft_train_options *o, host *h,
                            weft_error *err);

/* Makes a model that has learned nothing, in a directory of its own inside the run's, where it may
 * break off at any time: what an earlier one has left is no obstacle. What training it will take must
 * fit under the cap before it is written. *made: there is something in the directory now. */
weft_status begin_fresh(const weft_train_options *o, const char *in, bool *made, host *h,
                        weft_error *err);

/* The shape of a new model that was asked for, but for its vocabulary. */
weft_status shape_of(const weft_train_options *o, fresh_shape *s, weft_error *err);

/* Labels of texts, where a run learns them. */
typedef struct run_labels {
    bool used;
    columns columns;
    label_set set;
} run_labels;

/* Those that the model knows, or those in the data that one will which has no such head yet. m NULL: a
 * new model, of the architecture in o. To be dropped after success. */
weft_status take_labels(run_labels *l, const weft_train_options *o, const model *m, host *h,
                        weft_error *err);
void drop_labels(run_labels *l);

/* As begin_fresh, of a model that has learned and gets a head for the labels in the data; *made false:
 * it needs none. */
weft_status begin_headed(const weft_train_options *o, const char *in, bool *made, host *h,
                         weft_error *err);

weft_status make_directory(const char *path, host *h, weft_error *err);

/* What matters of a model for the data that it learns from. */
typedef struct learned {
    int64_t n_vocab, n_ctx;
    weft_task task;
    int64_t n_vocab_src;      /* of an encoder; 0: there is none */
    int32_t start;            /* of what its decoder says */
    const run_labels *labels; /* that it learns; or NULL */
} learned;

learned learned_of(const model *m);

/* How a run learns; and rows of its samples, where the model has n_ctx positions. */
learner_options learner_of(const weft_train_options *o, int n_thread);
int64_t rows_of(const weft_train_options *o, int64_t n_ctx);

/* How such a model reads the data. Tasks that texts alone do not teach are refused. */
weft_status data_of(const weft_train_options *o, const tokenizer *t, const learned *of,
                    data_options *to, weft_error *err);

#endif
