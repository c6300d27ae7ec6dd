/* train_options.h - the options of a run, translated for its parts. */
#ifndef WEFT_API_TRAIN_OPTIONS_H
#define WEFT_API_TRAIN_OPTIONS_H

#include "api/labels.h"
#include "api/train_chat.h"
#include "train/data.h"
#include "train/learner.h"
#include "train/schedule.h"

weft_status take_train_options(weft_train_options *to, const weft_train_options *from,
                               weft_error *err);

/* The same without data. */
weft_status take_plan_options(weft_train_options *to, const weft_train_options *from,
                              weft_error *err);

/* The properties of a model that its training data depends on. */
typedef struct learned {
    int64_t n_vocab, n_ctx;
    weft_task task;
    int64_t n_vocab_src;      /* of an encoder; 0: none */
    int32_t start;            /* the token that starts its decoder's output */
    const run_labels *labels; /* that it trains on; or NULL */
    const run_template *chat; /* for conversations; or NULL */
} learned;

learned learned_of(const model *m);

/* The learner's options and the learning rates; and the rows of a sample, for a model of n_ctx
 * positions. */
learner_options learner_of(const weft_train_options *o, int n_thread);
schedule schedule_of(const weft_train_options *o, bool is_new);
int64_t rows_of_sample(const weft_train_options *o, int64_t n_ctx);

/* How such a model reads the data. Refuses tasks that plain texts cannot train. */
weft_status data_of(const weft_train_options *o, const tokenizer *t, const learned *of,
                    data_options *to, weft_error *err);

#endif
