/* trainer_parts.c - how the samples of a step are cut into groups and parts, and who is there. */
#include "train/trainer.h"

int trainer_groups(const trainer *t)
{
    return t->opt.learner.n_group > 1 ? t->opt.learner.n_group : 1;
}

ranks *trainer_ranks(const trainer *t)
{
    return t->opt.learner.reduce.ranks;
}

int64_t trainer_samples(const trainer *t)
{
    return (int64_t)t->opt.n_sample * t->opt.n_part;
}

/* The first sample of group g; if the division leaves a remainder, the first groups have one more
 * sample. */
int64_t trainer_group_start(const trainer *t, int64_t g)
{
    const int64_t n = trainer_samples(t), G = trainer_groups(t);
    return g * (n / G) + (g < n % G ? g : n % G);
}

/* Number of parts of at most n_sample samples in the groups before g. */
int64_t trainer_parts_before(const trainer *t, int64_t group)
{
    int64_t parts = 0;
    for (int64_t g = 0; g < group; g++)
        parts += (trainer_group_start(t, g + 1) - trainer_group_start(t, g) + t->opt.n_sample - 1) /
                 t->opt.n_sample;
    return parts;
}

int64_t trainer_parts(const trainer *t)
{
    return trainer_parts_before(t, trainer_groups(t));
}
