/* step_cost.c - fits the model of step_cost.h: means in buckets of rows, common slopes for contexts
 * by least squares over deviations from those means. Older forwards count less and less, so the
 * fit follows a machine whose speed changes. */
#include "engine/step_cost.h"

#include <math.h>
#include <stdbool.h>
#include <stddef.h>

#define MOST_WEIGHT 16   /* a bucket's mean follows about its last 16 forwards */
#define KEEP        0.99 /* share of the sums of products that stays after a forward */

static int bucket_of(int64_t n_row)
{
    const int b = (int)(4 * log2((double)(n_row > 1 ? n_row : 1)));
    return b < COST_BUCKETS ? b : COST_BUCKETS - 1;
}

/* Slopes that explain the deviations best; a negative one, which noise can give, is none. */
static void solve(step_cost *c)
{
    const double both = c->pp * c->ff - c->pf * c->pf;
    c->g_prompt = c->pp > 0 ? c->pt / c->pp : 0;
    c->g_fresh = c->ff > 0 ? c->ft / c->ff : 0;
    if (both > 1e-3 * c->pp * c->ff) {
        c->g_prompt = (c->pt * c->ff - c->ft * c->pf) / both;
        c->g_fresh = (c->ft * c->pp - c->pt * c->pf) / both;
    }
    c->g_prompt = fmax(c->g_prompt, 0);
    c->g_fresh = fmax(c->g_fresh, 0);
}

void step_cost_learn(step_cost *c, const step_shape *s, double seconds)
{
    cost_bucket *b = &c->bucket[bucket_of(s->n_row)];
    if (s->n_row < 1 || !(seconds > 0))
        return;
    const double prompt = s->prompt - b->prompt, fresh = s->fresh - b->fresh,
                 time = seconds - b->seconds, known = b->weight / (b->weight + 1);
    c->pp = KEEP * c->pp + known * prompt * prompt;
    c->pf = KEEP * c->pf + known * prompt * fresh;
    c->ff = KEEP * c->ff + known * fresh * fresh;
    c->pt = KEEP * c->pt + known * prompt * time;
    c->ft = KEEP * c->ft + known * fresh * time;
    b->weight = fmin(b->weight + 1, MOST_WEIGHT);
    b->rows += ((double)s->n_row - b->rows) / b->weight;
    b->prompt += prompt / b->weight;
    b->fresh += fresh / b->weight;
    b->seconds += time / b->weight;
    solve(c);
}

/* A bucket's time without contexts. */
static double bare(const step_cost *c, const cost_bucket *b)
{
    const double t = b->seconds - c->g_prompt * b->prompt - c->g_fresh * b->fresh;
    return fmax(t, 0.1 * b->seconds);
}

/* Between the nearest buckets on both sides. More rows than ever ran: in proportion; fewer: as many
 * as the fewest that ran. */
static double bare_of_rows(const step_cost *c, double rows)
{
    const cost_bucket *below = NULL, *above = NULL;
    for (int i = 0; i < COST_BUCKETS; i++) {
        const cost_bucket *b = &c->bucket[i];
        if (b->weight > 0 && b->rows <= rows)
            below = b;
        if (b->weight > 0 && b->rows > rows && !above)
            above = b;
    }
    if (!below)
        return above ? bare(c, above) : 0;
    if (!above)
        return bare(c, below) * rows / below->rows;
    const double share = (rows - below->rows) / (above->rows - below->rows);
    return bare(c, below) + share * (bare(c, above) - bare(c, below));
}

double step_cost_predict(const step_cost *c, const step_shape *s)
{
    return bare_of_rows(c, (double)s->n_row) + c->g_prompt * s->prompt + c->g_fresh * s->fresh;
}
