/* kernel_regression FILE.svg - a noisy curve found again by Nadaraya-Watson pooling with each kernel.
 *
 * Each point is predicted from the others, and the width follows the slope of the squared error: the
 * op runs on the tape as in any model. The boxcar has no slope, so its width is the best of some that
 * are tried. Prints widths and errors, draws points and curves; fails where a curve is further than
 * half the noise from what it should be. */
#include "base/host.h"
#include "base/rng.h"
#include "ops/ops.h"
#include "tensor/tape.h"

#include <stdio.h>
#include <stdlib.h>

enum { POINTS = 80, STEPS = 300, DRAWN = 241 };
#define NOISE  0.5
#define WIDEST 2.0 /* where widths begin */

typedef struct curve {
    run run;
    batch nobody;
    tensor x, y;  /* [POINTS, 1] */
    tensor asked; /* x again, as queries */
    tensor at;    /* [DRAWN, 1] */
    tensor width; /* [1, 1], as a logarithm */
    real found[DRAWN];
} curve;

static const char *const kernel_names[] = { "gaussian", "boxcar", "epanechnikov" };
static const char *const colors[] = { "#2563c9", "#c08a1e", "#0f8a6d" };

static double truth(double x)
{
    return 2 * sin(x) + pow(x, 0.8);
}

static tensor column(real *data, int64_t n)
{
    return (tensor){
        .type = &dtype_real, .n_dim = 2, .shape = { n, 1 }, .stride = 1, .data = data, .born = -1
    };
}

static void curve_init(curve *c)
{
    static real x[POINTS], y[POINTS], at[DRAWN], width[1], slope[1];
    for (int i = 0; i < POINTS; i++) {
        x[i] = 5 * rng_uniform(7, 0, (uint64_t)i);
        y[i] = (real)(truth((double)x[i]) + NOISE * rng_normal(7, 1, (uint64_t)i));
    }
    for (int i = 0; i < DRAWN; i++)
        at[i] = 5 * (real)i / (DRAWN - 1);
    c->x = column(x, POINTS);
    c->asked = column(x, POINTS);
    c->y = column(y, POINTS);
    c->at = column(at, DRAWN);
    c->width = column(width, 1);
    c->width.grad = slope;
    c->width.needs_grad = c->width.is_param = c->width.grad_taken = true;
}

/* The squared error of points predicted from the others; also its slope, if requested. */
static double error_of_others(curve *c, kernel_kind kind, bool with_slope)
{
    tape t = { 0 };
    real dy[POINTS];
    double sum = 0;
    run_begin(&c->run, &c->nobody);
    if (with_slope)
        tape_begin(&c->run, &t);
    tensor *found = kernel_pool(&c->run, &c->asked, &c->x, &c->y, &c->width, kind, true);
    for (int i = 0; i < POINTS; i++) {
        const real off = row(found, i)[0] - row(&c->y, i)[0];
        dy[i] = 2 * off / POINTS;
        sum += (double)(off * off) / POINTS;
    }
    c->width.grad_written = false;
    if (with_slope)
        tape_backward(&c->run, found, dy);
    return sum;
}

static void set_width(curve *c, double width)
{
    row(&c->width, 0)[0] = (real)log(width);
}

static void learn(curve *c, kernel_kind kind)
{
    set_width(c, WIDEST);
    for (int i = 0; i < STEPS; i++) {
        error_of_others(c, kind, true);
        row(&c->width, 0)[0] -= (real)0.3 * c->width.grad[0];
    }
}

static void try_widths(curve *c, kernel_kind kind)
{
    double best = INFINITY, width = WIDEST;
    for (double w = WIDEST; w > 0.05; w *= 0.9) {
        set_width(c, w);
        const double error = error_of_others(c, kind, false);
        width = error < best ? w : width;
        best = fmin(best, error);
    }
    set_width(c, width);
}

/* The curve at the widths found; returns how far it is from the true one, root mean square. */
static double trace_curve(curve *c, kernel_kind kind)
{
    double sum = 0;
    run_begin(&c->run, &c->nobody);
    const tensor *y = kernel_pool(&c->run, &c->at, &c->x, &c->y, &c->width, kind, false);
    for (int i = 0; i < DRAWN; i++) {
        c->found[i] = row(y, i)[0];
        const double off = (double)c->found[i] - truth((double)row(&c->at, i)[0]);
        sum += off * off / DRAWN;
    }
    return sqrt(sum);
}

/* ---- the picture ----------------------------------------------------------------------------- */

static double across(double x)
{
    return 30 + 120 * x;
}

static double down(double y)
{
    return 330 - 65 * y;
}

static void draw_line(FILE *f, const curve *c, bool true_one, const char *color, const char *more)
{
    fprintf(f, "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"2\"%s points=\"", color, more);
    for (int i = 0; i < DRAWN; i++) {
        const double x = (double)row(&c->at, i)[0];
        fprintf(f, "%.1f,%.1f ", across(x), down(true_one ? truth(x) : (double)c->found[i]));
    }
    fputs("\"/>\n", f);
}

static void draw_points(FILE *f, const curve *c)
{
    fputs("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"660\" height=\"360\" "
          "font-family=\"ui-monospace,Menlo,Consolas,monospace\" font-size=\"13\">\n"
          "<rect width=\"660\" height=\"360\" fill=\"#fff\"/>\n",
          f);
    for (int i = 0; i < POINTS; i++)
        fprintf(f, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\" fill=\"#1d1f24\" opacity=\".35\"/>\n",
                across((double)row(&c->x, i)[0]), down((double)row(&c->y, i)[0]));
    draw_line(f, c, true, "#8a8f98", " stroke-dasharray=\"5 4\"");
    fputs("<text x=\"190\" y=\"266\" fill=\"#6b7280\">the curve</text>\n", f);
}

static bool one_kernel(curve *c, kernel_kind kind, FILE *f)
{
    (kind == KERNEL_BOXCAR ? try_widths : learn)(c, kind);
    const double width = exp((double)row(&c->width, 0)[0]);
    const double others = sqrt(error_of_others(c, kind, false)), off = trace_curve(c, kind);
    printf("%-14s %8.3f %12.3f %10.3f\n", kernel_names[kind], width, others, off);
    draw_line(f, c, false, colors[kind], "");
    fprintf(f, "<text x=\"190\" y=\"%d\" fill=\"%s\">%s, width %.2f</text>\n", 284 + 18 * (int)kind,
            colors[kind], kernel_names[kind], width);
    return off < NOISE / 2;
}

int main(int argc, char **argv)
{
    static curve c;
    host h = { .io = io_system };
    weft_error err = { 0 };
    FILE *f = argc == 2 ? fopen(argv[1], "w") : NULL;
    if (!f) {
        fprintf(stderr, "kernel_regression FILE.svg\n");
        return 2;
    }
    mem_init(&h.mem, 0, NULL);
    if (run_init(&c.run, &h.mem, 1 << 16, 1 << 16, 64, &err) != WEFT_OK) {
        fprintf(stderr, "%s\n", err.message);
        return 1;
    }
    c.run.kern = kernels_select(&h.log);
    curve_init(&c);
    draw_points(f, &c);
    bool good = true;
    printf("%d points, noise %.2f\n%-14s %8s %12s %10s\n", POINTS, NOISE, "kernel", "width",
           "of others", "of curve");
    for (int kind = KERNEL_GAUSSIAN; kind <= KERNEL_EPANECHNIKOV; kind++)
        good = one_kernel(&c, (kernel_kind)kind, f) && good;
    fputs("</svg>\n", f);
    run_free(&c.run);
    return fclose(f) == 0 && good ? 0 : 1;
}
