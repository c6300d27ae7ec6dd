/* test_fit.c - polynomials through points (cli/fit.c). */
#include "support.h"

#include "fit.h"

#include <math.h>

static const double lengths[] = { 32, 64, 128, 256, 700 };
#define FREE    0u /* which coefficients have a bound */
#define RISING  6u
#define BOUNDED 7u
#define N       (int)(sizeof lengths / sizeof *lengths)

/* Nine digits, and of a 0 thirteen below the largest number that went in. */
static void near_of(double found, double expected, double largest)
{
    assert_that(fabs(found - expected) <= 1e-9 * fabs(expected) + 1e-13 * largest,
                "%.15g, expected %.15g", found, expected);
}

static void near(double found, double expected)
{
    near_of(found, expected, 1);
}

static void evaluate(const double *x, int n, double a, double b, double c, double *y)
{
    for (int i = 0; i < n; i++)
        y[i] = a + b * x[i] + c * x[i] * x[i];
}

static double error_of(const double *x, const double *y, int n, double a, double b, double c)
{
    double sum = 0;
    for (int i = 0; i < n; i++) {
        const double d = a + b * x[i] + c * x[i] * x[i] - y[i];
        sum += d * d;
    }
    return sum;
}

/* Without noise the coefficients come back, those that are 0 included. */
static void known(void **state)
{
    (void)state;
    static const double cases[][3] = {
        { 3, 0.25, 0.001 }, { -7, 2, 0 }, { 5, 0, 0.5 }, { 1, 0, 0 }, { 0, 1e-6, 1e-9 }
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        double y[N];
        polynomial p;
        const double *w = cases[k];
        evaluate(lengths, N, w[0], w[1], w[2], y);
        for (unsigned bounded = FREE; bounded <= BOUNDED; bounded++) {
            if (w[0] < 0 && bounded & 1)
                continue;
            assert_true(fit_polynomial(lengths, y, N, 2, bounded, &p));
            for (int i = 0; i < 3; i++)
                near_of(p.at[i], w[i], y[N - 1]);
            near(p.r2, 1);
            assert_true(fit_polynomial(lengths, y, N, 1, bounded, &p) && p.at[2] == 0);
            if (w[2] == 0)
                near_of(p.at[1], w[1], y[N - 1]);
        }
    }
}

/* A line of known residuals: y = 0, 1, 5 at 0, 1, 2 has b = 5 / 2, a = 2 - b, and what it does not
 * explain is 1.5 of 14. */
static void known_residuals(void **state)
{
    (void)state;
    const double x[] = { 0, 1, 2 }, y[] = { 0, 1, 5 };
    polynomial p;
    assert_true(fit_polynomial(x, y, 3, 1, RISING, &p));
    near(p.at[1], 2.5);
    near(p.at[0], -0.5);
    near(p.r2, 1 - 1.5 / 14);
    assert_true(
        fit_polynomial(x, y, 3, 1, BOUNDED, &p)); /* through 0: 11 / 5, error 26 - 121 / 5 */
    near(p.at[1], 2.2);
    assert_true(p.at[0] == 0);
    near(p.r2, 1 - 1.8 / 14);
    assert_true(fit_polynomial(x, y, 3, 0, BOUNDED, &p));
    near(p.at[0], 2);
    near(p.r2, 0);
}

/* What falls is fitted by what does not: a bound that is reached is exactly 0, and what is left is
 * the least squares of the rest. */
static void bounds(void **state)
{
    (void)state;
    double y[N], mean = 0;
    polynomial p, line;
    evaluate(lengths, N, 10, -1, 0, y);
    for (int i = 0; i < N; i++)
        mean += y[i] / N;
    assert_true(fit_polynomial(lengths, y, N, 2, RISING, &p));
    assert_true(p.at[1] == 0 && p.at[2] == 0);
    near(p.at[0], mean);
    near(p.r2, 0);
    evaluate(lengths, N, 0, 3, -0.001, y); /* rises, and bends down */
    assert_true(fit_polynomial(lengths, y, N, 2, RISING, &p) &&
                fit_polynomial(lengths, y, N, 1, RISING, &line));
    assert_true(p.at[2] == 0 && p.at[1] > 0 && p.r2 > 0.9 && p.r2 < 1);
    near(p.at[0], line.at[0]);
    near(p.at[1], line.at[1]);
    evaluate(lengths, N, 0, -0.1, 0.01, y); /* falls first: the best parabola has no line */
    assert_true(fit_polynomial(lengths, y, N, 2, RISING, &p));
    assert_true(p.at[1] == 0 && p.at[2] > 0);
}

static bool keeps(unsigned bounded, double a, double b, double c)
{
    return (a >= 0 || !(bounded & 1)) && (b >= 0 || !(bounded & 2)) && (c >= 0 || !(bounded & 4));
}

/* No allowed polynomial near the one that was found is better. */
static void least(void **state)
{
    (void)state;
    static const double step[] = { -1e-3, 0, 1e-3 };
    for (uint64_t key = 0; key < 200; key++) {
        real noise[N];
        double y[N];
        polynomial p;
        fill_normal(noise, N, key, 1, 1);
        evaluate(lengths, N, 1, key % 3 ? 1e-3 : -1e-2, key % 2 ? 1e-5 : 0, y);
        for (int i = 0; i < N; i++)
            y[i] += noise[i];
        const unsigned bounded = (unsigned)key % 8;
        assert_true(fit_polynomial(lengths, y, N, 2, bounded, &p));
        assert_true(keeps(bounded, p.at[0], p.at[1], p.at[2]));
        const double best = error_of(lengths, y, N, p.at[0], p.at[1], p.at[2]);
        for (int i = 0; i < 27; i++) {
            const double a = p.at[0] + step[i % 3], b = p.at[1] + step[i / 3 % 3] / 100,
                         c = p.at[2] + step[i / 9] / 1e4;
            if (keeps(bounded, a, b, c))
                assert_true(error_of(lengths, y, N, a, b, c) >= best * (1 - 1e-12));
        }
    }
}

static void refused(void **state)
{
    (void)state;
    double x[FIT_POINTS + 1], y[FIT_POINTS + 1];
    polynomial p;
    for (int i = 0; i <= FIT_POINTS; i++)
        x[i] = y[i] = i;
    assert_true(fit_polynomial(x, y, FIT_POINTS, 2, RISING, &p));
    assert_false(fit_polynomial(x, y, FIT_POINTS + 1, 2, RISING, &p));
    assert_false(fit_polynomial(x, y, 2, 2, RISING, &p));
    assert_true(fit_polynomial(x, y, 3, 2, RISING, &p));
    assert_false(fit_polynomial(x, y, 0, 0, RISING, &p));
    assert_true(fit_polynomial(x, y, 1, 0, RISING, &p)); /* at 0, which scales nothing */
    assert_true(p.at[0] == 0 && p.r2 == 1);
    assert_false(fit_polynomial(x, y, 3, FIT_DEGREE + 1, RISING, &p));
    assert_false(fit_polynomial(x, y, 3, -1, RISING, &p));
    x[1] = 0; /* 0, 0, 2: two different ones */
    assert_false(fit_polynomial(x, y, 3, 2, RISING, &p));
    assert_true(fit_polynomial(x, y, 3, 1, RISING, &p));
    y[1] = NAN;
    assert_false(fit_polynomial(x, y, 3, 1, RISING, &p));
    y[1] = 1e200; /* its square is not finite */
    assert_false(fit_polynomial(x, y, 3, 1, RISING, &p));
    y[1] = 1;
    x[2] = INFINITY;
    assert_false(fit_polynomial(x, y, 3, 1, RISING, &p));
}

static void sums(void **state)
{
    (void)state;
    const polynomial p = { { 3, 0.5, 0.25 }, 1 };
    double sum = 0;
    for (int64_t n = 0; n < 50; n++) {
        near(polynomial_sum(&p, n), sum);
        sum += 3 + 0.5 * (double)n + 0.25 * (double)(n * n);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST("fit: polynomials without noise give their coefficients back", known),
        TEST("fit: a line through three points has the known slope and R2", known_residuals),
        TEST("fit: coefficients that would be negative are 0", bounds),
        TEST("fit: nothing allowed nearby has a smaller error", least),
        TEST("fit: too few, too many and infinite points are refused", refused),
        TEST("fit: the sum of a polynomial is that of its values", sums),
    };
    return RUN(tests);
}
