/* lesson.h - steps of training as they were seen: what each row should have said, how the loss came
 * back through the model, and what the optimiser did with it.
 *
 * The caller trains, because explain knows no optimiser: it fills a lesson, with lesson_see as
 * the tape's observer (tape.seen) in the first step. */
#ifndef WEFT_EXPLAIN_LESSON_H
#define WEFT_EXPLAIN_LESSON_H

#include "explain/record.h"
#include "models/arch.h"

#define LESSON_STEPS 8   /* at most */
#define LESSON_RATES 101 /* points of the learning rate's curve */

/* What rows predict: the next id, or the one that a mask stands for. An encoder-decoder's
 * spans are rows of its decoder; `source` then has what its encoder read. */
typedef enum lesson_kind { LESSON_NEXT, LESSON_MASKED, LESSON_SPANS } lesson_kind;

typedef struct lesson_row {
    int32_t id;     /* that the row read */
    int32_t given;  /* of the text at this place: another one if a mask is on it */
    int32_t target; /* or NO_TARGET */
    float loss;     /* of the target, as the loss has it */
} lesson_row;

/* One number of a weight, the one with the largest gradient in the first step, in each step. */
typedef struct lesson_number {
    float grad, m, v, weight; /* before clipping; after the step */
} lesson_number;

typedef struct lesson_weight {
    char name[NAME_BYTES];
    int n_dim;
    int64_t shape[MAX_DIM], n;
    double norm; /* of its gradient in the first step */
    bool decays;
    int64_t at;   /* the number that is followed, */
    float weight; /* and its value before the first step */
    lesson_number step[LESSON_STEPS];
} lesson_weight;

typedef struct lesson_step {
    double loss, norm, clip, lr;
} lesson_step;

typedef struct lesson {
    mem *mem;
    lesson_kind kind;
    bool continued; /* only what follows the text has a loss */
    lesson_row *row;
    int64_t n_row, n_target;
    const int32_t *source; /* or NULL */
    int64_t n_source;
    int32_t mask; /* the id of the mask; -1: none */

    record back;        /* gradients, by the names of the tensors that they belong to; ... */
    record inside;      /* ... and what attention reads and has on its way: "blk.0.attention.ds" */
    int64_t *slope_row; /* [n_slope] targets, in their order, whose slopes follow */
    int64_t n_slope, n_out;
    float *slope; /* [n_slope, n_out] of their logits */
    bool as_tape; /* what is opened of attention gives the tape's dq, bit by bit */
    double scale; /* 1 / targets, which the mean multiplies every slope by */

    lesson_weight *weight;
    int64_t n_weight;
    lesson_step step[LESSON_STEPS];
    int n_step;
    double loss_after; /* of the same rows after the last step */
    double beta1, beta2, eps, decay, clip;
    double lr, lr_min; /* of the schedule: warm-up to lr, then down to lr_min */
    int64_t n_warmup, n_schedule;
    int64_t rate_step[LESSON_RATES];
    double rate[LESSON_RATES];
} lesson;

/* Looks at an op after its backward; ud is the lesson. `row`, `slope_row` and their numbers are
 * set. */
void lesson_see(void *ud, run *r, const node *n);
void lesson_free(lesson *s);

/* Are steps of training shown for such a model? */
bool lesson_fits(const model *m);

#endif
