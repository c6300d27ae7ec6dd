/* learner.h - a model that learns: forward on a tape, backward, one step of the optimiser.
 *
 * The model's forward is the one that runs; nothing in it knows that it is recorded. A learner owns
 * the arenas of a step, sized by a dry run of the largest batch it will see, both directions. */
#ifndef WEFT_TRAIN_LEARNER_H
#define WEFT_TRAIN_LEARNER_H

#include "tensor/tape.h"
#include "train/adamw.h"

typedef struct learner_options {
    int n_thread;
    int n_group; /* in which the gradients of a step are summed (params.h); 0: 1 */
    bool recompute;
    bool bf16; /* products of matrices in class bf16: f32 weights with bf16 copies, f32 sums */
    real dropout, smoothing;
    uint64_t seed; /* of dropout */
    adamw_options adamw;
    const char *const *frozen; /* patterns of names of weights that do not learn */
    int n_frozen;
} learner_options;

typedef struct learner {
    model *model;
    learner_options opt;
    params params;
    adamw adamw;
    tape tape;
    run run;
    pool *pool;
    uint64_t n_backward; /* so far: each has random numbers of its own */
    int64_t *load;       /* rows that experts got in this step, [layer, expert], or NULL */
} learner;

/* Bytes of both arenas and of scratch for a step over this batch. */
typedef struct learner_plan {
    size_t meta, data, scratch;
} learner_plan;

/* m belongs to the learner until it is freed; its weights move into the learner's blocks. `largest`
 * is the largest batch there will be: its tokens do not matter. After learner_free, m can only be
 * closed. */
weft_status learner_init(learner *l, model *m, const learner_options *o, const batch *largest,
                         weft_error *err);
void learner_free(learner *l);

/* Bytes that a learner of the model will take in all: weights, gradients, the optimiser's state and a
 * step. m is designed (model_design), has no weights, and can only be written or closed after this. */
weft_status learner_size(model *m, const learner_options *o, const batch *largest, uint64_t *bytes,
                         weft_error *err);

weft_status learner_predict(learner *l, const batch *b, learner_plan *plan, weft_error *err);

/* Begins a step: gradients are forgotten, and the threads are there (after a fork they were
 * not). */
weft_status learner_begin(learner *l, weft_error *err);

/* After the last backward of a group, where there are several. */
void learner_group_end(learner *l);

/* Adds the gradient of the batch's loss, the mean over its targets; returns the loss. */
real learner_backward(learner *l, const batch *b);

/* The same of a batch that is a part of the step's: its gradient counts for so much of the whole.
 * Returns the loss of this part alone. */
real learner_add(learner *l, const batch *b, double share);

/* The loss, without dropout and smoothing; nothing is learned from it. */
real learner_loss(learner *l, const batch *b);

/* The same of a model that classifies, where *n_right is how many of the targets it holds most
 * likely. */
real learner_score(learner *l, const batch *b, int64_t *n_right);

/* Adds the loss of a target, one of n, to *loss; is it the likeliest? */
bool logits_score(const real *z, int64_t n, int32_t target, double *loss);

/* Ends the step: clips, updates; returns the norm of the gradients. Where a router has a bias, an
 * expert that got more rows than the mean of its layer becomes a little less likely, and one that got
 * fewer more so (Wang et al., 2024; DeepSeek-V3). */
double learner_update(learner *l, double lr);

/* The least and the largest load of an expert in this step, over the mean of its layer; not numbers
 * where there are no experts. */
void learner_load(const learner *l, double *least, double *most);

#endif
