/* schedule.h - how fast a model learns at each step, as a share of its fastest:
 *
 *     1 |    ____            cosine, linear      1 |    _____________       constant
 *       |   /    `--._                             |   /
 *       |  /          `-._                         |  /
 *     0 |_/_______________`_  -> least           0 |_/__________________
 *         warm-up        n_step
 *                                                1 |    __________
 *     wsd: warm up, stay, and go down linearly     |   /          \
 *     in the last n_decay steps                  0 |_/____________`_    -> least
 *
 *     inverse sqrt: warm up, then sqrt(n_warmup / step), whatever n_step is, as in 2017; the least is
 *     not looked at
 *
 * Steps count from 1: the last step of the warm-up is the first at full speed, and step n_step is at
 * the least. Step t has what transformers' schedules of these names give at t. */
#ifndef WEFT_TRAIN_SCHEDULE_H
#define WEFT_TRAIN_SCHEDULE_H

#include <stdint.h>

typedef enum schedule_kind {
    SCHEDULE_COSINE,
    SCHEDULE_LINEAR,
    SCHEDULE_CONSTANT,
    SCHEDULE_WSD,
    SCHEDULE_INVERSE_SQRT,
    N_SCHEDULE
} schedule_kind;

typedef struct schedule {
    schedule_kind kind;
    double lr, least;
    int64_t n_warmup, n_step;
    int64_t n_decay; /* of wsd */
} schedule;

double schedule_lr(const schedule *s, int64_t step);

#endif
