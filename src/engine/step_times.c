/* step_times.c - weighted least squares with slopes that may not be negative, and the ratios that
 * remain. */
#include "engine/step_times.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#define N_MOST     (TIME_KNOTS + TIME_SLOPES)
#define ENOUGH     24  /* recorded steps of a bucket, or others are added ... */
#define NEAR       8   /* ... and of those near a place in the record, of which one is picked */
#define N_TURN     4   /* of weighing steps anew by how far off they are */
#define FAR        2.5 /* median deviations: a step farther off counts less */
#define RIDGE      1e-9
#define LEAST_TIME 1e-3 /* share of a step's time that the fit gives at least */

static int bucket_of(double n_row)
{
    const int b = (int)log2(fmax(n_row, 1));
    return b < TIME_KNOTS ? b : TIME_KNOTS - 1;
}

/* ---- the fit --------------------------------------------------------------------------------- */

typedef struct fit {
    const weft_step *step;
    double *off;  /* [n] relative deviation of each step */
    double *size; /* [n] of these */
    int64_t n;
    bool used[N_MOST]; /* coefficients that are not held at 0 */
    double at[N_MOST]; /* T0 at the knots, then the slopes */
} fit;

/* The two knots around n rows, and the share of the second; beyond the ends the lines continue. */
static int place(const step_times *t, double n_row, double *share)
{
    int k = 0;
    *share = 0;
    if (t->n_knot == 1)
        return 0;
    while (k + 2 < t->n_knot && t->rows[k + 1] <= n_row)
        k++;
    *share = fmax(0, (n_row - t->rows[k]) / (t->rows[k + 1] - t->rows[k]));
    return k;
}

static void features(const step_times *t, const weft_step *s, double x[N_MOST])
{
    double share;
    const int k = place(t, (double)s->n_row, &share);
    memset(x, 0, N_MOST * sizeof *x);
    x[k] = 1 - share;
    if (k + 1 < t->n_knot)
        x[k + 1] = share;
    x[t->n_knot] = (double)s->n_draw;
    x[t->n_knot + 1] = s->prompt_context;
    x[t->n_knot + 2] = s->new_context;
}

static void set_knots(step_times *t, const weft_step *step, int64_t n)
{
    double sum[TIME_KNOTS] = { 0 }, count[TIME_KNOTS] = { 0 };
    for (int64_t i = 0; i < n; i++) {
        const int b = bucket_of((double)step[i].n_row);
        sum[b] += (double)step[i].n_row;
        count[b]++;
    }
    for (int b = 0; b < TIME_KNOTS; b++)
        if (count[b] > 0)
            t->rows[t->n_knot++] = sum[b] / count[b];
}

/* Solves a x = b in place by elimination; a is positive definite but for columns that are all 0. */
static void solve(double a[N_MOST][N_MOST + 1], int n, double *x)
{
    for (int k = 0; k < n; k++)
        for (int i = k + 1; i < n; i++) {
            const double f = a[k][k] > 0 ? a[i][k] / a[k][k] : 0;
            for (int j = k; j <= n; j++)
                a[i][j] -= f * a[k][j];
        }
    for (int k = n - 1; k >= 0; k--) {
        double sum = a[k][n];
        for (int j = k + 1; j < n; j++)
            sum -= a[k][j] * x[j];
        x[k] = a[k][k] > 0 ? sum / a[k][k] : 0;
    }
}

/* By halves of a range: good enough for a scale. */
static double median_of(fit *f)
{
    for (int64_t i = 0; i < f->n; i++)
        f->size[i] = fabs(f->off[i]);
    double low = 0, high = 0;
    for (int64_t i = 0; i < f->n; i++)
        high = fmax(high, f->size[i]);
    for (int turn = 0; turn < 40; turn++) {
        const double middle = 0.5 * (low + high);
        int64_t below = 0;
        for (int64_t i = 0; i < f->n; i++)
            below += f->size[i] <= middle;
        *(2 * below >= f->n ? &high : &low) = middle;
    }
    return high;
}

/* One weighted least squares: errors relative to each step's time; those far off count less. */
static void regress(const step_times *t, fit *f, double far)
{
    double a[N_MOST][N_MOST + 1] = { { 0 } }, x[N_MOST], most[N_MOST] = { 0 };
    const int n = t->n_knot + TIME_SLOPES;
    for (int64_t i = 0; i < f->n; i++) {
        const double T = f->step[i].seconds;
        const double w = fabs(f->off[i]) > far ? far / fabs(f->off[i]) : 1;
        features(t, &f->step[i], x);
        for (int j = 0; j < n; j++)
            x[j] = f->used[j] ? x[j] / T : 0;
        for (int j = 0; j < n; j++) {
            for (int k = 0; k < n; k++)
                a[j][k] += w * x[j] * x[k];
            a[j][n] += w * x[j];
            most[j] = a[j][j];
        }
    }
    for (int j = 0; j < n; j++)
        a[j][j] += RIDGE * most[j];
    solve(a, n, f->at);
}

static void measure(const step_times *t, fit *f)
{
    double x[N_MOST];
    for (int64_t i = 0; i < f->n; i++) {
        double sum = 0;
        features(t, &f->step[i], x);
        for (int j = 0; j < t->n_knot + TIME_SLOPES; j++)
            sum += f->at[j] * x[j];
        f->off[i] = f->step[i].seconds / fmax(sum, LEAST_TIME * f->step[i].seconds) - 1;
    }
}

/* Slopes that come out negative, which noise can do, are held at 0, the most negative first. */
static void fit_bounded(step_times *t, fit *f, double far)
{
    for (int j = 0; j < N_MOST; j++)
        f->used[j] = true;
    for (int turn = 0; turn <= TIME_SLOPES; turn++) {
        int worst = -1;
        regress(t, f, far);
        for (int j = t->n_knot; j < t->n_knot + TIME_SLOPES; j++)
            if (f->at[j] < 0 && (worst < 0 || f->at[j] < f->at[worst]))
                worst = j;
        if (worst < 0)
            break;
        f->used[worst] = false;
    }
    memcpy(t->base, f->at, (size_t)t->n_knot * sizeof *t->base);
    memcpy(t->slope, f->at + t->n_knot, sizeof t->slope);
}

/* ---- the ratios ------------------------------------------------------------------------------ */

static int nearest_count(const step_times *t, double n_row)
{
    int best = 0;
    for (int k = 1; k < t->n_knot; k++)
        if (fabs(log(t->rows[k] / n_row)) < fabs(log(t->rows[best] / n_row)))
            best = k;
    return best;
}

/* Where it is not known how long it took to the next step, the mean is taken. */
static double mean_gap(const weft_step *step, int64_t n)
{
    double sum = 0;
    int64_t known = 0;
    for (int64_t i = 0; i < n; i++)
        if (step[i].before >= 0) {
            sum += step[i].before;
            known++;
        }
    return known > 0 ? sum / (double)known : 0;
}

static void keep_ratios(step_times *t, const weft_step *step, int64_t n, const fit *f)
{
    const double gap = mean_gap(step, n);
    int64_t at = 0;
    for (int k = 0; k < t->n_knot; k++) {
        t->first[k] = at;
        for (int64_t i = 0; i < n; i++)
            if (nearest_count(t, (double)step[i].n_row) == k) {
                const bool known = i + 1 < n && step[i + 1].before >= 0;
                t->ratio[at++] = (step_ratio){ 1 + f->off[i], known ? step[i + 1].before : gap, i };
            }
    }
    t->first[t->n_knot] = at;
}

static double explained_by(const fit *f)
{
    double mean = 0, all = 0, rest = 0;
    for (int64_t i = 0; i < f->n; i++)
        mean += f->step[i].seconds / (double)f->n;
    for (int64_t i = 0; i < f->n; i++) {
        const double T = f->step[i].seconds, off = T - T / (1 + f->off[i]);
        all += (T - mean) * (T - mean);
        rest += off * off;
    }
    return all > 0 ? fmax(0, 1 - rest / all) : 1;
}

static weft_status check(const weft_step *step, int64_t n, weft_error *err)
{
    for (int64_t i = 0; i < n; i++)
        if (step[i].n_row < 1 || step[i].n_draw < 0 || !(step[i].seconds > 0) ||
            !(step[i].seconds < 1e6) || !(step[i].before < 1e6) ||
            !(step[i].prompt_context >= 0 && step[i].prompt_context < 1e15) ||
            !(step[i].new_context >= 0 && step[i].new_context < 1e15))
            return weft_fail(err, WEFT_EINVAL,
                             "recorded step %lld: %lld rows, %lld draws in %g s; expected a row or "
                             "more, and a time",
                             (long long)i, (long long)step[i].n_row, (long long)step[i].n_draw,
                             step[i].seconds);
    return WEFT_OK;
}

weft_status step_times_fit(step_times *t, const weft_step *step, int64_t n, mem *m, weft_error *err)
{
    *t = (step_times){ .mem = m, .n = n };
    if (n < 1)
        return weft_fail(err, WEFT_EINVAL, "no recorded steps; expected one or more");
    if (check(step, n, err) != WEFT_OK)
        return err->code;
    fit f = { .step = step, .n = n };
    t->ratio = mem_zalloc(m, (size_t)n, sizeof *t->ratio, "recorded steps", err);
    f.off = mem_zalloc(m, (size_t)n, sizeof *f.off, "recorded steps", err);
    f.size = mem_zalloc(m, (size_t)n, sizeof *f.size, "recorded steps", err);
    if (t->ratio && f.off && f.size) {
        set_knots(t, step, n);
        for (int turn = 0; turn < N_TURN; turn++) {
            fit_bounded(t, &f, turn > 0 ? fmax(FAR * median_of(&f), 1e-6) : INFINITY);
            measure(t, &f);
        }
        keep_ratios(t, step, n, &f);
        t->explained = explained_by(&f);
    }
    mem_free(m, f.size);
    mem_free(m, f.off);
    if (t->n_knot > 0)
        return WEFT_OK;
    step_times_free(t);
    return WEFT_ENOMEM;
}

void step_times_free(step_times *t)
{
    if (t->mem)
        mem_free(t->mem, t->ratio);
    *t = (step_times){ 0 };
}

double step_times_mean(const step_times *t, const step_shape *s, int64_t n_draw)
{
    double share;
    const int k = place(t, (double)s->n_row, &share);
    const double next = k + 1 < t->n_knot ? t->base[k + 1] : 0;
    const double T = (1 - share) * t->base[k] + share * next + t->slope[0] * (double)n_draw +
                     t->slope[1] * s->prompt + t->slope[2] * s->fresh;
    return fmax(T, 1e-9);
}

/* The first of a bucket's NEAR steps around a place of the record. */
static int64_t near_place(const step_times *t, int bucket, int64_t place)
{
    const int64_t begin = t->first[bucket], end = t->first[bucket + 1];
    int64_t low = begin, high = end;
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if (t->ratio[middle].at < place)
            low = middle + 1;
        else
            high = middle;
    }
    low -= NEAR / 2;
    low = low < end - NEAR ? low : end - NEAR;
    return low > begin ? low : begin;
}

step_ratio step_times_pick(const step_times *t, int64_t n_row, int64_t at, uint64_t which)
{
    int low = nearest_count(t, (double)n_row), high = low + 1;
    assert(t->n_knot > 0);
    if (at >= 0 && t->first[high] - t->first[low] >= ENOUGH)
        return t->ratio[near_place(t, low, at % t->n) + (int64_t)(which % NEAR)];
    while (t->first[high] - t->first[low] < ENOUGH && (low > 0 || high < t->n_knot)) {
        low -= low > 0;
        high += high < t->n_knot;
    }
    const uint64_t n = (uint64_t)(t->first[high] - t->first[low]);
    return t->ratio[t->first[low] + (int64_t)(which % n)];
}
