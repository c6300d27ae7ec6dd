/* step_times.h - how long the forwards of a machine take, fitted to a record of them:
 *
 *     T = T0(rows) + a * draws + g_prompt * contexts of prompts + g_new * contexts of single rows
 *
 * times the ratio of a recorded step of about as many rows to its fit, so that times spread as they
 * did. T0 is linear between knots, the mean rows of each bucket (powers of two). Where a run is
 * replayed, the ratio is that of a step near the same place of the record: a machine that others use
 * has slow seconds, and slow steps follow each other as they did. Unlike step_cost.h, which follows a
 * machine, the fit counts all steps alike, and errors relative to each step's time.
 *
 * A step that starts right after another begins a little later: what happens in between (answers are
 * written, requests taken in) was recorded, too. */
#ifndef WEFT_ENGINE_STEP_TIMES_H
#define WEFT_ENGINE_STEP_TIMES_H

#include "base/mem.h"
#include "engine/step_cost.h"

#define TIME_KNOTS  WEFT_MAX_KNOT /* rows up to 2^18 */
#define TIME_SLOPES 3

typedef struct step_ratio {
    double ratio; /* recorded to fitted */
    double after; /* seconds to the next forward */
    int64_t at;   /* its place in the record */
} step_ratio;

typedef struct step_times {
    mem *mem;
    int n_knot;
    double rows[TIME_KNOTS], base[TIME_KNOTS]; /* T0 */
    double slope[TIME_SLOPES];                 /* a, g_prompt, g_new; 0 or more */
    step_ratio *ratio;                         /* [n], by bucket, in the order of the record */
    int64_t n;
    int64_t first[TIME_KNOTS + 1]; /* of each knot in `ratio` */
    double explained;              /* share of the variance of T */
} step_times;

weft_status step_times_fit(step_times *t, const weft_step *step, int64_t n, mem *m,
                           weft_error *err);
void step_times_free(step_times *t);

/* Seconds, without spread. */
double step_times_mean(const step_times *t, const step_shape *s, int64_t n_draw);

/* A recorded step of about as many rows; which: any number. If `at` is not negative, one near that
 * place of the record, which begins again after its end. */
step_ratio step_times_pick(const step_times *t, int64_t n_row, int64_t at, uint64_t which);

#endif
