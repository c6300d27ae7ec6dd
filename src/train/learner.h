/* learner.h - training of a model: forward on a tape, backward, one step of the optimiser.
 *
 * Training uses the same forward code as inference, which does not know that it is recorded. A
 * learner owns the arenas of a step. A dry run of the largest batch, forward and backward,
 * determines their sizes.
 *
 * With an adapter (lora_params.h), only its A and B are trained: the model's weights stay where they
 * are, in any format. The learner then gives it to all sequences of a batch (sequence.adapted,
 * batch.rank), except in learner_refer. */
#ifndef WEFT_TRAIN_LEARNER_H
#define WEFT_TRAIN_LEARNER_H

#include "tensor/tape.h"
#include "train/adamw.h"
#include "train/lora_params.h"
#include "train/reduce.h"

typedef struct learner_options {
    int n_thread;
    int n_group; /* groups in which a step's gradients are summed (params.h); 0: 1 */
    bool recompute;
    bool bf16; /* matrix products in bf16: f32 weights with bf16 copies, f32 sums */
    real dropout, smoothing;
    uint64_t seed; /* of dropout */
    adamw_options adamw;
    const char *const *frozen; /* name patterns of frozen weights */
    int n_frozen;
    lora_params *lora;     /* trained instead of the model's weights; or NULL */
    reduce_options reduce; /* the ranks of the run, each of which makes its part of the groups */
} learner_options;

typedef struct learner {
    model *model; /* with an adapter, it is only read */
    learner_options opt;
    params params; /* n_group: of this rank */
    reduce reduce;
    adamw adamw;
    tape tape;
    run run;
    pool *pool;
    uint64_t n_backward; /* backward passes so far: each has its own random numbers */
    int64_t *load;       /* rows routed to each expert in this step, [layer, expert], or NULL */
    int64_t *loads;      /* [rank] of these, to be added; NULL for one rank */
} learner;

/* Bytes of both arenas and of scratch for a step with this batch. */
typedef struct learner_plan {
    size_t meta, data, scratch;
} learner_plan;

/* m belongs to the learner until it is freed; its weights, or those of the adapter, move into the
 * learner's blocks. `largest` is the largest batch to come; its tokens do not matter. After
 * learner_free, m can only be closed. */
weft_status learner_init(learner *l, model *m, const learner_options *o, const batch *largest,
                         weft_error *err);
void learner_free(learner *l);

/* Total bytes that a learner of the model will allocate: weights, gradients, optimiser state and a
 * step. m comes from model_design and has no weights; after this call it can only be written or
 * closed. */
weft_status learner_size(model *m, const learner_options *o, const batch *largest, uint64_t *bytes,
                         weft_error *err);

weft_status learner_predict(learner *l, const batch *b, learner_plan *plan, weft_error *err);

/* Begins a step: clears the gradients, and restarts the threads if a fork lost them. */
weft_status learner_begin(learner *l, weft_error *err);

/* Call before the last backward of a step: its gradients may leave for other ranks. */
void learner_last(learner *l);

/* Call after the last backward of a group, if there are several. */
void learner_group_end(learner *l);

/* Adds the gradient of the batch's loss, the mean over its targets; returns the loss. */
real learner_backward(learner *l, const batch *b);

/* The same for a batch that is part of a step: `share` weights its gradient. Returns the loss of
 * this part alone. */
real learner_add(learner *l, const batch *b, double share);

/* The loss without dropout and label smoothing; does not train. */
real learner_loss(learner *l, const batch *b);

/* Writes log p of each sequence of pairs (batch.prefer), as the model has it without its adapter. */
void learner_refer(learner *l, const batch *b);

/* The same for a classifier; *n_right counts the targets predicted correctly. */
real learner_score(learner *l, const batch *b, int64_t *n_right);

/* Adds the loss of a target, one of n, to *loss; returns whether it has the largest logit. */
bool logits_score(const real *z, int64_t n, int32_t target, double *loss);

/* Ends the step: clips, updates and returns the norm of the gradients. If a router has a bias, an
 * expert with more rows than its layer's mean becomes a little less likely, and one with fewer a
 * little more (Wang et al., 2024; DeepSeek-V3). */
double learner_update(learner *l, double lr);

/* With several ranks, the gradients of all before the update, and its values after it. */
weft_status learner_reduce(learner *l, weft_error *err);
weft_status learner_share(learner *l, weft_error *err);

/* The smallest and the largest load of an expert in this step, relative to its layer's mean; NaN
 * without experts. */
void learner_load(const learner *l, double *min, double *max);

#endif
