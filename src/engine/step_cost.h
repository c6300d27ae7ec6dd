/* step_cost.h - how long a forward takes, learned from those that ran:
 *
 *     T = T0(rows) + g_prompt * sum of contexts of prompt rows + g_new * sum of those of new tokens
 *
 * T0 is no straight line (a row costs half as much among 256 as among 16), so it is kept for a few
 * numbers of rows and interpolated. The rows of one prompt read the same keys and share that work;
 * those of different sessions do not, so a context costs two or three times as much there
 * (docs/SERVE.md has the table). */
#ifndef WEFT_ENGINE_STEP_COST_H
#define WEFT_ENGINE_STEP_COST_H

#include <stdint.h>

/* What a forward computes. */
typedef struct step_shape {
    int64_t n_row;
    double prompt, fresh; /* sums of contexts: of rows of prompts, and of single rows */
} step_shape;

#define COST_BUCKETS 68 /* four for each power of two up to 65536, and one more octave */

/* Means of the forwards of about as many rows. */
typedef struct cost_bucket {
    double weight; /* how many there were, up to a limit; 0: none */
    double rows, prompt, fresh, seconds;
} cost_bucket;

typedef struct step_cost {
    cost_bucket bucket[COST_BUCKETS];
    double pp, pf, ff, pt,
        ft;                   /* products of deviations from the means: of prompt, fresh and time */
    double g_prompt, g_fresh; /* seconds a position */
} step_cost;

void step_cost_learn(step_cost *c, const step_shape *s, double seconds);

/* Seconds; too many rather than too few where nothing of this size has run. 0: nothing has. */
double step_cost_predict(const step_cost *c, const step_shape *s);

#endif
