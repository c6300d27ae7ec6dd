/* fit.c - least squares with coefficients that may not be negative.
 *
 * The error is convex, so its minimum under the bounds is the plain least squares solution over some
 * subset of the powers, the others being 0. Three powers have eight subsets: all of them are solved,
 * and the best one that keeps the bounds is taken. */
#include "fit.h"

#include <float.h>
#include <math.h>
#include <string.h>

typedef struct points {
    const double *x, *y;
    int n;
    double scale; /* greatest |x|: powers of x / scale stay near 1 */
} points;

static double dot(const double *a, const double *b, int n)
{
    double sum = 0;
    for (int i = 0; i < n; i++)
        sum += a[i] * b[i];
    return sum;
}

/* y += a x */
static void add(double *y, double a, const double *x, int n)
{
    for (int i = 0; i < n; i++)
        y[i] += a * x[i];
}

/* The coefficients of the given powers of x / scale, by Gram and Schmidt: each column gives up what
 * the earlier ones explain, and y likewise. Returns the squared error. */
static double solve(const points *p, const int *power, int n_power, double *coefficient)
{
    double q[FIT_DEGREE + 1][FIT_POINTS], r[FIT_DEGREE + 1][FIT_DEGREE + 1], rest[FIT_POINTS];
    memcpy(rest, p->y, (size_t)p->n * sizeof *rest);
    for (int k = 0; k < n_power; k++) {
        for (int i = 0; i < p->n; i++)
            q[k][i] = pow(p->x[i] / p->scale, power[k]);
        for (int j = 0; j < k; j++) {
            r[j][k] = dot(q[j], q[k], p->n) / dot(q[j], q[j], p->n);
            add(q[k], -r[j][k], q[j], p->n);
        }
        coefficient[k] = dot(q[k], rest, p->n) / dot(q[k], q[k], p->n);
        add(rest, -coefficient[k], q[k], p->n);
    }
    for (int k = n_power - 1; k >= 0; k--)
        for (int j = k + 1; j < n_power; j++)
            coefficient[k] -= r[k][j] * coefficient[j];
    return dot(rest, rest, p->n);
}

/* Solves for the powers of a set (bit k: power k) and keeps the result if it is allowed and better
 * than the one before. */
static void try_powers(const points *p, unsigned set, unsigned bounded, double *least,
                       polynomial *to)
{
    int power[FIT_DEGREE + 1], n = 0;
    double coefficient[FIT_DEGREE + 1];
    for (int k = 0; k <= FIT_DEGREE; k++)
        if (set >> k & 1)
            power[n++] = k;
    const double error = solve(p, power, n, coefficient);
    for (int k = 0; k < n; k++)
        if (bounded >> power[k] & 1 && !(coefficient[k] >= 0))
            return;
    if (!(error < *least))
        return;
    *least = error;
    memset(to->at, 0, sizeof to->at);
    for (int k = 0; k < n; k++)
        to->at[power[k]] = coefficient[k] / pow(p->scale, power[k]);
}

static bool is_solvable(const double *x, int n, int degree)
{
    int different = 0;
    if (n > FIT_POINTS || degree < 0 || degree > FIT_DEGREE)
        return false;
    for (int i = 0; i < n; i++) {
        int before = 0;
        while (x[before] != x[i] && before < i)
            before++;
        different += before == i;
        if (!isfinite(x[i]))
            return false;
    }
    return different > degree;
}

bool fit_polynomial(const double *x, const double *y, int n, int degree, unsigned bounded,
                    polynomial *to)
{
    points p = { x, y, n, DBL_MIN };
    double mean = 0, all = 0, least = INFINITY;
    *to = (polynomial){ 0 };
    if (!is_solvable(x, n, degree))
        return false;
    const unsigned every = (2u << degree) - 1; /* power k is bit k */
    for (int i = 0; i < n; i++) {
        p.scale = fmax(p.scale, fabs(x[i]));
        mean += y[i] / n;
    }
    for (int i = 0; i < n; i++)
        all += (y[i] - mean) * (y[i] - mean);
    for (unsigned set = 0; set <= every; set++)
        if (((set | bounded) & every) == every) /* without a bound none is left out */
            try_powers(&p, set, bounded, &least, to);
    to->r2 = all > 0 ? 1 - least / all : 1;
    return isfinite(least); /* not if some y is not */
}

double polynomial_sum(const polynomial *p, int64_t n)
{
    const double t = (double)n;
    return p->at[0] * t + p->at[1] * t * (t - 1) / 2 + p->at[2] * (t - 1) * t * (2 * t - 1) / 6;
}
