/* trainer.h - the loop: samples become gradients, gradients become steps; now and then a look at the
 * validation split, a checkpoint, and a word to whoever listens.
 *
 *     step t:  parts 1 .. n_part of n_sample samples each
 *                  forward, backward                gradients add up, each part for its targets
 *              clip, AdamW at schedule_lr(t)        or nothing, where a number is not finite
 *              [evaluate]  [checkpoint]  tell
 *
 * So many parts of so many samples are one batch of all of them: only the order of sums differs.
 * What a step does is a function of the weights, the optimiser's moments and the trainer_state, which
 * is why a run that goes on from a checkpoint cannot be told from one that never stopped. */
#ifndef WEFT_TRAIN_TRAINER_H
#define WEFT_TRAIN_TRAINER_H

#include "train/checkpoint.h"
#include "train/data.h"
#include "train/learner.h"
#include "train/schedule.h"

/* What is known after a step, or before the first: then only `step`, what a checkpoint had kept,
 * and `left` mean something. */
typedef struct trainer_report {
    int64_t step, n_step;
    double loss;     /* mean over the step's targets; not a number before the first */
    double smoothed; /* mean of the last steps' losses, with weights that fall by 0.95 a step */
    double lr, norm; /* of all gradients, before clipping */
    bool skipped;    /* loss or norm is not finite: nothing was learned */
    int64_t n_skipped;
    double load_least; /* of an expert, over the mean of its layer; no number without experts */
    double load_most;
    int64_t n_row;       /* of this step */
    int64_t n_row_all;   /* of all steps so far */
    double seconds;      /* that the step took, without evaluation and checkpoint */
    bool evaluated;      /* after this step: */
    double val_loss;     /* mean over all targets of the validation split, */
    double val_accuracy; /* and the share of them that is right, of a model that classifies */
    double best;         /* of all evaluations so far; INFINITY before the first */
    int64_t best_step;
    bool saved;
    double left; /* seconds until the end: first a prediction, then what steps took so far */
} trainer_report;

/* False stops after this step. The learner's model may be run meanwhile, and not be changed. */
typedef bool trainer_fn(void *ud, const trainer_report *r);

typedef struct trainer_options {
    learner_options learner; /* its seed is ours */
    schedule schedule;
    int32_t n_sample, n_part;
    uint64_t seed;
    int64_t eval_every, save_every; /* steps; 0: never, but a run ends with both */
    int patience;    /* evaluations in a row that are not better than the best; 0: never stops */
    int max_skipped; /* steps in a row without a finite number, after which it is an error */
    const char *run; /* the directory of checkpoints; NULL: none are written */
    int keep;        /* the newest so many stay, and the best; 0: all */
    trainer_fn *tell;
    weft_wait_fn *waiting; /* before the first step: false stops; or NULL */
    void *ud;              /* of both */
} trainer_options;

/* What goes on from step to step beside weights and moments. All of it is in a checkpoint. */
typedef struct trainer_state {
    int64_t step;      /* taken, those that were skipped included */
    int64_t cursor;    /* the next sample */
    int64_t n_skipped; /* in all, and the last in a row: */
    int64_t in_a_row;
    int64_t n_row;
    int64_t n_loss; /* losses in `faded` */
    int64_t n_worse;
    int64_t best_step;
    double faded; /* sum of losses, each 0.95 of the one after it */
    double best;
} trainer_state;

typedef struct trainer {
    trainer_options opt;
    learner learner;
    const dataset *data;
    batch batch; /* room for a part */
    trainer_state state;
    int64_t first; /* steps that were taken before this life, */
    double began;  /* and when it took its first */
} trainer;

/* m and d outlive the trainer; m belongs to its learner. */
weft_status trainer_init(trainer *t, model *m, const dataset *d, const trainer_options *o,
                         weft_error *err);
void trainer_free(trainer *t);

/* One step: everything but r's evaluation and checkpoint. */
weft_status trainer_step(trainer *t, trainer_report *r, weft_error *err);

/* Mean loss over the whole validation split, in order, without dropout or smoothing; and the share of
 * the targets that are right where the model classifies, otherwise not a number. */
weft_status trainer_evaluate(trainer *t, double *loss, double *accuracy, weft_error *err);

/* Seconds that the steps still to come will take, from a trial part. Leaves no trace. */
weft_status trainer_predict(trainer *t, double *seconds, weft_error *err);

/* Steps until there are as many as the schedule has, or someone stops it. `form` may be NULL where
 * no checkpoints are written. *last is the last report; *stopped tells that the listener stopped
 * it. */
weft_status trainer_run(trainer *t, const hf_form *form, trainer_report *last, bool *stopped,
                        weft_error *err);

weft_status trainer_save(trainer *t, const hf_form *form, weft_error *err);

/* The state of a checkpoint whose weights the model was opened with. One that was made with another
 * seed, or cuts its steps or samples otherwise, is refused. */
weft_status trainer_load(trainer *t, const checkpoint *c, weft_error *err);

#endif
