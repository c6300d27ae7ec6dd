/* trainer.h - the training loop: gradients and steps, with evaluation on the validation split,
 * checkpoints and reports.
 *
 *     step t:  parts 1 .. n_part of n_sample samples each
 *                  forward, backward                gradients add up, each part for its targets
 *              clip, AdamW at schedule_lr(t)        skipped if loss or norm is non-finite
 *              [evaluate]  [checkpoint]  report
 *
 * Accumulating n_part parts of n_sample samples equals one batch of all of them, up to the order of
 * sums. A step is a function of the weights, the optimiser's moments and the trainer_state, so a
 * resumed run is identical to one that never stopped.
 *
 * With several ranks (learner_options.reduce), each makes its part of the groups, and of an
 * evaluation; what they report is added in the order of groups, so all of them have the bits of one
 * rank. Rank 0 alone writes checkpoints and calls back; its answer counts for all. */
#ifndef WEFT_TRAIN_TRAINER_H
#define WEFT_TRAIN_TRAINER_H

#include "train/checkpoint.h"
#include "train/data.h"
#include "train/learner.h"
#include "train/schedule.h"

/* What is known of pairs of which one is preferred: means over n of them. */
typedef struct pair_means {
    int64_t n;
    double margin; /* beta times how much more the preferred gained on the other since the start */
    double accuracy;         /* share of pairs with a margin above 0 */
    double chosen, rejected; /* log p of each side */
} pair_means;

/* Results of a step. Before the first step, only `step`, the values from a checkpoint, and `left`
 * are set. */
typedef struct trainer_report {
    int64_t step, n_step;
    double loss;     /* mean over the step's targets; NaN before the first */
    double smoothed; /* mean of the recent losses, weights decaying by 0.95 per step */
    double lr, norm; /* norm of all gradients, before clipping */
    bool skipped;    /* loss or norm is non-finite: the step was skipped */
    int64_t n_skipped;
    double load_least; /* load of an expert, relative to its layer's mean; NaN without experts */
    double load_most;
    pair_means pairs;    /* of this step, if it has any */
    int64_t n_row;       /* of this step */
    int64_t n_row_all;   /* total of all steps so far */
    double seconds;      /* time of the step, without evaluation and checkpoint */
    bool evaluated;      /* an evaluation followed this step: */
    double val_loss;     /* mean over all targets of the validation split, */
    double val_accuracy; /* and the accuracy, for a classifier or for pairs */
    double best;         /* best of all evaluations so far; INFINITY before the first */
    int64_t best_step;
    bool saved;
    double left; /* seconds until the end: first a prediction, then from the measured steps */
} trainer_report;

/* Returning false stops after this step. The callback may run the learner's model, but must not
 * change it. */
typedef bool trainer_fn(void *ud, const trainer_report *r);

typedef struct trainer_options {
    learner_options learner; /* the trainer sets its seed */
    schedule schedule;
    int32_t n_sample, n_part;
    double beta; /* of pairs of which one is preferred; 0: 0.1 */
    uint64_t seed;
    int64_t eval_every, save_every; /* interval in steps; 0: only at the end of the run */
    int patience;     /* stop after this many evaluations without improvement; 0: never */
    int max_skipped;  /* fail after this many skipped steps in a row */
    const char *run;  /* the directory of checkpoints; NULL: writes none */
    const char *base; /* what the checkpoints of an adapter call its model; or NULL */
    int keep;         /* number of newest checkpoints to keep, in addition to the best; 0: all */
    trainer_fn *tell;
    weft_wait_fn *waiting; /* called before the first step: false stops; or NULL */
    void *ud;              /* of both */
} trainer_options;

/* State carried from step to step in addition to weights and moments. A checkpoint holds all of
 * it. */
typedef struct trainer_state {
    int64_t step;      /* steps taken, including skipped ones */
    int64_t cursor;    /* the next sample */
    int64_t n_skipped; /* skipped steps in total, and the last ones in a row: */
    int64_t in_a_row;
    int64_t n_row;
    int64_t n_loss; /* number of losses in `faded` */
    int64_t n_worse;
    int64_t best_step;
    double faded; /* sum of losses, each weighted 0.95 of the next */
    double best;
} trainer_state;

/* Sums over samples, of a group or a part of an evaluation. */
typedef struct sample_sums {
    double loss, n_target, n_right;
    int64_t n_row;
    pair_means pairs; /* sums, not means */
} sample_sums;

typedef struct trainer {
    trainer_options opt;
    ranks alone; /* where opt names no ranks */
    learner learner;
    const dataset *data;
    batch batch;       /* buffer for a part */
    sample_sums *sums; /* [the most of groups and parts of an evaluation], of all ranks */
    double *reference; /* of pairs: [n_document] log p before the first step; NaN: not yet known */
    trainer_state state;
    int64_t first; /* steps taken before this process, */
    double began;  /* and the time of its first step */
    bool cut_off;  /* saving failed because a rank was lost */
} trainer;

/* The caller keeps m and d alive; m belongs to the trainer's learner. t must stay where it is. */
weft_status trainer_init(trainer *t, model *m, const dataset *d, const trainer_options *o,
                         weft_error *err);
void trainer_free(trainer *t);

/* One step; fills in r except evaluation and checkpoint. */
weft_status trainer_step(trainer *t, trainer_report *r, weft_error *err);

/* Mean loss over the whole validation split, in order, without dropout or label smoothing. Also the
 * accuracy if the model is a classifier, otherwise NaN. */
weft_status trainer_evaluate(trainer *t, double *loss, double *accuracy, weft_error *err);

/* Predicts the seconds of the remaining steps from a trial part. Changes no state. */
weft_status trainer_predict(trainer *t, double *seconds, weft_error *err);

/* Runs until the schedule's last step, or until the callback stops it. `form` may be NULL if no
 * checkpoints are written. *last is the last report; *stopped says whether the callback stopped
 * it. */
weft_status trainer_run(trainer *t, const hf_form *form, trainer_report *last, bool *stopped,
                        weft_error *err);

/* Of a step: groups, samples, and parts of at most n_sample samples. */
int trainer_groups(const trainer *t);
int64_t trainer_samples(const trainer *t);
int64_t trainer_parts(const trainer *t);

/* The first sample of a group, and the parts of the groups before it. */
int64_t trainer_group_start(const trainer *t, int64_t g);
int64_t trainer_parts_before(const trainer *t, int64_t group);

/* The ranks of the run; never NULL. */
ranks *trainer_ranks(const trainer *t);

weft_status trainer_save(trainer *t, const hf_form *form, weft_error *err);

/* Restores the state of a checkpoint whose weights the model was opened with. Refuses one made with
 * another seed, or with other steps or samples. */
weft_status trainer_load(trainer *t, const checkpoint *c, weft_error *err);

#endif
