/* kernel.c - attention of 1964: a curve from noisy points. Nadaraya and Watson's estimate at a place is
 * the mean of what was measured nearby; how near is the kernel's width, which is chosen so that each
 * point is best told from the others.
 *
 *     cc kernel.c $(pkg-config --cflags --libs weft) -lm -o kernel
 *     ./kernel gaussian */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <weft.h>

enum { N = 80, SHOWN = 11 };

static const char *const names[] = { "gaussian", "boxcar", "epanechnikov" };

static double curve(double x)
{
    return 2 * sin(x) + x;
}

/* Places from 0 to 5, and noise that looks like it: sums of fractions are nearly normal. */
static void measure(float *x, float *y)
{
    for (int i = 0; i < N; i++) {
        double noise = 0;
        for (int k = 1; k <= 6; k++)
            noise += fmod(sin(i * 12.9898 + k * 78.233) * 43758.5453, 1) / 2;
        x[i] = (float)(5 * (i + 0.5) / N);
        y[i] = (float)(curve((double)x[i]) + 0.5 * noise);
    }
}

/* Mean squared error of each point, told from the others; negative where weft refuses. */
static double left_out(weft_kernel kernel, double width, const float *x, const float *y,
                       weft_error *err)
{
    double sum = 0;
    for (int i = 0; i < N; i++) {
        float keys[N - 1], values[N - 1], told;
        for (int j = 0; j < N - 1; j++) {
            keys[j] = x[j + (j >= i)];
            values[j] = y[j + (j >= i)];
        }
        if (weft_kernel_pool(kernel, width, &x[i], 1, keys, values, N - 1, &told, err) != WEFT_OK)
            return -1;
        sum += (double)(told - y[i]) * (double)(told - y[i]) / N;
    }
    return sum;
}

int main(int argc, char **argv)
{
    weft_error err;
    weft_kernel kernel = WEFT_KERNEL_GAUSSIAN;
    while (kernel <= WEFT_KERNEL_EPANECHNIKOV && argc > 1 && strcmp(argv[1], names[kernel]) != 0)
        kernel++;
    if (argc > 2 || kernel > WEFT_KERNEL_EPANECHNIKOV)
        return fprintf(stderr, "usage: kernel [gaussian|boxcar|epanechnikov]\n"), 2;

    float x[N], y[N], at[SHOWN], told[SHOWN];
    measure(x, y);
    double width = 0, best = INFINITY;
    for (double w = 0.05; w < 3; w *= 1.1) {
        const double e = left_out(kernel, w, x, y, &err);
        if (e < 0)
            return fprintf(stderr, "%s\n", err.message), 1;
        width = e < best ? w : width;
        best = e < best ? e : best;
    }
    for (int i = 0; i < SHOWN; i++)
        at[i] = 5.0f * (float)i / (SHOWN - 1);
    if (weft_kernel_pool(kernel, width, at, SHOWN, x, y, N, told, &err) != WEFT_OK)
        return fprintf(stderr, "%s\n", err.message), 1;
    printf("%s kernel of width %.2f, error on points left out %.2f\n", names[kernel], width,
           sqrt(best));
    for (int i = 0; i < SHOWN; i++)
        printf("%4.1f  %6.2f  curve %6.2f\n", (double)at[i], (double)told[i], curve((double)at[i]));
    return 0;
}
