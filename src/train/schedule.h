/* schedule.h - the learning rate of each step, as a share of its peak:
 *
 *     1 |    ____            cosine, linear      1 |    _____________       constant
 *       |   /    `--._                             |   /
 *       |  /          `-._                         |  /
 *     0 |_/_______________`_  -> lr_min          0 |_/__________________
 *         warm-up        n_step
 *                                                1 |    __________
 *     wsd: warm up, stay, and decay linearly       |   /          \
 *     in the last n_decay steps                  0 |_/____________`_    -> lr_min
 *
 *     inverse sqrt: warm up, then sqrt(n_warmup / step) for any n_step (Vaswani et al., 2017);
 *     ignores lr_min
 *
 * Steps count from 1: the last step of the warm-up is the first at the peak, and step n_step is at
 * lr_min. Step t has the same rate as in transformers' schedules of these names. */
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
    double lr, lr_min;
    int64_t n_warmup, n_step;
    int64_t n_decay; /* of wsd */
} schedule;

double schedule_lr(const schedule *s, int64_t step);

#endif
