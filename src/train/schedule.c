/* schedule.c - the learning rate of step t, as a closed formula. */
#include "train/schedule.h"

#include <math.h>

/* Progress of `step` between two steps: 0 to 1. */
static double way(int64_t step, int64_t from, int64_t to)
{
    if (step >= to)
        return 1;
    return step <= from ? 0 : (double)(step - from) / (double)(to - from);
}

double schedule_lr(const schedule *s, int64_t step)
{
    if (step < s->n_warmup)
        return s->lr * (double)step / (double)s->n_warmup;
    if (s->kind == SCHEDULE_INVERSE_SQRT) {
        const double scale = s->n_warmup > 0 ? (double)s->n_warmup : 10000;
        return s->lr / sqrt((double)step / scale);
    }
    const double gone = way(step, s->n_warmup, s->n_step);
    double share = 1;
    if (s->kind == SCHEDULE_COSINE)
        share = 0.5 * (1 + cos(3.14159265358979323846 * gone));
    else if (s->kind == SCHEDULE_LINEAR)
        share = 1 - gone;
    else if (s->kind == SCHEDULE_WSD)
        share = 1 - way(step, s->n_step - s->n_decay, s->n_step);
    return s->lr_min + (s->lr - s->lr_min) * share;
}
