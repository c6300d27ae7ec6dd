/* sampler_weights.c - weights of the remaining tokens: exp of the scores, their sums, and the
 * uniform random number. */
#include "engine/sampler.h"

#include "base/rng.h"

#include <math.h>

static double x_of(const sampler *s, float z)
{
    return ((double)z - (double)order_score(&s->order, 0)) / s->temperature;
}

double sampler_x(sampler *s, int64_t i)
{
    order_lead(&s->order, i + 1);
    return x_of(s, order_score(&s->order, i));
}

double sampler_weight(sampler *s, int64_t i)
{
    return exp(sampler_x(s, i));
}

static void add_weight(sampler_sums *sums, double x)
{
    const double w = exp(x);
    sums->w += w;
    sums->wx += w > 0 ? w * x : 0; /* x may be -inf */
}

/* Sums unsorted places in the order of memory. */
sampler_sums sampler_sum(sampler *s)
{
    sampler_sums sums = { 0 };
    order_lead(&s->order, s->first + 1);
    if (s->end <= s->order.led) {
        for (int64_t i = s->first; i < s->end; i++)
            add_weight(&sums, x_of(s, order_score(&s->order, i)));
        return sums;
    }
    const uint64_t from = s->first > 0 ? s->order.at[s->first] : 0;
    for (int64_t i = 0; i < s->n_vocab; i++)
        if (s->z[i] > -INFINITY && (from == 0 || order_place(s->z[i], i) >= from))
            add_weight(&sums, x_of(s, s->z[i]));
    return sums;
}

double sampler_uniform(sampler *s, sampler_purpose purpose)
{
    const rng_block b = rng_draw(s->opt.seed, purpose, (uint64_t)s->n_id);
    const uint64_t bits = (uint64_t)b.word[0] << 32 | b.word[1];
    return s->u = (double)(bits >> 11) * 0x1p-53;
}
