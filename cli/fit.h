/* fit.h - a polynomial through measurements, by least squares. */
#ifndef WEFT_CLI_FIT_H
#define WEFT_CLI_FIT_H

#include <stdbool.h>
#include <stdint.h>

#define FIT_DEGREE 2
#define FIT_POINTS 64 /* most points */

typedef struct polynomial {
    double at[FIT_DEGREE + 1]; /* y = at[0] + at[1] x + at[2] x^2 */
    double
        r2; /* share of the variance of y that it explains; below 0 if a bound makes it worse than
                  the mean */
} polynomial;

/* The polynomial of least squared error. Bit k of `bounded`: at[k] may not be below 0, as the costs
 * of a length are. False if there are too many points, fewer different x than coefficients, or
 * numbers that are not finite. */
bool fit_polynomial(const double *x, const double *y, int n, int degree, unsigned bounded,
                    polynomial *to);

/* Its values at 0, 1 ... n - 1, added. */
double polynomial_sum(const polynomial *p, int64_t n);

#endif
