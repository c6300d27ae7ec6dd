/* train_options.h - the options of a run, as its parts take them. */
#ifndef WEFT_API_TRAIN_OPTIONS_H
#define WEFT_API_TRAIN_OPTIONS_H

#include "api/labels.h"
#include "train/data.h"
#include "train/learner.h"

weft_status take_train_options(weft_train_options *to, const weft_train_options *from,
                               weft_error *err);

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
int64_t rows_of_sample(const weft_train_options *o, int64_t n_ctx);

/* How such a model reads the data. Tasks that texts alone do not teach are refused. */
weft_status data_of(const weft_train_options *o, const tokenizer *t, const learned *of,
                    data_options *to, weft_error *err);

#endif
