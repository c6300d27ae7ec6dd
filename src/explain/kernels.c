/* kernels.c - kernel regression of points, with the op that models could use (ops/kernel_pool.c).
 *
 * Each point is predicted from the others, and the width follows the slope of the squared error,
 * which the tape gives as in training. The error is divided by the variance of y, so that a step
 * does not depend on the unit. A boxcar has no slope, so its width is the best of some. The weights
 * of a kernel are what it makes of an identity matrix as values. */
#include "explain/kernels.h"

#include "explain/page.h"
#include "tensor/tape.h"

#include <math.h>
#include <string.h>

#define RATE 0.7
#define LONG 0.3 /* the largest step of a logarithm */

typedef struct regression {
    run run;
    batch nobody;
    const points *points;
    double spread; /* the variance of y */
    kernel_kind kind;
    tensor x, y, asked, at, unit; /* [n, 1]; x again, as queries; [KERNEL_DRAWN, 1]; [n, n] */
    tensor width;                 /* [1, 1], as a logarithm */
    real width_at, slope;
    real *one; /* of unit */
} regression;

static tensor matrix_of(const real *data, int64_t n, int64_t cols)
{
    return (tensor){ .type = &dtype_real,
                     .n_dim = 2,
                     .shape = { n, cols },
                     .stride = cols,
                     .data = (void *)data,
                     .born = -1 };
}

static const tensor *pooled(regression *g, tensor *asked, tensor *values, bool others)
{
    return kernel_pool(&g->run, asked, &g->x, values, &g->width, g->kind, others);
}

/* The mean squared error of points predicted from the others; also its slope, by the logarithm of the
 * width. */
static double error_of_others(regression *g, bool with_slope)
{
    tape t = { 0 };
    real dy[POINTS_MOST];
    double sum = 0;
    const int64_t n = g->points->n;
    run_begin(&g->run, &g->nobody);
    if (with_slope)
        tape_begin(&g->run, &t);
    tensor *told = kernel_pool(&g->run, &g->asked, &g->x, &g->y, &g->width, g->kind, true);
    for (int64_t i = 0; i < n; i++) {
        const real off = row(told, i)[0] - row(&g->y, i)[0];
        dy[i] = (real)(2 * (double)off / (double)n / g->spread);
        sum += (double)off * (double)off / (double)n;
    }
    g->width.grad_written = false;
    if (with_slope)
        tape_backward(&g->run, told, dy);
    return sum;
}

static void note(regression *g, kernel_fit *f, double squared_error)
{
    f->path[f->n_step] = (float)exp((double)g->width_at);
    f->rms_errors[f->n_step++] = (float)sqrt(squared_error);
}

/* Widths begin at two fifths of the range. */
static double widest(const points *p)
{
    return 0.4 * ((double)p->x[p->n - 1] - (double)p->x[0]);
}

static void learn(regression *g, kernel_fit *f)
{
    g->width_at = (real)log(widest(g->points));
    for (int i = 0; i < KERNEL_STEPS; i++) {
        note(g, f, error_of_others(g, true));
        g->width_at -= (real)fmax(-LONG, fmin(LONG, RATE * (double)g->slope));
    }
}

static void try_widths(regression *g, kernel_fit *f)
{
    double best = INFINITY, width = widest(g->points);
    for (int i = 0; i < 40; i++) {
        g->width_at = (real)log(2 * widest(g->points) * pow(0.9, i));
        note(g, f, error_of_others(g, false));
        width = (double)f->rms_errors[i] < best ? (double)f->path[i] : width;
        best = fmin(best, (double)f->rms_errors[i]);
    }
    g->width_at = (real)log(width);
}

static void take(float *to, const tensor *y)
{
    for (int64_t i = 0; i < rows(y); i++)
        for (int64_t k = 0; k < cols(y); k++)
            to[i * cols(y) + k] = (float)row(y, i)[k];
}

static void fit_kernel(regression *g, kernel_fit *f)
{
    f->n_step = 0;
    f->learns = g->kind == KERNEL_GAUSSIAN || g->kind == KERNEL_EPANECHNIKOV;
    if (f->learns)
        learn(g, f);
    else if (g->kind == KERNEL_BOXCAR)
        try_widths(g, f);
    else
        g->width_at = (real)log(widest(g->points));
    f->width = exp((double)g->width_at);
    f->rms_error = sqrt(error_of_others(g, false));
    run_begin(&g->run, &g->nobody);
    take(f->curve, pooled(g, &g->at, &g->y, false));
    run_begin(&g->run, &g->nobody);
    take(f->weights, pooled(g, &g->asked, &g->unit, false));
}

static void all_kernels(regression *g, kernel_study *s)
{
    static const struct {
        kernel_kind kind;
        const char *name, *formula;
    } kinds[N_KERNEL_FIT] = {
        { KERNEL_GAUSSIAN, "gaussian", "K(u) = exp(-u²/2)" },
        { KERNEL_BOXCAR, "boxcar", "K(u) = 1 where |u| ≤ 1" },
        { KERNEL_EPANECHNIKOV, "epanechnikov", "K(u) = max(0, 1 - u²)" },
        { KERNEL_CONSTANT, "constant", "K(u) = 1" },
    };
    for (int i = 0; i < N_KERNEL_FIT; i++) {
        g->kind = kinds[i].kind;
        s->fit[i].name = kinds[i].name;
        s->fit[i].formula = kinds[i].formula;
        fit_kernel(g, &s->fit[i]);
    }
}

static double variance(const points *p)
{
    double mean = 0, square = 0;
    for (int64_t i = 0; i < p->n; i++)
        mean += (double)p->y[i] / (double)p->n;
    for (int64_t i = 0; i < p->n; i++)
        square += ((double)p->y[i] - mean) * ((double)p->y[i] - mean) / (double)p->n;
    return square > 0 ? square : 1;
}

static void regression_init(regression *g, kernel_study *s, const points *p, real *one)
{
    *g = (regression){ .points = p, .spread = variance(p), .one = one };
    for (int64_t i = 0; i < KERNEL_DRAWN; i++)
        s->at[i] = p->x[0] + (p->x[p->n - 1] - p->x[0]) * (float)i / (KERNEL_DRAWN - 1);
    for (int64_t i = 0; i < p->n; i++)
        one[i * p->n + i] = 1;
    g->x = matrix_of(p->x, p->n, 1);
    g->asked = g->x;
    g->y = matrix_of(p->y, p->n, 1);
    g->at = matrix_of(s->at, KERNEL_DRAWN, 1);
    g->unit = matrix_of(one, p->n, p->n);
    g->width = matrix_of(&g->width_at, 1, 1);
    g->width.grad = &g->slope;
    g->width.needs_grad = g->width.is_param = g->width.grad_taken = true;
}

weft_status kernels_study(kernel_study *s, const points *p, const char *title, host *h,
                          weft_error *err)
{
    regression g;
    const size_t n = (size_t)p->n;
    real *one = mem_zalloc(&h->mem, n * n, sizeof *one, "a matrix", err);
    if (!one)
        return err->code;
    s->points = p;
    s->title = title;
    regression_init(&g, s, p, one);
    const weft_status status = run_init(&g.run, &h->mem, 1 << 14, (n * n + 1024) * 2 * sizeof(real),
                                        64, err);
    if (status == WEFT_OK) {
        g.run.kern = kernels_select(&h->log);
        all_kernels(&g, s);
        run_free(&g.run);
    }
    mem_free(&h->mem, one);
    return status;
}

/* ---- the document ---------------------------------------------------------------------------- */

static void write_fit(const kernel_study *s, const kernel_fit *f, document *d)
{
    doc_object(d, NULL);
    doc_text(d, "name", f->name);
    doc_text(d, "formula", f->formula);
    doc_bool(d, "learns", f->learns);
    doc_real(d, "width", f->width);
    doc_real(d, "rms_error", f->rms_error);
    doc_floats(d, "path", f->path, f->n_step);
    doc_floats(d, "rms_errors", f->rms_errors, f->n_step);
    doc_floats(d, "curve", f->curve, KERNEL_DRAWN);
    doc_floats(d, "weights", f->weights, s->points->n * s->points->n);
    doc_end(d);
}

void kernels_write(const kernel_study *s, document *d)
{
    doc_object(d, NULL);
    doc_object(d, "model");
    doc_text(d, "title", s->title);
    doc_end(d);
    doc_list(d, "tokens");
    doc_end(d);
    doc_list(d, "views");
    doc_object(d, NULL);
    doc_int(d, "number", 19);
    doc_text(d, "view", "kernels");
    doc_text(d, "title", "Kernels");
    doc_text(d, "seed", "004 §1.3");
    doc_text(d, "x_name", s->points->name[0]);
    doc_text(d, "y_name", s->points->name[1]);
    doc_floats(d, "x", s->points->x, s->points->n);
    doc_floats(d, "y", s->points->y, s->points->n);
    doc_floats(d, "at", s->at, KERNEL_DRAWN);
    doc_list(d, "kernels");
    for (int i = 0; i < N_KERNEL_FIT; i++)
        write_fit(s, &s->fit[i], d);
    doc_end(d);
    doc_end(d);
    doc_end(d);
    doc_end(d);
}

void kernels_page(const kernel_study *s, document *d)
{
    page_begin(s->title, d);
    kernels_write(s, d);
    page_end(NULL, NULL, d);
}
